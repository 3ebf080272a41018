//! The sliding window counter: the count of this window, and a share of the previous window's.
//!
//! ```text
//! | WINDOW NUMBER | PREVIOUS | CURRENT |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | CURRENT | 16-24 | tokens | the tokens taken in the window |
//! | PREVIOUS | as CURRENT | tokens | the tokens taken in the window before |
//! | WINDOW NUMBER | the rest, 16-32 | windows | the number of this window; wraps, see `CountedWindow` |
//!
//! In a limiter's word, each count has as many bits as the initial limit needs, and at least 16. In the 56-bit *level*
//! that the keyed table stores for a key, each count has 20 bits.

use super::algorithm::{Algorithm, JudgedTake, Look, PreparedQuota, TakePosition, Verdict, sealed};
use super::one_word::OneWord;
use super::per_key::LEVEL_BITS;
use super::windows::{self, CountedWindow, WindowFields, WindowLine, Windowed, part_of};
use super::{Allowed, Denied, Usage};
use crate::out_of_range::{OutOfRange, check};
use crate::quota::{Alignment, Line, Quota, SetQuotaError};
use crate::sync::{Field, const_unless_loom};
use crate::time::{Clock, Ticks};

/// The possible numbers of bits of a count.
const COUNT_BITS: core::ops::RangeInclusive<u32> = 16..=24;

/// The largest limit, for which the counts have the most bits.
const LARGEST_LIMIT: u64 = (1 << *COUNT_BITS.end()) - 1;

/// The sliding window counter: allows at most the quota's limit in a window that moves with time.
///
/// The limit holds if the tokens of the previous window were taken evenly.
///
/// `current + previous · (1 - elapsed)` may not exceed the limit, where `elapsed` is the fraction of the current window
/// that has passed. This is computed exactly, in whole numbers. No token is late or more than a tick early, and
/// `retry_after` is exact to the tick. (After a change to windows that are k times longer, the error is k ticks.)
///
/// A [`FixedWindow`](super::FixedWindow) allows up to twice the limit around a boundary. If traffic is even, this
/// algorithm avoids that at the same cost. Suppose that all tokens of the previous window were taken at its end. A
/// caller that takes each token as soon as it is available may then get almost twice the limit within the length of one
/// window.
///
/// The tokens of the call itself are part of the sum: `n` tokens are allowed if `current + previous · (1 - elapsed) + n`
/// is at most the limit. Published descriptions of the algorithm allow a call while the sum *without* its own token is
/// below the limit. If that sum has a fraction, they exceed the limit by a part of a token.
///
/// The first window begins with the first request, unless [`aligned_to`](Self::aligned_to) sets another start. Servers
/// that count by the minutes of the wall clock, as most published implementations do, have other boundaries.
///
/// Only the quota's limit counts, at most 2^24 - 1. The burst is ignored. A refusal that reports "more than the burst"
/// means more than the limit.
///
/// A change of the quota keeps the counts. The current window then ends sooner if the new windows are shorter, and
/// later if they are longer. If the clock steps back by more than its [`max_step_back`](crate::Clock::max_step_back),
/// no window opens a second time, and the current one ends after at most two windows.
///
/// Apart from the quota, the state is one word of 8 bytes: two counts and the number of the window. A count has 16
/// bits, or up to 24 bits for limits of 2^16 and more. The number has the other 32 to 16 bits, and wraps. That has two
/// consequences:
///
/// - A limiter that was idle until half of all numbers had passed may count old tokens for some windows. Half of the
///   numbers are 2^31 windows for a limit below 2^16, and 2^15 windows for a limit of 2^24 - 1.
/// - Half of the numbers must last longer than the clock may step back. With counts of 24 bits and the default clock, a
///   window must be longer than 31 ns.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{ManualClock, Quota, RateLimiter, SlidingCounter};
///
/// let clock = ManualClock::new();
/// let limiter = RateLimiter::with_algorithm(SlidingCounter::new(Quota::per_minute(100))?, &clock);
/// assert!(limiter.check_n(80).is_ok());
/// clock.advance(Duration::from_secs(75));
/// // A quarter of this window has passed: three quarters of the 80 count.
/// assert_eq!(limiter.peek().remaining(), 40);
/// assert!(limiter.check_n(40).is_ok());
/// assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_millis(750)));
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Debug)]
pub struct SlidingCounter {
    word: OneWord<WindowLine>,
    fields: SlidingCounterFields,
}

