//! The sliding window counter: the count of this window, and what is left of the one before.
//!
//! ```text
//! | WINDOW NUMBER | PREVIOUS | CURRENT |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | CURRENT | 16-24 | tokens | taken in that window |
//! | PREVIOUS | the same | tokens | taken in the one before |
//! | WINDOW NUMBER | the rest, 16-32 | windows | of the quota's line; wraps, see `standing` |
//!
//! The counts have as many bits as the limit needs that the counter is built with, and at least 16.

use super::algorithm::{Algorithm, Taken, sealed};
use super::one_word::{Moment, OneWord, Step};
use super::per_key::{self, LEVEL_BITS};
use super::standing::Standing;
use super::{Allowed, Denied, Usage};
use crate::atomic::{Field, const_unless_loom};
use crate::clock::{Clock, Ticks};
use crate::quota::{Alignment, LiveQuota, Measure, Quota, SetQuotaError, Timeline};
use core::fmt;

/// The bits of a count.
const COUNT_BITS: core::ops::RangeInclusive<u32> = 16..=24;

/// The sliding window counter: at most the quota's limit in a window that moves with time, if what was taken in the
/// window before was spread evenly over it.
///
/// `current + previous · (1 - elapsed)` may not exceed the limit, `elapsed` being the part of the current window that
/// has passed. Computed exactly, in whole numbers; nothing is late, or more than a tick early, and `retry_after` is at
/// most a tick too long. (After a change to longer windows, a tick times as many as they have grown by.) The bursts of
/// a [`FixedWindow`](super::FixedWindow) at a boundary are gone, at the same cost. What was not spread evenly is
/// misjudged: where everything was taken at the end of the window before, just less than twice the limit may be allowed
/// in a time of one window, when it is taken as soon as it is there.
///
/// What counts is the quota's limit, at most 2^24 - 1; its burst means nothing here, and "more than the burst" is said
/// of a call that asks for more than the limit.
///
/// Beside the quota its whole state is one word of 8 bytes: 16 bits for each count and 32 for the number of the window;
/// for limits of 2^16 and more the counts have up to 24 bits and the number what is left. The number wraps: a limiter
/// that nobody used for half of its circle may count what was taken then for some windows: with a limit below 2^16
/// after 2^31 windows, with one of 2^24 - 1 after 2^15. (And a window has to be longer than what the clock may step
/// back by so many parts: with 24 bits and the default clock, 31 ns.) A clock that steps back by more than it should
/// opens no window a second time; the current one ends after at most two windows. A change of the quota keeps the
/// counts; the window that is under way ends sooner or later as the new windows are shorter or longer.
///
/// # Examples
///
/// ```
/// use core::time::Duration;
/// use damper::{ManualClock, Quota, RateLimiter, SlidingCounter};
///
/// let clock = ManualClock::new();
/// let limiter = RateLimiter::of(SlidingCounter::new(Quota::per_minute(100))?, &clock);
/// assert!(limiter.check_n(80).is_ok());
/// clock.advance(Duration::from_secs(75));
/// // A quarter of this window has passed: three quarters of the 80 count.
/// assert_eq!(limiter.peek().remaining(), 40);
/// assert!(limiter.check_n(40).is_ok());
/// assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_millis(750)));
/// # Ok::<(), damper::SlidingCounterError>(())
/// ```
#[derive(Debug)]
pub struct SlidingCounter {
    word: OneWord,
    layout: Layout,
}

/// Why there is no sliding counter of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SlidingCounterError {
    /// The limit is more than 2^24 - 1: its count does not fit the word.
    LimitTooLarge,
}

impl fmt::Display for SlidingCounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitTooLarge => {
                f.write_str("the limit is too large for a sliding counter, it must be at most 16777215 (2^24 - 1)")
            }
        }
    }
}

impl core::error::Error for SlidingCounterError {}

/// Where the fields of the word are.
#[derive(Clone, Copy, Debug)]
struct Layout {
    current: Field,
    previous: Field,
    number: Field,
}

