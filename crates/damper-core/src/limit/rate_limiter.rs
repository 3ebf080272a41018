//! A single limit: an algorithm and a clock.

use super::{Acquire, Algorithm, Allowed, Denied, LeakyBucket, Limiter, Reservation, TokenBucket, Usage};
use crate::quota::{Quota, SetQuotaError};
use crate::sync::const_unless_loom;
use crate::time::{Clock, DefaultClock};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::time::Duration;

/// Limits a rate: decides at once whether tokens may be taken, and never waits, blocks or allocates.
///
/// Share it by reference, in a `static` or an `Arc`. In any stretch of time of `t` clock ticks at most `burst + rate ·
/// (t + 1 tick)` tokens are allowed, for any threads, costs and pattern of calls. No token comes late.
///
/// The first call reads the clock's frequency and starts the line of tokens; with the default clock that may calibrate
/// it, see [`Monotonic`](crate::Monotonic).
///
/// # Memory ordering
///
/// Rely on none: a check is not meant to publish the memory of other threads, nor to acquire it.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{Quota, RateLimiter};
///
/// static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
///
/// match LOGINS.check() {
///     Ok(allowed) => println!("{} left", allowed.remaining()),
///     Err(denied) => println!("{denied}"), // rate limit exceeded, retry in 1.2 s
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct RateLimiter<A = TokenBucket, C = DefaultClock> {
    algorithm: A,
    clock: C,
    soft_limit: u32,
}

#[cfg(feature = "std")]
impl RateLimiter {
    const_unless_loom! {
        /// A token bucket on the [default clock](DefaultClock), full at the start.
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self::with_algorithm(TokenBucket::new(quota), crate::time::Monotonic)
        }
    }
}

impl<C: Clock> RateLimiter<TokenBucket, C> {
    const_unless_loom! {
        /// A token bucket on a clock of your own, full at the start. A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(quota: Quota, clock: C) -> Self {
            Self::with_algorithm(TokenBucket::new(quota), clock)
        }
    }
}

impl<C: Clock> RateLimiter<TokenBucket, C> {
    const_unless_loom! {
        /// Makes room for the quota `largest`, before the first use.
        ///
        /// Default: for the quota that the limiter is built with.
        ///
        /// [`set_quota`](Self::set_quota) then accepts `largest`, and every quota that is no faster and whose burst and
        /// [`max_debt`](Quota::max_debt) are no larger. Tokens are counted in steps that suit the faster of the two quotas:
        /// a token may come early by what that one brings in a tick of the clock.
        ///
        /// # Examples
        ///
        /// ```
        /// # extern crate damper_core as damper;
        /// use damper::{ManualClock, Quota, RateLimiter};
        ///
        /// let (trial, paid) = (Quota::per_minute(10), Quota::per_second(1_000_000));
        /// let limiter = RateLimiter::with_clock(trial, ManualClock::new()).up_to(paid);
        /// limiter.set_quota(paid)?;
        /// assert!(limiter.check_n(1_000).is_ok());
        /// # Ok::<(), damper::SetQuotaError>(())
        /// ```
        #[must_use]
        pub const fn up_to(mut self, largest: Quota) -> Self {
            self.algorithm = self.algorithm.up_to(largest);
            self
        }
    }
}

impl<A: Algorithm, C: Clock> RateLimiter<A, C> {
    const_unless_loom! {
        /// A limiter of any algorithm, on any clock.
        ///
        /// # Examples
        ///
        /// A bucket that is empty at the start:
        ///
        /// ```
        /// # extern crate damper_core as damper;
        /// use damper::{ManualClock, Quota, RateLimiter, TokenBucket};
        ///
        /// let limiter = RateLimiter::with_algorithm(TokenBucket::with_level(Quota::per_second(10), 0), ManualClock::new());
        /// assert!(limiter.check().is_err());
        /// ```
        #[must_use]
        pub const fn with_algorithm(algorithm: A, clock: C) -> Self {
            Self { algorithm, clock, soft_limit: 0 }
        }
    }

    /// Sets under how many tokens left an answer says [`is_near_limit`](Allowed::is_near_limit). Default: 0, never.
    #[must_use]
    pub const fn soft_limit(mut self, tokens: u32) -> Self {
        self.soft_limit = tokens;
        self
    }
}

