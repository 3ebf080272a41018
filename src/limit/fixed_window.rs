//! The fixed window: a count that starts anew with every window.
//!
//! ```text
//!  63          32 31     0
//! | WINDOW NUMBER | COUNT |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | COUNT | 32 | tokens | taken in that window |
//! | WINDOW NUMBER | 32 | windows | of the quota's line; wraps, see `standing` |

use super::algorithm::{Algorithm, Taken, sealed};
use super::one_word::{Moment, OneWord, Step};
use super::per_key::{self, LEVEL_BITS};
use super::standing::Standing;
use super::{Allowed, Denied, Usage};
use crate::atomic::{Field, const_unless_loom};
use crate::clock::{Clock, Ticks};
use crate::quota::{Alignment, LiveQuota, Measure, Quota, SetQuotaError, Timeline};

/// The fields of a word, or of what the keyed table keeps of it.
#[derive(Clone, Copy)]
struct Layout {
    count: Field,
    number: Field,
}

impl Layout {
    const fn of_bits(bits: u32) -> Self {
        let count = Field::lowest(32);
        Self { count, number: count.then(bits - 32) }
    }

    #[inline]
    fn put(self, view: &View) -> u64 {
        self.number.put(view.standing.number) | self.count.put(view.count)
    }
}

const WORD: Layout = Layout::of_bits(u64::BITS);
const LEVEL: Layout = Layout::of_bits(LEVEL_BITS);

/// The fixed window: at most the quota's limit in each of its windows, which follow one another without a gap.
///
/// What people know best and what costs least to explain, with a flaw that is inherent: the limit at the end of one
/// window and again at the beginning of the next are twice the limit in next to no time. A
/// [`SlidingCounter`](super::SlidingCounter) or a [`TokenBucket`](super::TokenBucket) has no such bursts.
///
/// What counts is the quota's limit; its burst means nothing here, and "more than the burst" is said of a call that
/// asks for more than the limit. Where windows begin is chosen with [`aligned_to`](FixedWindow::aligned_to).
/// `resets_in` is the time until the window ends, or zero while nothing is taken.
///
/// Beside the quota its whole state is one word of 8 bytes: 32 bits for the number of the window, and 32 for the count.
/// The number wraps: a limiter that nobody used for 2^31 windows or more may for two windows count what was taken then.
/// A clock that steps back by more than it should opens no window a second time; it locks nobody out for longer than
/// two windows. A change of the quota keeps the count, and the window that is under way ends sooner or later as the new
/// windows are shorter or longer.
///
/// # Examples
///
/// ```
/// use core::time::Duration;
/// use damper::{Alignment, FixedWindow, ManualClock, Quota, RateLimiter};
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(59));
/// let windows = FixedWindow::new(Quota::per_minute(100)).aligned_to(Alignment::ClockOrigin);
/// let limiter = RateLimiter::of(windows, &clock);
/// assert!(limiter.check_n(100).is_ok());
/// assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_secs(1)));
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check_n(100).is_ok(), "200 in a second: the burst at a boundary");
/// ```
#[derive(Debug)]
pub struct FixedWindow(OneWord);

/// A word at a reading.
struct View {
    standing: Standing,
    count: u64,
}

impl View {
    #[inline]
    fn of(line: &Timeline, Layout { count, number }: Layout, word: u64, at: u64, clock: &impl Clock) -> Self {
        let standing = Standing::of(line, at, number.get(word), number, clock);
        Self { standing, count: if standing.passed == 0 { count.get(word) } else { 0 } }
    }

    /// With `n` more, which are not 0, of a quota with a limit.
    #[inline]
    fn take(mut self, line: &Timeline, n: u32) -> Result<(Self, Allowed), Denied> {
        let remaining = self.remaining(line);
        if n <= remaining {
            self.count += u64::from(n);
            let allowed = Allowed::counted(line, remaining - n, self.resets_in(line));
            return Ok((self, allowed));
        }
        let wait = if n > line.limit() { Ticks::ZERO } else { line.wait(self.standing.ends_in) };
        Err(Denied::counted(line, remaining, self.resets_in(line), wait))
    }

    #[inline]
    fn remaining(&self, line: &Timeline) -> u32 {
        if line.is_unlimited() { u32::MAX } else { line.limit().saturating_sub(self.count as u32) }
    }

    #[inline]
    fn resets_in(&self, line: &Timeline) -> Ticks {
        if self.count == 0 { Ticks::ZERO } else { line.wait(self.standing.ends_in) }
    }
}

