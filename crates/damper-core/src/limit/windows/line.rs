//! The line of windows, and the window in which a decision at a reading of the clock counts.
//!
//! This is arithmetic, free of atomics.
//!
//! A position on the line counts the windows that passed up to then. Its whole part is the number of a window. The
//! number is cut off to the bits that the word has for it, or to those that the position has for it if they are fewer.
//! So numbers wrap, and their signed difference shows which of two is later.
//!
//! | the reading lies | the window that counts | why |
//! |---|---|---|
//! | in the word's window | the word's window | |
//! | in a later window | the window of the reading | the word's window has passed, by as many windows as the numbers differ |
//! | in an earlier window | the word's window | a clock that lags behind the clock of another thread opens no second window for the same time |
//! | in an earlier window, by more than the sum of a window and the longest step back that the clock may take | the window after that of the reading, with the counts of the word | the clock stepped back, or the limiter was unused until half of all numbers had passed |
//!
//! The last row is sound because it opens no window: the count stays, and the next window opens only after more than
//! a whole window of forward motion. (If the count went into the reading's own window, a clock that steps back and
//! forth over the end of it would allow it twice.) No caller is locked out for longer than two windows.

use crate::quota::{Alignment, Line, LineStart, Quota, SetQuotaError, Timeline};
use crate::sync::{Field, signed};
use crate::time::Clock;
use core::time::Duration;

/// The most bits that the length of a window, in units, may have.
///
/// A window has a power of two of units, so at most 2^57. This leaves 7 bits of a position for the number of a window,
/// and 4 bits in the stamps of a sliding log.
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

    /// Returns 1, because no word counts a window later than the next one.
    fn deepest_debt(_: &Quota) -> u64 {
        1
    }

    /// Returns the start of window 1.
    ///
    /// The word of an unused limiter is 0. So it counts in window 0, which is over when the line starts.
    fn first_position(fraction_bits: u32, _: u32) -> u64 {
        1 << fraction_bits
    }

    #[cold]
    fn too_fast(quota: &Quota, whole: u128, most: u128) -> SetQuotaError {
        // `most` is not 0, because no quota is too fast on a clock that stands still.
        let least = u64::try_from(whole.div_ceil(most)).unwrap_or(u64::MAX);
        SetQuotaError::WindowTooShort { window: quota.window(), least: Duration::from_nanos(least) }
    }

    fn sizes(_: &Timeline, quota: &Quota) -> [u64; 2] {
        [quota.limit().into(), 0]
    }

    #[inline]
    fn from_parts(timeline: Timeline, size: impl Fn(usize) -> u64) -> Self {
        // `sizes` made this size from a `u32`, so it fits.
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
    /// Returns the start of a line whose windows begin as `alignment` says.
    pub(in crate::limit) const fn aligned_to(alignment: Alignment) -> LineStart {
        LineStart { alignment, missing: 0, debt_bits: DEBT_BITS }
    }

    /// Returns the most tokens in a window.
    #[inline]
    pub(in crate::limit) const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the units of a window.
    #[inline]
    pub(in crate::limit) const fn window(&self) -> u64 {
        1 << self.timeline.fraction_bits()
    }

    #[inline]
    pub(in crate::limit) const fn fraction_bits(&self) -> u32 {
        self.timeline.fraction_bits()
    }

    /// Returns the number of the window that a position lies in.
    #[inline]
    pub(in crate::limit) const fn number(&self, at: u64) -> u64 {
        at >> self.timeline.fraction_bits()
    }

    /// Returns how many bits distinguish the numbers of windows, at least 7.
    ///
    /// They are the bits of `field`, or those of a position above its fraction if these are fewer.
    #[inline]
    pub(in crate::limit) fn number_bits(&self, field: Field) -> u32 {
        field.bits().min(u64::BITS - self.timeline.fraction_bits())
    }

    /// Returns whether a step back of the clock left a word whose window begins `units` after a reading.
    ///
    /// It did if `units` exceeds the sum of a window and the longest step back that the clock may take.
    #[cold]
    pub(in crate::limit) fn is_beyond_next_window(&self, units: u64, clock: &impl Clock) -> bool {
        self.timeline.is_from_before_a_step_back(units, clock)
    }
}

/// The window in which a decision at a reading of the clock counts.
#[derive(Clone, Copy, Debug)]
pub(in crate::limit) struct CountedWindow {
    /// The window's number, cut off to the bits of the word's field.
    pub(in crate::limit) number: u64,
    /// How many windows after the word's window this one comes. If it is 0, the word's count goes on.
    pub(in crate::limit) passed: u64,
    /// The units from the reading to the window's end.
    ///
    /// They are more than a whole window if this window has yet to begin.
    pub(in crate::limit) ends_in: u64,
}

impl CountedWindow {
    /// Returns the window in which a decision at the position `at` counts.
    ///
    /// The word counts in the window `number`, which is stored in `field`.
    #[inline]
    pub(in crate::limit) fn of(line: &WindowLine, at: u64, number: u64, field: Field, clock: &impl Clock) -> Self {
        let window = line.window();
        let here = line.number(at);
        let rest = window - (at & (window - 1));
        let passed = signed(here.wrapping_sub(number), line.number_bits(field));
        if passed >= 0 {
            return Self { number: here & field.max(), passed: passed as u64, ends_in: rest };
        }
        // The product is at most 2^63 units, and a window has at most 2^57, so nothing overflows.
        let begins_in = rest + (passed.unsigned_abs() - 1) * window;
        if passed < -1 && line.is_beyond_next_window(begins_in, clock) {
            return Self { number: here.wrapping_add(1) & field.max(), passed: 0, ends_in: rest + window };
        }
        Self { number, passed: 0, ends_in: begins_in + window }
    }
}
