//! The line of windows, and which window a word counts at a reading of the clock.
//!
//! Arithmetic, free of atomics.
//!
//! A position on the line counts the windows that passed up to then: its whole part is the number of a window. The
//! number is cut off to the bits that the word has for it (or that the position has): numbers wrap, and their signed
//! difference shows which of two is later.
//!
//! | the reading lies | window that counts | why |
//! |---|---|---|
//! | in the word's window | that | |
//! | in a later one | the reading's, and the word's is so many windows past | |
//! | in an earlier one | the word's | a clock that lags behind another thread's opens no second window for the same time |
//! | in an earlier one, with more than a whole window between, and more than the clock may step back | the one after the reading's, with what the word counts | the clock stepped back, or the limiter was unused for half a circle of the numbers |
//!
//! The last is sound because it opens no window: what is counted stays, and the next window opens only after more than
//! a whole window of forward motion. (To put the count into the reading's own window would allow it twice to a clock
//! that steps back and forth over the end of it.) No caller is locked out for longer than two windows.

use crate::quota::{Alignment, Line, LineStart, Quota, SetQuotaError, Timeline};
use crate::sync::{Field, signed};
use crate::time::Clock;
use core::time::Duration;

/// The most bits of a window's part that counts as ahead.
///
/// It leaves 7 bits for the number of a window, and 4 in the stamps of a sliding log.
const DEBT_BITS: u32 = 58;

/// The line of windows of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLine {
    timeline: Timeline,
    /// The most tokens in a window.
    limit: u32,
}

impl Line for WindowLine {
    const HEALS_ON_FAST_PATH: bool = true;

    fn per_window(_: &Quota) -> u32 {
        1
    }

    /// The next window: no word counts a later one.
    fn deepest_debt(_: &Quota) -> u64 {
        1
    }

    /// In the window after that of a word of 0.
    fn first_position(fraction_bits: u32, _: u32) -> u64 {
        1 << fraction_bits
    }

    #[cold]
    fn too_fast(quota: &Quota, whole: u128, most: u128) -> SetQuotaError {
        // A clock that stands still makes no quota too fast.
        let least = u64::try_from(whole.div_ceil(most)).unwrap_or(u64::MAX);
        SetQuotaError::WindowTooShort { window: quota.window(), least: Duration::from_nanos(least) }
    }

    fn sizes(_: &Timeline, quota: &Quota) -> [u64; 2] {
        [quota.limit().into(), 0]
    }

    #[inline]
    fn from_parts(timeline: Timeline, size: impl Fn(usize) -> u64) -> Self {
        // It was a `u32`.
        Self { timeline, limit: size(0) as u32 }
    }

    #[inline]
    fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    #[inline]
    fn timeline_mut(&mut self) -> &mut Timeline {
        &mut self.timeline
    }
}

impl WindowLine {
    /// A line whose windows begin as `alignment` says.
    pub(in crate::limit) const fn aligned_to(alignment: Alignment) -> LineStart {
        LineStart { alignment, missing: 0, debt_bits: DEBT_BITS }
    }

    /// The most tokens in a window.
    #[inline]
    pub(in crate::limit) const fn limit(&self) -> u32 {
        self.limit
    }

    /// The units of a window.
    #[inline]
    pub(in crate::limit) const fn window(&self) -> u64 {
        1 << self.timeline.fraction_bits()
    }

    #[inline]
    pub(in crate::limit) const fn fraction_bits(&self) -> u32 {
        self.timeline.fraction_bits()
    }

    /// The number of the window that a position lies in.
    #[inline]
    pub(in crate::limit) const fn number(&self, at: u64) -> u64 {
        at >> self.timeline.fraction_bits()
    }

    /// How many bits distinguish the numbers of windows: the field's, or the position's. At least 6.
    #[inline]
    pub(in crate::limit) fn number_bits(&self, field: Field) -> u32 {
        field.bits().min(u64::BITS - self.timeline.fraction_bits())
    }

    /// Whether a window that begins so many units ahead of a reading is from before a step back.
    ///
    /// It is if that is more than a window and the most that the clock may step back.
    #[cold]
    pub(in crate::limit) fn is_beyond_next_window(&self, units: u64, clock: &impl Clock) -> bool {
        self.timeline.is_from_before_a_step_back(units, clock)
    }
}

/// Which window counts at a reading.
#[derive(Clone, Copy, Debug)]
pub(in crate::limit) struct CountedWindow {
    /// Its number, in the bits of the field.
    pub(in crate::limit) number: u64,
    /// How many windows it comes after the word's; 0 where the word's count is to be continued.
    pub(in crate::limit) passed: u64,
    /// From the reading to its end; more than a window where it has yet to begin.
    pub(in crate::limit) ends_in: u64,
}

impl CountedWindow {
    /// The window that counts at the position `at` in a word that counts the window `number`, stored in `field`.
    #[inline]
    pub(in crate::limit) fn of(line: &WindowLine, at: u64, number: u64, field: Field, clock: &impl Clock) -> Self {
        let window = line.window();
        let here = line.number(at);
        let rest = window - (at & (window - 1));
        let passed = signed(here.wrapping_sub(number), line.number_bits(field));
        if passed >= 0 {
            return Self { number: here & field.max(), passed: passed as u64, ends_in: rest };
        }
        // At most half a circle of 2^64 units, and a window of at most 2^60.
        let begins_in = rest + (passed.unsigned_abs() - 1) * window;
        if passed < -1 && line.is_beyond_next_window(begins_in, clock) {
            return Self { number: here.wrapping_add(1) & field.max(), passed: 0, ends_in: rest + window };
        }
        Self { number, passed: 0, ends_in: begins_in + window }
    }
}