/// The fields of a limiter's word, or of a *level*, the form in which the keyed table stores a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlidingCounterFields {
    current: Field,
    previous: Field,
    number: Field,
}

impl SlidingCounterFields {
    /// Creates the fields of a word of `bits` bits.
    const fn new(bits: u32, count_bits: u32) -> Self {
        // Two windows and their number. Their bits depend on the limit.
        let current = Field::lowest(count_bits);
        let previous = current.then(count_bits);
        Self { current, previous, number: previous.then(bits - 2 * count_bits) }
    }
}

#[derive(Clone, Copy)]
pub(super) struct SlidingCounts {
    window: CountedWindow,
    previous: u64,
    current: u64,
}

impl WindowFields for SlidingCounterFields {
    type Counts = SlidingCounts;

    #[inline]
    fn number(self) -> Field {
        self.number
    }

    #[inline]
    fn current(self) -> Field {
        self.current
    }

    #[inline]
    fn counts(self, line: &WindowLine, word: u64, at: u64, clock: &impl Clock) -> SlidingCounts {
        let window = CountedWindow::of(line, at, self.number.get(word), self.number, clock);
        let (previous, current) = match window.passed {
            0 => (self.previous.get(word), self.current.get(word)),
            1 => (self.current.get(word), 0),
            _ => (0, 0),
        };
        SlidingCounts { window, previous, current }
    }

    #[inline]
    fn put(self, counts: &SlidingCounts) -> u64 {
        self.number.put(counts.window.number) | self.previous.put(counts.previous) | self.current.put(counts.current)
    }
}

impl SlidingCounts {
    /// Returns the part of the previous count that still counts, in units of 2^-F tokens.
    ///
    /// F is the line's number of fraction bits. The result is below 2^84.
    #[inline]
    fn weighted(&self, line: &WindowLine) -> u128 {
        // If the reading lies before this window, `ends_in` exceeds a window, and the whole previous count counts. A
        // position is rounded down to units, so `ends_in` is rounded up by less than a unit, which is less than half a
        // tick. Subtracting a unit rounds it down instead, so that no token is late.
        let rest = self.window.ends_in.min(line.window()) - 1;
        u128::from(self.previous) * u128::from(rest)
    }
}

impl windows::WindowCounts for SlidingCounts {
    #[inline]
    fn window(&self) -> CountedWindow {
        self.window
    }

    fn and_of(self, other: Self) -> Self {
        let (previous, current) = if self.window.number == other.window.number {
            (other.previous, other.current)
        } else {
            (other.current, 0)
        };
        Self { previous: self.previous.max(previous), current: self.current.max(current), ..self }
    }

    /// Adds `n` to the current count.
    ///
    /// A count within the limit fits its field.
    #[inline]
    fn and(self, n: u32) -> Self {
        Self { current: self.current + u64::from(n), ..self }
    }

    #[inline]
    fn left(&self, line: &WindowLine) -> u32 {
        // Both numbers are below 2^92, so they do not overflow.
        let limit = u128::from(line.limit()) << line.fraction_bits();
        let used = (u128::from(self.current) << line.fraction_bits()) + self.weighted(line);
        (limit.saturating_sub(used) >> line.fraction_bits()) as u32
    }

    #[inline]
    fn resets_in(&self, line: &WindowLine) -> Ticks {
        match (self.previous, self.current) {
            (0, 0) => Ticks::ZERO,
            (_, 0) => line.wait(self.window.ends_in),
            // The sum does not overflow. `ends_in` is at most 2^63 (half of all positions) plus a window, and a window
            // is at most 2^57.
            _ => line.wait(self.window.ends_in + line.window()),
        }
    }

    fn wait(&self, line: &WindowLine, n: u32) -> Ticks {
        let there = u64::from(line.limit() - n);
        // If the current count leaves room for the tokens, they are allowed in this window. Otherwise they are allowed
        // in the next window, where the current count has become the previous one.
        let (count, room, end) = if self.current <= there {
            (self.previous, there - self.current, self.window.ends_in)
        } else {
            (self.current, there, self.window.ends_in + line.window())
        };
        // The tokens are allowed once the rest of the window is so short that `count · (rest - 1)` is at most `room`,
        // both in units of 2^-F tokens (`weighted` explains the -1). `rest` is at most a window, because `count`
        // exceeds `room`. In the first case above, the tokens would otherwise be allowed now. In the second case,
        // `count` exceeds `there` by the condition.
        let rest = (u128::from(room) << line.fraction_bits()) / u128::from(count.max(1)) + 1;
        line.wait(end.saturating_sub(rest as u64))
    }
}