impl Layout {
    /// Of so many bits in all.
    const fn new(bits: u32, count_bits: u32) -> Self {
        let current = Field::lowest(count_bits);
        let previous = current.then(count_bits);
        Self { current, previous, number: previous.then(bits - 2 * count_bits) }
    }

    #[inline]
    fn put(self, view: &View) -> u64 {
        self.number.put(view.standing.number) | self.previous.put(view.previous) | self.current.put(view.current)
    }
}

/// A word at a reading.
struct View {
    standing: Standing,
    previous: u64,
    current: u64,
}

impl View {
    #[inline]
    fn of(line: &Timeline, layout: Layout, word: u64, at: u64, clock: &impl Clock) -> Self {
        let standing = Standing::of(line, at, layout.number.get(word), layout.number, clock);
        let (previous, current) = match standing.passed {
            0 => (layout.previous.get(word), layout.current.get(word)),
            1 => (layout.current.get(word), 0),
            _ => (0, 0),
        };
        Self { standing, previous, current }
    }

    /// What of the previous count counts, in 2^-F tokens: below 2^84.
    #[inline]
    fn weighted(&self, line: &Timeline) -> u128 {
        // All of it until the window begins. A position is rounded down to units, and so the rest up by less than one:
        // less than half a tick. Rounded down instead, nothing is late.
        let rest = self.standing.ends_in.min(line.window()) - 1;
        u128::from(self.previous) * u128::from(rest)
    }

    #[inline]
    fn remaining(&self, line: &Timeline) -> u32 {
        if line.is_unlimited() {
            return u32::MAX;
        }
        // Below 2^92.
        let limit = u128::from(line.limit()) << line.fraction_bits();
        let used = (u128::from(self.current) << line.fraction_bits()) + self.weighted(line);
        (limit.saturating_sub(used) >> line.fraction_bits()) as u32
    }

    /// With `n` more, which are not 0, of a quota with a limit.
    #[inline]
    fn take(mut self, line: &Timeline, n: u32) -> Result<(Self, Allowed), Denied> {
        let remaining = self.remaining(line);
        // What fits the limit fits the field.
        if n <= remaining {
            self.current += u64::from(n);
            let allowed = Allowed::counted(line, remaining - n, self.resets_in(line));
            return Ok((self, allowed));
        }
        let wait = if n > line.limit() { Ticks::ZERO } else { self.wait(line, n) };
        Err(Denied::counted(line, remaining, self.resets_in(line), wait))
    }

    /// The wait until nothing counts.
    #[inline]
    fn resets_in(&self, line: &Timeline) -> Ticks {
        match (self.previous, self.current) {
            (0, 0) => Ticks::ZERO,
            (_, 0) => line.wait(self.standing.ends_in),
            // At most half a circle, and two windows of 2^60.
            _ => line.wait(self.standing.ends_in + line.window()),
        }
    }

    /// The wait until `n` are allowed, which they are not now but are no more than the limit.
    fn wait(&self, line: &Timeline, n: u32) -> Ticks {
        let there = u64::from(line.limit() - n);
        // By the end of this window if the current count leaves room for them; else it is the previous one by then.
        let (count, room, end) = if self.current <= there {
            (self.previous, there - self.current, self.standing.ends_in)
        } else {
            (self.current, there, self.standing.ends_in + line.window())
        };
        // Allowed from where `count · (rest - 1)` fits `room`. `count` is the larger of the two, or they would be
        // allowed now or when the next window begins at the latest: so `rest` is at most a window.
        let rest = (u128::from(room) << line.fraction_bits()) / u128::from(count.max(1)) + 1;
        line.wait_unaligned(end.saturating_sub(rest as u64))
    }
}