impl<A, C> RateLimiter<A, C> {
    #[inline]
    pub(super) const fn parts(&self) -> (&A, &C) {
        (&self.algorithm, &self.clock)
    }
}

impl<A: Algorithm, C: Clock> RateLimiter<A, C> {
    /// Takes one token if there is one.
    ///
    /// A refusal writes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry.
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
    /// [`Denied`], which says when to retry, or that `n` exceeds the burst.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
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
        // Changed in place: `map` copies the answer, at 3 instructions more where the caller keeps it.
        let mut answer = self.algorithm.take(n, &self.clock);
        if let Ok(allowed) = &mut answer {
            allowed.set_soft_limit(self.soft_limit);
        }
        answer
    }

    /// The refusal that [`check_n`](Self::check_n) would give now, if any; writes nothing.
    pub(crate) fn refusal(&self, n: u32) -> Option<Denied> {
        self.algorithm.refusal(n, &self.clock)
    }

    /// Returns how much of the limit is used, and takes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
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
        self.algorithm.usage(&self.clock)
    }

    /// Returns the time until `n` tokens are there, rounded up to the clock's tick; takes none.
    ///
    /// Zero if they are there now. `None` if no wait helps: `n` exceeds the burst, or the quota never refills.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::with_clock(Quota::per_second(10), ManualClock::new());
    /// limiter.check_n(7)?;
    /// assert_eq!(limiter.ready_in(3), Some(Duration::ZERO));
    /// assert_eq!(limiter.ready_in(5), Some(Duration::from_millis(200)));
    /// assert_eq!(limiter.ready_in(11), None);
    /// # Ok::<(), damper::Denied>(())
    /// ```
    pub fn ready_in(&self, n: u32) -> Option<Duration> {
        match self.refusal(n) {
            None => Some(Duration::ZERO),
            Some(denied) => denied.retry_after(),
        }
    }

    /// Forgets what was taken: the limit is full again, as for a customer whom a fault has refused.
    ///
    /// Callers that wait for tokens get them now, besides. Tokens that another call takes meanwhile may be forgotten or not. Of
    /// a limiter with [leases](crate::LeasingBucket) the bucket is full again, and leases keep their tokens.
    ///
    /// Across a reset at most one burst more is allowed, and what was waited for.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::with_clock(Quota::per_hour(100), ManualClock::new());
    /// limiter.check_n(80)?;
    /// limiter.reset();
    /// assert_eq!(limiter.peek().remaining(), 100);
    /// # Ok::<(), damper::Denied>(())
    /// ```
    pub fn reset(&self) {
        self.algorithm.reset(&self.clock);
    }

    /// Takes all tokens that are there, and returns how many: the limit is empty, and refills from now on.
    ///
    /// 0 if none are there. Under a quota without a limit it takes none, and returns `u32::MAX`.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = RateLimiter::with_clock(Quota::per_second(10), &clock);
    /// assert_eq!(limiter.drain(), 10); // after a restart: no burst
    /// assert!(limiter.check().is_err());
    /// clock.advance(Duration::from_millis(100));
    /// assert!(limiter.check().is_ok());
    /// ```
    pub fn drain(&self) -> u32 {
        self.algorithm.drain(&self.clock)
    }

    /// The quota in force.
    pub fn quota(&self) -> Quota {
        self.algorithm.quota()
    }

    /// Puts another quota in force, while others check.
    ///
    /// No check waits for it, and none sees a part of it. Levels are kept in tokens: what is missing from a full bucket
    /// stays missing, and is repaid at the new rate. Across the change at most the larger burst and what both quotas
    /// bring are allowed.
    ///
    /// Waits stay exact to the clock's tick. A token is late by less than two ticks: it comes at the tick in which it is due,
    /// or at the next one. Where the quota is `k` times slower than the one that the limiter was built with (or
    /// [`up_to`](Self::up_to)), a token may come early by less than `k` ticks: built for 1,000,000/s and set to 1/s, by less than a millisecond on a clock of nanoseconds.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`] if another thread is changing the quota, or if this one does not fit the limiter; the quota then
    /// stays. A thousand times faster than the one that it was built with always fits; for more, build it
    /// [`up_to`](Self::up_to) its fastest quota.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = RateLimiter::with_clock(Quota::per_second(10), &clock);
    /// limiter.check_n(7)?;
    /// limiter.set_quota(Quota::per_second(100))?;
    /// assert_eq!(limiter.peek().remaining(), 93);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        self.algorithm.set_quota(quota, &self.clock)
    }
}

