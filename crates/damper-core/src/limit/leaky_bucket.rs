//! The leaky bucket: as a meter, and as a queue.
//!
//! Both use the word and the arithmetic of the token bucket. The level of a leaky bucket is the number of tokens that
//! the token bucket lacks.

use super::algorithm::{Algorithm, JudgedTake, Look, PreparedQuota, TakePosition, Verdict, sealed};
use super::one_word::{Observed, OneWord, Step};
use super::token_bucket::{TakeError, TokenLine};
use super::{Allowed, Denied, TokenBucket, Usage};
use crate::quota::{Line, Quota, SetQuotaError};
use crate::sync::const_unless_loom;
use crate::time::{Clock, DefaultClock, Ticks};
use core::time::Duration;

/// The leaky bucket as a meter: a request raises the level by its cost.
///
/// A request that would raise the level above the burst is refused. The level leaks at the quota's rate.
///
/// It mirrors the [`TokenBucket`]: it allows and refuses the very same calls, and `level + remaining = burst`. Use it
/// in a program that reasons in levels or has to report them.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{LeakyBucket, ManualClock, Quota, RateLimiter};
///
/// let clock = ManualClock::new();
/// let limiter = RateLimiter::with_algorithm(LeakyBucket::new(Quota::per_second(10).burst(5)), &clock);
/// limiter.check_n(4)?;
/// assert_eq!(limiter.level(), 4);
/// assert!(limiter.check_n(2).is_err());
/// clock.advance(Duration::from_millis(100));
/// assert_eq!(limiter.level(), 3);
/// # Ok::<(), damper::Denied>(())
/// ```
#[derive(Debug)]
pub struct LeakyBucket(TokenBucket);

impl LeakyBucket {
    const_unless_loom! {
        /// Creates an empty bucket.
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self(TokenBucket::new(quota))
        }
    }

    /// Returns the level of the bucket, in tokens, rounded up.
    pub(super) fn level(&self, clock: &impl Clock) -> u32 {
        self.0.usage(clock).used()
    }
}

impl sealed::Sealed for LeakyBucket {}

impl Algorithm for LeakyBucket {
    #[inline]
    fn take(&self, n: u32, clock: &impl Clock) -> Result<Allowed, Denied> {
        self.0.take(n, clock)
    }

    #[inline]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, TakePosition), Denied> {
        self.0.take_revocably(n, clock)
    }

    fn roll_back(&self, n: u32, taken: TakePosition, clock: &impl Clock) {
        self.0.roll_back(n, taken, clock);
    }

    #[inline]
    fn look(&self) -> Option<Look> {
        self.0.look()
    }

    #[inline]
    fn judge(&self, look: Look, n: u32, now: u64, clock: &impl Clock) -> Verdict {
        self.0.judge(look, n, now, clock)
    }

    #[inline]
    fn take_judged(&self, take: &JudgedTake) -> bool {
        self.0.take_judged(take)
    }

    fn refusal(&self, n: u32, clock: &impl Clock) -> Option<Denied> {
        self.0.refusal(n, clock)
    }

    fn usage(&self, clock: &impl Clock) -> Usage {
        self.0.usage(clock)
    }

    fn reset(&self, clock: &impl Clock) {
        self.0.reset(clock);
    }

    fn drain(&self, clock: &impl Clock) -> u32 {
        self.0.drain(clock)
    }

    fn quota(&self) -> Quota {
        self.0.quota()
    }

    fn prepare_quota(&self, quota: Quota, clock: &impl Clock) -> Result<PreparedQuota<'_>, SetQuotaError> {
        self.0.prepare_quota(quota, clock)
    }

    fn put_in_force(&self, prepared: PreparedQuota<'_>, clock: &impl Clock) {
        self.0.put_in_force(prepared, clock);
    }
}