impl SlidingCounter {
    const_unless_loom! {
        /// Creates the algorithm with no tokens taken. The first window begins with the first use.
        ///
        /// # Errors
        ///
        /// [`OutOfRange`] if the limit exceeds 2^24 - 1.
        pub const fn new(quota: Quota) -> Result<Self, OutOfRange> {
            // A quota without a limit counts nothing.
            let limit = if quota.is_unlimited() { 0 } else { quota.limit() };
            check!(check_count("limit", limit as u64, 0..=LARGEST_LIMIT), "(2^24 - 1, of a sliding counter)");
            let needed = u32::BITS - limit.leading_zeros();
            let bits = if needed < *COUNT_BITS.start() { *COUNT_BITS.start() } else { needed };
            let word = OneWord::new(quota, WindowLine::aligned_to(Alignment::FirstRequest));
            Ok(Self { word, fields: SlidingCounterFields::new(u64::BITS, bits) })
        }

        /// Sets where windows begin. Default: at the first use.
        #[must_use]
        pub const fn aligned_to(mut self, alignment: Alignment) -> Self {
            self.word.align_to(alignment);
            self
        }
    }
}

impl sealed::Sealed for SlidingCounter {}

impl Algorithm for SlidingCounter {
    #[inline]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, TakePosition), Denied> {
        windows::check(&self.word, self.fields, n, clock)
    }

    fn roll_back(&self, n: u32, taken: TakePosition, clock: &impl Clock) {
        windows::roll_back(&self.word, self.fields, n, taken, clock);
    }

    #[inline]
    fn look(&self) -> Option<Look> {
        self.word.load()
    }

    #[inline]
    fn judge(&self, look: Look, n: u32, now: u64, clock: &impl Clock) -> Verdict {
        windows::judge(&self.word, self.fields, look, n, now, clock)
    }

    #[inline]
    fn take_judged(&self, take: &JudgedTake) -> bool {
        self.word.take_judged(take)
    }

    fn refusal(&self, n: u32, clock: &impl Clock) -> Option<Denied> {
        windows::refusal(&self.word, self.fields, n, clock)
    }

    fn usage(&self, clock: &impl Clock) -> Usage {
        windows::usage(&self.word, self.fields, clock)
    }

    fn reset(&self, clock: &impl Clock) {
        windows::reset(&self.word, self.fields, clock);
    }

    fn quota(&self) -> Quota {
        self.word.quota()
    }

    fn prepare_quota(&self, quota: Quota, clock: &impl Clock) -> Result<PreparedQuota<'_>, SetQuotaError> {
        if u64::from(quota.limit()) > self.fields.current.max() && !quota.is_unlimited() {
            // The maximum is at most 2^24 - 1, so it fits a `u32`.
            return Err(SetQuotaError::LimitTooLarge { limit: quota.limit(), most: self.fields.current.max() as u32 });
        }
        self.word.prepare_quota(quota, clock)
    }

    fn put_in_force(&self, prepared: PreparedQuota<'_>, clock: &impl Clock) {
        drop(prepared.0.publish::<WindowLine>(clock));
    }
}

/// The fields of a level, with 20 bits for each count.
const LEVEL: SlidingCounterFields = SlidingCounterFields::new(LEVEL_BITS, 20);

impl Windowed for SlidingCounter {
    type Fields = SlidingCounterFields;

    const LEVEL: SlidingCounterFields = LEVEL;

    const LARGEST_LIMIT: u32 = LEVEL.current.max() as u32 - 1;

    const COUNTS_FOR: u64 = 2;

    fn weight(&SlidingCounts { window, previous, current }: &SlidingCounts, line: &WindowLine) -> u64 {
        let (this, next) = (window.ends_in, window.ends_in + line.window());
        part_of(this, previous, line.limit()).saturating_add(part_of(next, current, line.limit()))
    }
}