impl SlidingCounter {
    const_unless_loom! {
        /// Nothing is taken yet; the first window begins with the first use.
        ///
        /// # Errors
        ///
        /// [`SlidingCounterError::LimitTooLarge`] beyond a limit of 2^24 - 1.
        pub const fn new(quota: Quota) -> Result<Self, SlidingCounterError> {
            let needed = u32::BITS - quota.limit().leading_zeros();
            // Nothing is counted under no limit.
            let bits = if quota.is_unlimited() || needed < *COUNT_BITS.start() { *COUNT_BITS.start() } else { needed };
            if bits > *COUNT_BITS.end() {
                return Err(SlidingCounterError::LimitTooLarge);
            }
            let word = OneWord::new(quota, Measure::Windows(Alignment::FirstRequest), 0);
            Ok(Self { word, layout: Layout::new(u64::BITS, bits) })
        }

        /// Sets where windows begin. Default: with the first use.
        #[must_use]
        pub const fn aligned_to(self, alignment: Alignment) -> Self {
            Self { word: self.word.measured_in(Measure::Windows(alignment)), layout: self.layout }
        }
    }

    /// The word after the decision, and the answer.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn count(&self, moment: &Moment, n: u32, clock: &impl Clock) -> (u64, Result<(Allowed, Taken), Denied>) {
        let &Moment { ref line, word, at } = moment;
        let view = View::of(line, self.layout, word, at, clock);
        if n == 0 || line.is_unlimited() {
            let allowed = Allowed::counted(line, view.remaining(line), view.resets_in(line));
            return (word, Ok((allowed, Taken::NOWHERE)));
        }
        // A refusal writes nothing, unless the clock stepped back: then the window has to stay the same one from here
        // on.
        let is_moved = view.standing.passed == 0 && view.standing.number != self.layout.number.get(word);
        let unmoved = if is_moved { self.layout.put(&view) } else { word };
        match view.take(line, n) {
            Ok((view, allowed)) => (self.layout.put(&view), Ok((allowed, Taken { at: view.standing.number }))),
            Err(denied) => (unmoved, Err(denied)),
        }
    }

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn check(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        // The straight path, once; whatever is in its way is the loop's business.
        if let Some(moment) = self.word.glance_at_all(clock) {
            let (after, answer) = self.count(&moment, n, clock);
            if after == moment.word || self.word.replace(moment.word, after) {
                return answer;
            }
        }
        self.check_slow(n, clock)
    }

    #[cold]
    fn check_slow(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        self.word.decide(clock, |moment| match self.count(moment, n, clock) {
            (after, answer) if after == moment.word => Step::Keep(answer),
            (after, answer) => Step::Put(after, answer),
        })
    }
}

impl sealed::Sealed for SlidingCounter {}

impl Algorithm for SlidingCounter {
    #[inline]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        self.check(n, clock)
    }

    fn roll_back(&self, n: u32, taken: Taken, clock: &impl Clock) {
        let Layout { current, number, .. } = self.layout;
        self.word.decide(clock, |&Moment { word, .. }| {
            if n == 0 || number.get(word) != taken.at {
                return Step::Keep(());
            }
            // The current count is in the lowest bits.
            Step::Put(word - current.get(word).min(n.into()), ())
        });
    }

    fn usage(&self, clock: &impl Clock) -> Usage {
        let (remaining, resets_in) = self.word.decide(clock, |&Moment { ref line, word, at }| {
            let view = View::of(line, self.layout, word, at, clock);
            Step::Keep((view.remaining(line), view.resets_in(line).duration(line.frequency())))
        });
        Usage::of_windows(self.quota(), remaining, resets_in)
    }

    fn quota(&self) -> Quota {
        self.word.quota().quota()
    }

    fn set_quota(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError> {
        if u64::from(quota.limit()) > self.layout.current.max() && !quota.is_unlimited() {
            return Err(SetQuotaError::TooLarge);
        }
        self.word.quota().set(quota, clock)
    }
}

/// What the keyed table keeps of a word: 20 bits of each count.
const LEVEL: Layout = Layout::new(LEVEL_BITS, 20);