impl<A: Algorithm, C: Clock> Limiter for RateLimiter<A, C> {
    #[inline]
    fn try_acquire(&self, n: u32) -> Result<(), Denied> {
        self.check_n(n).map(drop)
    }

    #[inline]
    fn usage(&self) -> Usage {
        self.peek()
    }
}

impl<C: Clock> RateLimiter<TokenBucket, C> {
    /// Takes what there is of `n` tokens, and returns how many: none, if none are there.
    #[inline]
    pub fn take_up_to(&self, n: u32) -> u32 {
        self.algorithm.take_up_to(n, &self.clock)
    }

    /// As [`check_n`](Self::check_n), but a *full* bucket allows more than its burst: for rare requests that are
    /// larger.
    ///
    /// They leave a debt, and nothing is allowed until that is repaid.
    ///
    /// # Errors
    ///
    /// [`Denied`]; it exceeds the burst for ever if it is more than the burst and [`Quota::max_debt`] together.
    pub fn check_oversized(&self, n: u32) -> Result<Allowed, Denied> {
        let mut answer = self.algorithm.take_oversized(n, &self.clock);
        if let Ok(allowed) = &mut answer {
            allowed.set_soft_limit(self.soft_limit);
        }
        answer
    }

    /// Books `n` tokens after the fact, whether they are there or not, and returns how many it booked.
    ///
    /// It is for costs that are known only afterwards. Debt goes no deeper than [`Quota::max_debt`].
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let bytes = RateLimiter::with_clock(Quota::per_second(1_000).max_debt(2_000), &clock);
    /// bytes.check()?; // is anything left?
    /// assert_eq!(bytes.charge(1_499), 1_499); // what the answer was
    /// assert_eq!(bytes.debt(), 500);
    /// assert_eq!(bytes.charge(9_999), 1_500); // no deeper
    /// # Ok::<(), damper::Denied>(())
    /// ```
    pub fn charge(&self, n: u32) -> u32 {
        self.algorithm.charge(n, &self.clock)
    }

    /// How many tokens the bucket is below empty, rounded up; 0 if it is not.
    pub fn debt(&self) -> u32 {
        self.algorithm.debt(&self.clock)
    }

    /// Gives back up to `n` tokens that were taken and not needed, and returns how many it gave back.
    ///
    /// They go to the waiters in their order, or to the next call if there are none. Tokens that a full bucket has no
    /// room for are lost: then it returns fewer than `n`. Of a token that was missing in part only that part is given
    /// back, and counts as one.
    ///
    /// The limiter trusts you that they were not used: in any stretch of time it allows as many tokens more as refunds
    /// returned in it. A thread that waits is woken at once; a future looks again within a second, or earlier if its
    /// own time comes.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let budget = RateLimiter::with_clock(Quota::per_second(10), &clock);
    /// budget.check_n(10)?; // an estimate
    /// let waiter = budget.reserve(4)?;
    /// assert_eq!(waiter.ready_in(), Some(Duration::from_millis(400)));
    /// assert_eq!(budget.refund(7), 7); // only three were used
    /// assert_eq!(waiter.ready_in(), Some(Duration::ZERO));
    /// assert_eq!(budget.peek().remaining(), 3);
    /// assert_eq!(budget.refund(100), 7); // full again
    /// # Ok::<(), damper::Denied>(())
    /// ```
    pub fn refund(&self, n: u32) -> u32 {
        self.algorithm.refund(n, &self.clock)
    }