/// The leaky bucket as a queue: requests leave one after another at a constant rate.
///
/// The queue stores no requests. It returns how long a request has to wait, and the caller waits that long and
/// proceeds.
///
/// The queue has room for as many requests as the quota's burst, including the one that is leaving. Further requests
/// overflow and are refused. A [`TokenBucket`] lets a burst through at once, while a queue spreads it out.
///
/// In any `t` ticks of the clock at most `1 + rate * (t + 1)` requests leave, if each waits exactly as long as the
/// queue says. (The rate is in requests per tick.) A change of the quota applies to requests that enter after it.
/// Requests that entered before it keep their waits.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{LeakyQueue, ManualClock, Quota};
///
/// let queue = LeakyQueue::with_clock(Quota::per_second(10).burst(3), ManualClock::new());
/// assert_eq!(queue.enter()?, Duration::ZERO);
/// assert_eq!(queue.enter()?, Duration::from_millis(100));
/// assert_eq!(queue.enter()?, Duration::from_millis(200));
/// let overflow = queue.enter().unwrap_err();
/// assert_eq!(overflow.retry_after(), Some(Duration::from_millis(100)));
/// # Ok::<(), damper::Denied>(())
/// ```
#[derive(Debug)]
pub struct LeakyQueue<C = DefaultClock> {
    word: OneWord<TokenLine>,
    clock: C,
}

#[cfg(feature = "std")]
impl LeakyQueue {
    const_unless_loom! {
        /// Creates an empty queue on the [default clock](DefaultClock).
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self::with_clock(quota, crate::time::Monotonic)
        }
    }
}

impl<C> LeakyQueue<C> {
    const_unless_loom! {
        /// Creates an empty queue on a clock of your own. A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(quota: Quota, clock: C) -> Self {
            Self { word: OneWord::new(quota, TokenLine::missing(0)), clock }
        }
    }
}

impl<C: Clock> LeakyQueue<C> {
    /// Enters the queue if there is room, and returns how long to wait before leaving.
    ///
    /// A wait of zero means that the request leaves at once. A refusal writes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if the queue is full. [`Denied::retry_after`] is the time until there is room, or `None` if there
    /// never will be.
    pub fn enter(&self) -> Result<Duration, Denied> {
        self.enter_n(1)
    }

    /// Enters the queue with a request of size `n`, as [`enter`](Self::enter) does with a request of size 1.
    ///
    /// The next request leaves later than this one by the time in which the quota brings `n` tokens. A request of
    /// size 0 leaves at once.
    ///
    /// The wait is rounded up to the clock's tick. (It may be off by more than a tick if the quota takes more than ten
    /// years to bring its burst and its `max_debt`, on a clock of nanoseconds. The error is then 2^-58 of that time.)
    ///
    /// # Errors
    ///
    /// [`Denied`] if the queue has no room for `n`, now or ever.
    pub fn enter_n(&self, n: u32) -> Result<Duration, Denied> {
        self.word.decide(&self.clock, |seen @ &Observed { ref line, word, at, .. }| match line.take(word, at, n) {
            Ok(after) if after == word => Step::Keep(Ok(Duration::ZERO)),
            Ok(after) => match line.wait(TokenLine::debt(word, at)).duration(line.frequency()) {
                Some(wait) => Step::Put(after, Ok(wait)),
                None => seen.deny_for(&self.clock, TakeError::Later(Ticks::NEVER)),
            },
            Err(error) => seen.deny_for(&self.clock, error),
        })
    }

    /// Returns the total size of the requests in the queue, including the one that is leaving.
    ///
    /// It is rounded up. If all requests have size 1, it is their number.
    pub fn level(&self) -> u32 {
        self.word.observe(&self.clock, |&Observed { ref line, word, at, .. }| line.level(word, at))
    }

    /// Returns the quota in force.
    pub fn quota(&self) -> Quota {
        self.word.quota()
    }

    /// Puts another quota in force, as [`RateLimiter::set_quota`](super::RateLimiter::set_quota) does.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`] if the quota is refused. The quota in force then stays.
    pub fn set_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        self.word.set_quota(quota, &self.clock)
    }
}
