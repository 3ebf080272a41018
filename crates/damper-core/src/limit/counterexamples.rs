//! Counterexamples of `proofs/run`, as tests.
//!
//! A failed proof prints the body of a test. Paste it here as a test, which fails until the code is mended. The
//! functions below create the inputs of such tests.

use super::token_bucket::{TakeError, TokenLine};
use super::windows::{CountedWindow, WindowLine};
use crate::quota::{Line, Quota, Timeline};
use crate::sync::Field;
use crate::time::{Clock, Frequency, Scale, Ticks};

/// A clock that always reads 0. Its `max_step_back` is the given number of ticks.
struct Steady(u64);

impl Clock for Steady {
    fn now(&self) -> u64 {
        0
    }

    fn frequency(&self) -> u64 {
        1
    }

    fn max_step_back(&self) -> u64 {
        self.0
    }
}

/// Creates a timeline from its fields.
///
/// They are `[origin, start, mult, inverse, brought, shape, deepest_ever, behind]`.
fn timeline(fields: [u64; 8]) -> Timeline {
    Timeline::of_fields(fields, fields[6], false)
}

fn token_line(quota: &Quota, fields: [u64; 8]) -> TokenLine {
    let timeline = Timeline::of_fields(fields, TokenLine::deepest_debt(quota), quota.is_unlimited());
    <TokenLine as Line>::new(timeline, quota)
}

fn window_line(quota: &Quota, fields: [u64; 8]) -> WindowLine {
    <WindowLine as Line>::new(Timeline::of_fields(fields, WindowLine::deepest_debt(quota), false), quota)
}

/// Returns the packed `shape` of a timeline with these fraction bits, on which each tick brings one unit.
fn shape(fraction_bits: u64) -> u64 {
    fraction_bits << 58 | 1 << 14 | 63 << 6
}

/// The lines that the functions above create decide like the lines that the crate creates.
#[test]
fn made_lines_decide_as_lines_of_the_code_do() {
    let quota = Quota::per_second(10).max_debt(5);
    let line = token_line(&quota, [0, 0, 1, 1 << 63, 0, shape(4), 15, 0]);
    assert_eq!(line.take(0, 100, 10), Ok(100 + (10 << 4)));
    assert_eq!(line.take(100, 100, 11), Err(TakeError::ExceedsBurst));
    assert_eq!(line.heal(100 + (15 << 4), 100, &Steady(0)), None);
    assert_eq!(line.heal(101 + (15 << 4), 100, &Steady(0)), Some(100 + (15 << 4)));
    assert_eq!(timeline([7, 3, 1, 1 << 63, 0, shape(0), 0, 0]).position(9), 5);

    let line = window_line(&quota, [0, 0, 1, 1 << 63, 0, shape(4), 1, 0]);
    let window = CountedWindow::of(&line, 5 << 4, 3, Field::lowest(32), &Steady(0));
    assert_eq!((window.number, window.passed, window.ends_in), (5, 2, 16));

    assert_eq!(Scale { mult: 3, shift: 1 }.units(5).0, 7);
    assert_eq!(Ticks::of_count(u64::MAX).less(Ticks::new(1)), Ticks::NEVER);
    assert_eq!(Frequency::from_hertz(1_000).hertz(), 1_000);
}