    /// Takes `n` tokens now, to be used when they are there.
    ///
    /// Reservations are served in the order in which they were made. Until the reserved tokens are there, checks are
    /// refused.
    ///
    /// # Errors
    ///
    /// [`Denied`] if `n` exceeds the burst, or the debt would be deeper than [`Quota::max_debt`].
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(2), &clock);
    /// assert_eq!(limiter.reserve(2)?.ready_in(), Some(Duration::ZERO));
    /// let slot = limiter.reserve(2)?;
    /// assert_eq!(slot.ready_in(), Some(Duration::from_millis(200)));
    /// assert!(slot.cancel());
    /// # Ok::<(), damper::Denied>(())
    /// ```
    pub fn reserve(&self, n: u32) -> Result<Reservation<&Self>, Denied> {
        Reservation::new(self, n, None)
    }

    /// As [`reserve`](Self::reserve), if the tokens are there within `longest`, else none are taken.
    ///
    /// # Errors
    ///
    /// [`Denied`] as for `reserve`, or if the tokens would be there later.
    pub fn reserve_within(&self, n: u32, longest: Duration) -> Result<Reservation<&Self>, Denied> {
        Reservation::new(self, n, Some(longest))
    }

    /// As [`reserve`](Self::reserve), with a reservation that owns a reference to the limiter.
    ///
    /// It is `'static` where the limiter is: for queues, spawned tasks and streamed responses.
    ///
    /// # Errors
    ///
    /// [`Denied`] as for `reserve`.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{Quota, RateLimiter};
    /// use std::sync::Arc;
    /// use std::thread;
    ///
    /// let tokens = Arc::new(RateLimiter::new(Quota::per_minute(60_000)));
    /// let call = tokens.reserve_owned(2_000)?; // an estimate
    /// let worker = thread::spawn(move || {
    ///     call.wait();
    ///     let bill = 700; // what the call used
    ///     call.settle(bill);
    /// });
    /// worker.join().unwrap();
    /// assert!(tokens.peek().remaining() >= 59_300);
    /// # }
    /// # Ok::<(), damper::Denied>(())
    /// ```
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub fn reserve_owned(self: &Arc<Self>, n: u32) -> Result<Reservation<Arc<Self>>, Denied> {
        Reservation::new(Arc::clone(self), n, None)
    }

    /// As [`reserve_owned`](Self::reserve_owned), if the tokens are there within `longest`, else none are taken.
    ///
    /// # Errors
    ///
    /// [`Denied`] as for `reserve`, or if the tokens would be there later.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub fn reserve_owned_within(self: &Arc<Self>, n: u32, longest: Duration) -> Result<Reservation<Arc<Self>>, Denied> {
        Reservation::new(Arc::clone(self), n, Some(longest))
    }

    /// Prepares to wait for `n` tokens, first come, first served.
    ///
    /// [`wait`](Acquire::wait) blocks; in a future `.await` (feature `tokio`) or [`sleeping_by`](Acquire::sleeping_by)
    /// waits.
    ///
    /// A wait without [`within`](Acquire::within) may be long: it is refused at once only where the tokens exceed the burst,
    /// or where the debt of all waiters would exceed [`Quota::max_debt`], which is ten bursts unless set. Prefer `within`
    /// to a `timeout` around the future: it refuses at once and takes nothing, whereas a dropped future may leave
    /// tokens unused ([`AcquireFuture`](super::AcquireFuture) says when).
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::{Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(5));
    /// limiter.acquire(5).wait()?;
    /// let denied = limiter.acquire(5).within(Duration::from_millis(100)).wait().unwrap_err();
    /// assert!(denied.retry_after() > Some(Duration::from_millis(300)), "refused at once: they would come too late");
    /// # }
    /// # Ok::<(), damper::Denied>(())
    /// ```
    ///
    /// In a future, by tokio's timer. To spawn it, take that of [`acquire_owned`](Self::acquire_owned).
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "tokio")] {
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() -> Result<(), damper::Denied> {
    /// use damper::{Quota, RateLimiter};
    ///
    /// let mails = RateLimiter::new(Quota::per_second(1_000).burst(1));
    /// for _ in 0..3 {
    ///     mails.acquire(1).await?; // then send one
    /// }
    /// # Ok(())
    /// # }
    /// # run().unwrap(); }
    /// ```
    pub fn acquire(&self, n: u32) -> Acquire<&Self> {
        Acquire::new(self, n)
    }

    /// Waits as [`acquire`](Self::acquire) does, in a future that has its own reference to the limiter.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub fn acquire_owned(self: &Arc<Self>, n: u32) -> Acquire<Arc<Self>> {
        Acquire::new(Arc::clone(self), n)
    }
}

impl<C: Clock> RateLimiter<LeakyBucket, C> {
    /// How much is in the bucket, in tokens, rounded up.
    pub fn level(&self) -> u32 {
        self.algorithm.level(&self.clock)
    }
}