impl FixedWindow {
    const_unless_loom! {
        /// Nothing is taken yet; the first window begins with the first use.
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self(OneWord::new(quota, Measure::Windows(Alignment::FirstRequest), 0))
        }

        /// Sets where windows begin. Default: with the first use.
        #[must_use]
        pub const fn aligned_to(self, alignment: Alignment) -> Self {
            Self(self.0.measured_in(Measure::Windows(alignment)))
        }
    }

    /// The word after the decision, and the answer.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn count(moment: &Moment, n: u32, clock: &impl Clock) -> (u64, Result<(Allowed, Taken), Denied>) {
        let &Moment { ref line, word, at } = moment;
        let view = View::of(line, WORD, word, at, clock);
        if n == 0 || line.is_unlimited() {
            let allowed = Allowed::counted(line, view.remaining(line), view.resets_in(line));
            return (word, Ok((allowed, Taken::NOWHERE)));
        }
        // A refusal writes nothing, unless the clock stepped back: then the window has to stay the same one from here
        // on.
        let is_moved = view.standing.passed == 0 && view.standing.number != WORD.number.get(word);
        let unmoved = if is_moved { WORD.put(&view) } else { word };
        match view.take(line, n) {
            Ok((view, allowed)) => (WORD.put(&view), Ok((allowed, Taken { at: view.standing.number }))),
            Err(denied) => (unmoved, Err(denied)),
        }
    }

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn check(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        // The straight path, once; whatever is in its way is the loop's business.
        if let Some(moment) = self.0.glance_at_all(clock) {
            let (after, answer) = Self::count(&moment, n, clock);
            if after == moment.word || self.0.replace(moment.word, after) {
                return answer;
            }
        }
        self.check_slow(n, clock)
    }

    #[cold]
    fn check_slow(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        self.0.decide(clock, |moment| match Self::count(moment, n, clock) {
            (after, answer) if after == moment.word => Step::Keep(answer),
            (after, answer) => Step::Put(after, answer),
        })
    }
}

impl sealed::Sealed for FixedWindow {}

impl Algorithm for FixedWindow {
    #[inline]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        self.check(n, clock)
    }

    fn roll_back(&self, n: u32, taken: Taken, clock: &impl Clock) {
        self.0.decide(clock, |&Moment { word, .. }| {
            if n == 0 || WORD.number.get(word) != taken.at {
                return Step::Keep(());
            }
            // The count is in the lowest bits.
            Step::Put(word - WORD.count.get(word).min(n.into()), ())
        });
    }

    fn usage(&self, clock: &impl Clock) -> Usage {
        let (remaining, resets_in) = self.0.decide(clock, |&Moment { ref line, word, at }| {
            let view = View::of(line, WORD, word, at, clock);
            Step::Keep((view.remaining(line), view.resets_in(line).duration(line.frequency())))
        });
        Usage::of_windows(self.quota(), remaining, resets_in)
    }

    fn quota(&self) -> Quota {
        self.0.quota().quota()
    }

    fn set_quota(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError> {
        self.0.quota().set(quota, clock)
    }
}

impl per_key::PerKey for FixedWindow {
    /// The count never fills its field, for a level is never all ones.
    const LARGEST_LIMIT: u32 = u32::MAX - 1;

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
        // No deeper than an empty window: there is no debt.
        let booked = n.min(line.limit().saturating_sub(LEVEL.count.get(word) as u32));
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
        let view = View::of(line, LEVEL, word, at, clock);
        per_key::part_of(view.standing.ends_in, view.count, line.limit())
    }

    fn idle(line: &Timeline, at: u64) -> u64 {
        LEVEL.number.put(at >> line.fraction_bits())
    }

    fn owing(line: &Timeline, at: u64, wait: Ticks) -> u64 {
        let count = if wait == Ticks::ZERO { 0 } else { line.limit().into() };
        Self::idle(line, at) | LEVEL.count.put(count)
    }

    fn heavier(_: &Timeline, one: u64, other: u64, _: u64) -> u64 {
        // Of one window, the larger count.
        per_key::later(LEVEL.number, one, other, || one.max(other))
    }
}

impl FixedWindow {
    /// A level whose count, in the lowest bits, is less by `n` or by all it has.
    fn less(level: u64, n: u32) -> u64 {
        level - LEVEL.count.get(level).min(n.into())
    }
}
