//! The line of windows, and the choice of the window in which a decision counts its tokens.
//!
//! This is arithmetic, free of atomics.
//!
//! A *position* on the line is an instant, counted in windows, in fixed point. Its whole part is the number of the
//! window that the instant lies in. A limiter's word stores the number of the window that it counts. Numbers have as
//! many bits as the field in the word, or as the whole part of a position if that has fewer. So numbers wrap, and the
//! sign of their difference shows which of two windows is later.
//!
//! The clock's reading and the word's window determine the window that counts:
//!
//! | the reading lies | the window that counts | reason |
//! |---|---|---|
//! | in the word's window | the word's window | it is still running |
//! | in a later window | the reading's window | the word's window has passed |
//! | in an earlier window | the word's window | this thread's clock lags: no second window may open for the same time |
//! | *far* before the word's window | the window after the reading's, with the word's counts | see below |
//!
//! *Far* means by more than the sum of a window and the clock's `max_step_back`. Then the clock stepped back further
//! than it may, or the limiter was unused until half of all numbers had passed. The decision keeps the word's counts,
//! and the next window opens only after the clock has moved forward by more than a window. (If the decision counted in
//! the reading's own window, a clock that steps back and forth over the end of that window would allow the limit
//! twice.) No caller is locked out for longer than two windows.

use crate::quota::{Alignment, Line, LineStart, Quota, SetQuotaError, Timeline};
use crate::sync::{Field, signed};
use crate::time::Clock;
use core::time::Duration;

/// The most bits that the length of a window, in units, may have.
///
/// The length is a power of two, so it is at most 2^57 units. Then the number of a window has at least 7 of a
/// position's 64 bits, and at least 4 of the 61 bits of a stamp in a sliding log.
const DEBT_BITS: u32 = 58;

/// The line of a quota whose tokens are counted in windows.
///
/// It gives each reading of the clock a position: the number of windows up to then, in fixed point.
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

    /// Returns 1, because a word counts at most the window after the clock's.
    fn deepest_debt(_: &Quota) -> u64 {
        1
    }

    /// Returns the start of window 1.
    ///
    /// An unused limiter has the word 0, which counts window 0. That window is over when the line starts.
    fn first_position(fraction_bits: u32, _: u32) -> u64 {
        1 << fraction_bits
    }

    #[cold]
    fn too_fast(quota: &Quota, whole: u128, most: u128) -> SetQuotaError {
        // `most` is not 0: on a clock that stands still no quota is too fast, so this function is not called.
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

    /// Returns the length of a window, in units.
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
    /// A number is stored in `field`. It has the bits of that field, or those of a position's whole part if these are
    /// fewer.
    #[inline]
    pub(in crate::limit) fn number_bits(&self, field: Field) -> u32 {
        field.bits().min(u64::BITS - self.timeline.fraction_bits())
    }

    /// Returns whether a word was written before the clock stepped back.
    ///
    /// The word's window begins `units` after a reading. The word is from before a step back if `units` exceeds a
    /// window plus the clock's `max_step_back`.
    #[cold]
    pub(in crate::limit) fn is_beyond_next_window(&self, units: u64, clock: &impl Clock) -> bool {
        self.timeline.is_from_before_a_step_back(units, clock)
    }
}

/// The window in which a decision counts its tokens, relative to a reading of the clock.
#[derive(Clone, Copy, Debug)]
pub(in crate::limit) struct CountedWindow {
    /// The window's number, cut to the bits of the field in the word.
    pub(in crate::limit) number: u64,
    /// The number of windows from the word's window to this one. At 0 the word's counts still apply.
    pub(in crate::limit) passed: u64,
    /// The units from the reading to the window's end.
    ///
    /// They exceed the length of a window if the window has not begun yet.
    pub(in crate::limit) ends_in: u64,
}

impl CountedWindow {
    /// Returns the window in which a decision at the position `at` counts.
    ///
    /// `number` is the value of `field` in the limiter's word. It is the number of the window whose tokens the word
    /// counts.
    #[inline]
    pub(in crate::limit) fn of(line: &WindowLine, at: u64, number: u64, field: Field, clock: &impl Clock) -> Self {
        let window = line.window();
        let here = line.number(at);
        let rest = window - (at & (window - 1));
        let passed = signed(here.wrapping_sub(number), line.number_bits(field));
        if passed >= 0 {
            return Self { number: here & field.max(), passed: passed as u64, ends_in: rest };
        }
        // The product is below 2^63, and `rest` and `window` are at most 2^57, so nothing overflows.
        let begins_in = rest + (passed.unsigned_abs() - 1) * window;
        if passed < -1 && line.is_beyond_next_window(begins_in, clock) {
            return Self { number: here.wrapping_add(1) & field.max(), passed: 0, ends_in: rest + window };
        }
        Self { number, passed: 0, ends_in: begins_in + window }
    }
}
