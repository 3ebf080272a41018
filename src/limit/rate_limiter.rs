//! One limit: a quota, a clock and the state of an algorithm.

use super::{Allowed, Denied, TokenBucket, Usage};
use crate::atomic::const_unless_loom;
use crate::clock::{Clock, DefaultClock};
use crate::quota::{Anchored, Quota};

/// Limits a rate: decides at once whether tokens may be taken, and never waits, blocks or allocates.
///
/// Share it by reference, in a `static` or an `Arc`. In any stretch of time of `t` clock ticks at most
/// `burst + rate · (t + 1 tick)` tokens are allowed, whatever the threads, the costs and the pattern of calls; and no token
/// comes late.
///
/// The first call reads the clock's frequency and starts the line of tokens; with the default clock that may calibrate
/// it, see [`Monotonic`](crate::Monotonic).
///
/// # Memory ordering
///
/// A check orders nothing else: it neither publishes nor acquires the memory of other threads.
///
/// # Examples
///
#[cfg_attr(feature = "std", doc = "```")]
#[cfg_attr(not(feature = "std"), doc = "```text")]
/// use damper::{Quota, RateLimiter};
///
/// static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
///
/// match LOGINS.check() {
///     Ok(allowed) => println!("{} left", allowed.remaining()),
///     Err(denied) => println!("{denied}"), // rate limit exceeded, retry in 1.2 s
/// }
/// ```
#[derive(Debug)]
pub struct RateLimiter<A = TokenBucket, C = DefaultClock> {
    quota: Anchored,
    state: A,
    clock: C,
}

#[cfg(feature = "std")]
impl RateLimiter {
    const_unless_loom! {
        /// A limiter on the [default clock](DefaultClock), with a full bucket.
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self::with_clock(quota, crate::clock::Monotonic)
        }
    }
}

impl<C> RateLimiter<TokenBucket, C> {
    const_unless_loom! {
        /// A limiter on a clock of your own, with a full bucket. A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(quota: Quota, clock: C) -> Self {
            Self { quota: Anchored::new(quota), state: TokenBucket::full(), clock }
        }
    }
}

impl<C: Clock> RateLimiter<TokenBucket, C> {
    /// Takes one token if there is one.
    ///
    /// A refusal writes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`], which tells when to come back.
    #[inline]
    pub fn check(&self) -> Result<Allowed, Denied> {
        self.check_n(1)
    }

    /// Takes `n` tokens if all of them are there, else none. No tokens are always allowed.
    ///
    /// A refusal writes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`], which tells when to come back, or that `n` exceeds the burst.
    ///
    /// # Examples
    ///
    /// ```
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(5), &clock);
    /// assert_eq!(limiter.check_n(3)?.remaining(), 2);
    /// assert_eq!(limiter.check_n(3).unwrap_err().remaining(), 2);
    /// assert!(limiter.check_n(6).unwrap_err().exceeds_burst());
    /// # Ok::<(), damper::Denied>(())
    /// ```
    #[inline]
    pub fn check_n(&self, n: u32) -> Result<Allowed, Denied> {
        self.state.take(&self.quota.timeline(&self.clock), &self.clock, n)
    }

    /// Tells how much of the limit is used, and takes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use core::time::Duration;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = RateLimiter::with_clock(Quota::per_minute(60).burst(5), &clock);
    /// limiter.check_n(2)?;
    /// let usage = limiter.peek();
    /// assert_eq!((usage.limit(), usage.used(), usage.remaining()), (5, 2, 3));
    /// assert_eq!(usage.window(), Some(Duration::from_secs(5)));
    /// assert_eq!(usage.resets_in(), Some(Duration::from_secs(2)));
    /// # Ok::<(), damper::Denied>(())
    /// ```
    #[inline]
    pub fn peek(&self) -> Usage {
        self.state.usage(self.quota.quota(), &self.quota.timeline(&self.clock), &self.clock)
    }

    /// The quota in force.
    pub fn quota(&self) -> Quota {
        *self.quota.quota()
    }
}
