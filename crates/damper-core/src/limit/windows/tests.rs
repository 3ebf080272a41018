//! Compares `CountedWindow` with a count of windows that never wraps.

use super::{CountedWindow, WindowLine};
use crate::quota::{Alignment, Line, Quota, Timeline};
use crate::sync::Field;
use crate::time::ManualClock;
use core::time::Duration;
use proptest::prelude::*;

/// Ticks per second, as `ManualClock` has them.
const FREQUENCY: u64 = 1_000_000_000;

fn line(window: u64) -> WindowLine {
    let quota = Quota::per(5, Duration::from_nanos(window)).unwrap();
    let start = WindowLine::aligned_to(Alignment::ClockOrigin);
    let timeline = Timeline::new::<WindowLine>(&quota, &quota, FREQUENCY, 0, start);
    <WindowLine as Line>::new(timeline, &quota)
}

proptest! {
    /// A reading in the word's window or a later one counts in the window that it lies in.
    #[test]
    fn reading_counts_in_its_own_window(
        window in 1..1u64 << 40,
        word_in in 0..1u64 << 20,
        windows_later in 0..1u64 << 10,
        part: u32,
    ) {
        let mut line = line(window);
        let now = (word_in + windows_later) * window + ((u128::from(window) * u128::from(part)) >> 32) as u64;
        let at = line.reading(now);
        let field = Field::lowest(32);
        // The first window has the number 1.
        let counted = CountedWindow::of(&line, at, word_in + 1, field, &ManualClock::new());
        let here = now / window;
        // A position is rounded down, so it may lie just before the boundary that the reading is at.
        let early = here + 1 - counted.number;
        prop_assert!(early <= 1, "{counted:?}");
        prop_assert_eq!(counted.passed + early, here - word_in);
        let until = (here + 1 - early) * window;
        let wait = line.wait(counted.ends_in);
        prop_assert_eq!(wait.count(), until - now);
    }

    /// A word that is one window ahead keeps its window.
    ///
    /// A word that is further ahead was left by a clock that stepped back, and moves to the next window.
    #[test]
    fn word_ahead_counts_in_the_next_window(window in 1_000..1u64 << 40, ahead in 1..1u64 << 20) {
        let mut line = line(window);
        let at = line.reading(5 * window + window / 2);
        let here = line.number(at);
        let counted = CountedWindow::of(&line, at, here + ahead, Field::lowest(32), &ManualClock::new());
        prop_assert_eq!(counted.passed, 0);
        prop_assert_eq!(counted.number, here + 1, "at most one window ahead");
    }
}