impl per_key::PerKey for SlidingCounter {
    /// The count never fills its field, for a level is never all ones.
    const LARGEST_LIMIT: u32 = LEVEL.current.max() as u32 - 1;

    const BY_WINDOWS: bool = true;

    #[inline]
    fn read_straight(quota: &LiveQuota) -> Option<(usize, Timeline)> {
        quota.read_published()
    }

    #[inline]
    fn word_straight(line: &Timeline, level: u64, at: u64, clock: &impl Clock) -> Option<u64> {
        Some(Self::word(line, level, at, clock))
    }

    #[inline]
    fn word(line: &Timeline, level: u64, at: u64, clock: &impl Clock) -> u64 {
        LEVEL.put(&View::of(line, LEVEL, level, at, clock))
    }

    fn shared(line: &Timeline, level: u64, at: u64, clock: &impl Clock) -> u64 {
        Self::word(line, level, at, clock)
    }

    #[inline]
    fn take(line: &Timeline, word: u64, at: u64, n: u32, clock: &impl Clock) -> Result<(u64, Allowed), Denied> {
        let view = View::of(line, LEVEL, word, at, clock);
        if n == 0 || line.is_unlimited() {
            return Ok((word, Allowed::counted(line, view.remaining(line), view.resets_in(line))));
        }
        view.take(line, n).map(|(view, allowed)| (LEVEL.put(&view), allowed))
    }

    #[inline]
    fn receipt(after: u64, _: u64) -> u64 {
        LEVEL.number.get(after)
    }

    fn roll_back(_: &Timeline, word: u64, _: u64, n: u32, receipt: u64) -> u64 {
        if LEVEL.number.get(word) == receipt { Self::less(word, n) } else { word }
    }

    fn charge(line: &Timeline, word: u64, _: u64, n: u32) -> (u32, u64) {
        if line.is_unlimited() {
            return (n, word);
        }
        // No more than a window may have: there is no debt.
        let booked = n.min(line.limit().saturating_sub(LEVEL.current.get(word) as u32));
        (booked, word + u64::from(booked))
    }

    fn refund(_: &Timeline, word: u64, _: u64, n: u32) -> u64 {
        Self::less(word, n)
    }

    fn usage(line: &Timeline, quota: Quota, word: u64, at: u64, clock: &impl Clock) -> Usage {
        let view = View::of(line, LEVEL, word, at, clock);
        Usage::of_windows(quota, view.remaining(line), view.resets_in(line).duration(line.frequency()))
    }

    fn resets_in(line: &Timeline, word: u64, at: u64, clock: &impl Clock) -> Ticks {
        View::of(line, LEVEL, word, at, clock).resets_in(line)
    }

    fn weight(line: &Timeline, word: u64, at: u64, clock: &impl Clock) -> u64 {
        let View { standing, previous, current } = View::of(line, LEVEL, word, at, clock);
        per_key::part_of(standing.ends_in, previous, line.limit()).saturating_add(per_key::part_of(
            standing.ends_in + line.window(),
            current,
            line.limit(),
        ))
    }

    fn idle(line: &Timeline, at: u64) -> u64 {
        LEVEL.number.put(at >> line.fraction_bits())
    }

    fn owing(line: &Timeline, at: u64, wait: Ticks) -> u64 {
        let count = if wait == Ticks::ZERO { 0 } else { line.limit().into() };
        Self::idle(line, at) | LEVEL.current.put(count)
    }

    fn heavier(_: &Timeline, one: u64, other: u64, _: u64) -> u64 {
        let most = |field: Field| field.put(field.get(one).max(field.get(other)));
        let both = || LEVEL.number.put(LEVEL.number.get(one)) | most(LEVEL.previous) | most(LEVEL.current);
        per_key::later(LEVEL.number, one, other, both)
    }
}

impl SlidingCounter {
    /// A level whose current count, in the lowest bits, is less by `n` or by all it has.
    fn less(level: u64, n: u32) -> u64 {
        level - LEVEL.current.get(level).min(n.into())
    }
}
