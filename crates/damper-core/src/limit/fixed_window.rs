//! The fixed window: a count that restarts with every window.
//!
//! ```text
//!  63          32 31     0
//! | WINDOW NUMBER | COUNT |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | COUNT | 32 | tokens | the tokens taken in the window |
//! | WINDOW NUMBER | 32 | windows | the number of this window; wraps, see `CountedWindow` |

use super::algorithm::{Algorithm, JudgedTake, Look, PreparedQuota, TakePosition, Verdict, sealed};
use super::one_word::OneWord;
use super::per_key::LEVEL_BITS;
use super::windows::{self, CountedWindow, WindowFields, WindowLine, Windowed, part_of};
use super::{Allowed, Denied, Usage};
use crate::quota::{Alignment, Line, Quota, SetQuotaError};
use crate::sync::{Field, const_unless_loom};
use crate::time::{Clock, Ticks};

/// The fields of the word in which a fixed window is stored.
///
/// The word is that of a limiter, or a *level*: the 56 bits that the keyed table stores for a key.
#[derive(Clone, Copy)]
pub(super) struct FixedWindowFields {
    count: Field,
    number: Field,
}

impl FixedWindowFields {
    const fn of_bits(bits: u32) -> Self {
        // A fixed window. The bits of its number depend on whether a limiter or the keyed table has the word.
        let count = Field::lowest(32);
        Self { count, number: count.then(bits - 32) }
    }
}

const WORD: FixedWindowFields = FixedWindowFields::of_bits(u64::BITS);

/// The fixed window: allows at most the quota's limit in each of its consecutive windows.
///
/// It is the best known algorithm and the easiest to explain, with an inherent flaw. A client can use the limit at the
/// end of one window and again at the beginning of the next, which is twice the limit in almost no time. A
/// [`SlidingCounter`](super::SlidingCounter) or a [`TokenBucket`](super::TokenBucket) has no such bursts.
///
/// Only the quota's limit counts. The burst is ignored, and a refusal that reports "more than the burst" means more
/// than the limit. The first window begins with the first request, not at a full minute or hour, unless
/// [`aligned_to`](FixedWindow::aligned_to) sets another start. In answers, `resets_in` is the time until the window
/// ends, or zero while nothing is taken.
///
/// Apart from the quota, the whole state is one word of 8 bytes: 32 bits for the number of the window and 32 for the
/// count. The number wraps, so a limiter that was idle for 2^31 windows or more may count old tokens for two windows.
///
/// If a clock steps back by more than its [`max_step_back`](crate::Clock::max_step_back), no window opens a second
/// time, and callers are locked out for at most two windows.
///
/// A change of the quota keeps the count. The current window then ends sooner if the new windows are shorter, and
/// later if they are longer.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{Alignment, FixedWindow, ManualClock, Quota, RateLimiter};
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(59));
/// let windows = FixedWindow::new(Quota::per_minute(100)).aligned_to(Alignment::ClockOrigin);
/// let limiter = RateLimiter::with_algorithm(windows, &clock);
/// assert!(limiter.check_n(100).is_ok());
/// assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_secs(1)));
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check_n(100).is_ok(), "200 in a second: the burst at a boundary");
/// ```
#[derive(Debug)]
pub struct FixedWindow(OneWord<WindowLine>);

#[derive(Clone, Copy)]
pub(super) struct FixedWindowCount {
    window: CountedWindow,
    count: u64,
}

impl WindowFields for FixedWindowFields {
    type Counts = FixedWindowCount;

    #[inline]
    fn number(self) -> Field {
        self.number
    }

    #[inline]
    fn current(self) -> Field {
        self.count
    }

    #[inline]
    fn counts(self, line: &WindowLine, word: u64, at: u64, clock: &impl Clock) -> FixedWindowCount {
        let window = CountedWindow::of(line, at, self.number.get(word), self.number, clock);
        FixedWindowCount { window, count: if window.passed == 0 { self.count.get(word) } else { 0 } }
    }

    #[inline]
    fn put(self, counts: &FixedWindowCount) -> u64 {
        self.number.put(counts.window.number) | self.count.put(counts.count)
    }
}

impl windows::WindowCounts for FixedWindowCount {
    #[inline]
    fn window(&self) -> CountedWindow {
        self.window
    }

    fn and_of(self, other: Self) -> Self {
        if self.window.number == other.window.number {
            Self { count: self.count.max(other.count), ..self }
        } else {
            self
        }
    }

    #[inline]
    fn and(self, n: u32) -> Self {
        Self { count: self.count + u64::from(n), ..self }
    }

    #[inline]
    fn left(&self, line: &WindowLine) -> u32 {
        line.limit().saturating_sub(self.count as u32)
    }

    #[inline]
    fn resets_in(&self, line: &WindowLine) -> Ticks {
        if self.count == 0 { Ticks::ZERO } else { line.wait(self.window.ends_in) }
    }

    #[inline]
    fn wait(&self, line: &WindowLine, _: u32) -> Ticks {
        line.wait(self.window.ends_in)
    }
}

impl FixedWindow {
    const_unless_loom! {
        /// Creates the algorithm with no tokens taken. The first window begins with the first use.
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self(OneWord::new(quota, WindowLine::aligned_to(Alignment::FirstRequest)))
        }

        /// Sets when the windows begin. Default: the first window begins at the first use.
        #[must_use]
        pub const fn aligned_to(mut self, alignment: Alignment) -> Self {
            self.0.align_to(alignment);
            self
        }
    }
}

impl sealed::Sealed for FixedWindow {}

impl Algorithm for FixedWindow {
    #[inline]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, TakePosition), Denied> {
        windows::check(&self.0, WORD, n, clock)
    }

    fn roll_back(&self, n: u32, taken: TakePosition, clock: &impl Clock) {
        windows::roll_back(&self.0, WORD, n, taken, clock);
    }

    #[inline]
    fn look(&self) -> Option<Look> {
        self.0.load()
    }

    #[inline]
    fn judge(&self, look: Look, n: u32, now: u64, clock: &impl Clock) -> Verdict {
        windows::judge(&self.0, WORD, look, n, now, clock)
    }

    #[inline]
    fn take_judged(&self, take: &JudgedTake) -> bool {
        self.0.take_judged(take)
    }

    fn refusal(&self, n: u32, clock: &impl Clock) -> Option<Denied> {
        windows::refusal(&self.0, WORD, n, clock)
    }

    fn usage(&self, clock: &impl Clock) -> Usage {
        windows::usage(&self.0, WORD, clock)
    }

    fn reset(&self, clock: &impl Clock) {
        windows::reset(&self.0, WORD, clock);
    }

    fn quota(&self) -> Quota {
        self.0.quota()
    }

    fn prepare_quota(&self, quota: Quota, clock: &impl Clock) -> Result<PreparedQuota<'_>, SetQuotaError> {
        self.0.prepare_quota(quota, clock)
    }

    fn put_in_force(&self, prepared: PreparedQuota<'_>, clock: &impl Clock) {
        drop(prepared.0.publish::<WindowLine>(clock));
    }
}

impl Windowed for FixedWindow {
    type Fields = FixedWindowFields;

    const LEVEL: FixedWindowFields = FixedWindowFields::of_bits(LEVEL_BITS);

    const LARGEST_LIMIT: u32 = u32::MAX - 1;

    const COUNTS_FOR: u64 = 1;

    fn weight(counts: &FixedWindowCount, line: &WindowLine) -> u64 {
        part_of(counts.window.ends_in, counts.count, line.limit())
    }
}
