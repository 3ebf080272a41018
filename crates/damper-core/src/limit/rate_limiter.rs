//! A single limit: an algorithm and a clock.

use super::algorithm::{JudgedTake, Look, Verdict};
use super::{Algorithm, Allowed, Denied, LeakyBucket, Limiter, Reservation, TokenBucket, TokensRequest, Usage};
use crate::Acquire;
use crate::gate::Forecast;
use crate::quota::{Quota, SetQuotaError};
use crate::sync::const_unless_loom;
use crate::time::{Clock, DefaultClock};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::time::Duration;

/// Limits the rate of calls.
///
/// A check decides at once whether tokens may be taken, and never waits, blocks or allocates.
///
/// Share the limiter by reference, in a `static` or an `Arc`.
///
/// A token bucket, the default algorithm, allows at most `burst + rate · (t + 1)` tokens in any `t` ticks of the clock,
/// where `rate` is in tokens per tick. The bound holds for any number of threads, any costs and any pattern of calls.
/// No token comes late: a call is allowed as soon as the quota has brought its tokens.
///
/// The first call reads the clock's frequency and fixes the instant from which tokens arrive. With the default clock it
/// may also calibrate the clock, see [`Monotonic`](crate::Monotonic).
///
/// # Memory ordering
///
/// A check orders no other memory access. Do not use it to publish memory to other threads or to acquire theirs.
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
        /// Creates a token bucket on the [default clock](DefaultClock), full at the start.
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self::with_algorithm(TokenBucket::new(quota), crate::time::Monotonic)
        }
    }
}

impl<C: Clock> RateLimiter<TokenBucket, C> {
    const_unless_loom! {
        /// Creates a token bucket on a clock of your own, full at the start.
        ///
        /// A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(quota: Quota, clock: C) -> Self {
            Self::with_algorithm(TokenBucket::new(quota), clock)
        }
    }
}

impl<C: Clock> RateLimiter<TokenBucket, C> {
    const_unless_loom! {
        /// Prepares for a later change to the quota `largest`.
        ///
        /// [`set_quota`](Self::set_quota) then accepts `largest`. It also accepts every quota that is no faster than
        /// `largest` and has no larger burst and [`max_debt`](Quota::max_debt). Without this call, the limiter's first
        /// quota counts as the largest.
        ///
        /// The limiter counts fractions of a token. Their size follows from the faster of its first quota and
        /// `largest`. A call may therefore be allowed while a small part of its last token is still missing: at most
        /// what the faster quota brings in one tick of the clock.
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
        /// Creates a limiter of any algorithm, on any clock.
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

    /// Sets the number of remaining tokens below which [`Allowed::is_near_limit`] is true. Default: 0, never.
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
    /// Takes one token if one is available.
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

    /// Takes `n` tokens if all of them are available, else none. A cost of 0 is always allowed.
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
        // The answer is changed in place. `map` would copy it, at a cost of 3 instructions if the caller keeps it.
        let mut answer = self.algorithm.take(n, &self.clock);
        if let Ok(allowed) = &mut answer {
            allowed.set_soft_limit(self.soft_limit);
        }
        answer
    }

    /// Loads the limit's state for a joint decision on several limits. Read the clock after this call.
    #[inline]
    pub(crate) fn look(&self) -> Option<Look> {
        self.algorithm.look()
    }

    /// Decides about `n` tokens by an earlier [`look`](Self::look) and the clock's reading `now`. Takes nothing.
    ///
    /// - `Ok(Some(_))`: the tokens are available. [`take_judged`](Self::take_judged) can take them by a single swap.
    /// - `Ok(None)`: the look did not suffice, for example because the quota has changed since. The tokens are
    ///   available by the present state, and `take_judged` decides anew.
    /// - `Err(_)`: the tokens are not available.
    #[inline]
    pub(crate) fn judge(&self, n: u32, look: Option<Look>, now: u64) -> Result<Option<(JudgedTake, Allowed)>, Denied> {
        match look.map_or(Verdict::Undecided, |look| self.algorithm.judge(look, n, now, &self.clock)) {
            Verdict::Allowed(take, allowed) => Ok(Some((take, allowed))),
            Verdict::Refused(denied) => Err(denied),
            Verdict::Undecided => self.refusal(n).map_or(Ok(None), Err),
        }
    }

    /// Takes the tokens that [`judge`](Self::judge) allowed. If the state has changed since, decides anew.
    #[inline]
    pub(crate) fn take_judged(&self, n: u32, judged: Option<(JudgedTake, Allowed)>) -> Result<Allowed, Denied> {
        match judged {
            Some((take, mut allowed)) if self.algorithm.take_judged(&take) => {
                allowed.set_soft_limit(self.soft_limit);
                Ok(allowed)
            }
            _ => self.check_n(n),
        }
    }

    /// Returns the clock.
    #[inline]
    pub(crate) const fn clock(&self) -> &C {
        &self.clock
    }

    /// Returns the refusal that [`check_n`](Self::check_n) would give now, if any. Takes nothing.
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

    /// Returns the time until `n` tokens are available, rounded up to the clock's tick. Takes none.
    ///
    /// The time is zero if they are available now. It is `None` if no wait helps, because `n` exceeds the burst or the
    /// quota never refills.
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

    /// Forgets all tokens taken, so that all of the burst is available again.
    ///
    /// Use it, for instance, for a customer who was refused because of a fault. Callers that wait for tokens get theirs
    /// at once, in addition to the full burst. Tokens that another call takes during the reset may or may not be
    /// forgotten. In a limiter with [leases](crate::LeasingBucket), the bucket becomes full and the leases keep their
    /// tokens.
    ///
    /// A reset allows at most one extra burst, plus the tokens that callers waited for.
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

    /// Takes all available tokens and returns how many it took.
    ///
    /// The limiter is then empty, and refills from now on. Under a quota without a limit, this call takes none and
    /// returns `u32::MAX`.
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

    /// Returns the quota in force.
    pub fn quota(&self) -> Quota {
        self.algorithm.quota()
    }

    /// Puts another quota in force, while other threads check.
    ///
    /// A check decides under the old quota or under the new one, and never waits for the change. Tokens that are
    /// missing from a full bucket stay missing, and arrive at the new rate. In a stretch of time that includes the
    /// change, at most the larger burst plus what each quota brings while it is in force is allowed.
    ///
    /// Waits stay exact to the clock's tick. A token comes at the tick in which it is due or at the next one, so it is
    /// late by less than two ticks. If the quota is `k` times slower than the one that the limiter was built with (or
    /// [`up_to`](Self::up_to)), a token may come early by less than `k` ticks. For a limiter built for 1,000,000/s and
    /// set to 1/s, that is less than a millisecond on a clock of nanoseconds.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`] if another thread is changing the quota, or if `quota` does not fit the limiter. The old quota
    /// then stays. A rate up to a thousand times that of the quota that the limiter was built with always fits. To set
    /// a faster one later, build the limiter [`up_to`](Self::up_to) its fastest quota.
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

    fn forecast(&self, n: u32) -> Forecast<Denied> {
        self.refusal(n).into()
    }
}

impl<C: Clock> RateLimiter<TokenBucket, C> {
    /// Takes up to `n` tokens and returns how many it took.
    #[inline]
    pub fn take_up_to(&self, n: u32) -> u32 {
        self.algorithm.take_up_to(n, &self.clock)
    }

    /// Puts a share of a quota in force, as [`LiveShare`](crate::quota::LiveShare) returns it. `None` refuses all.
    ///
    /// The bucket keeps its tokens, as far as the new burst has room for them, so a larger share adds none at once.
    /// [`set_quota`](Self::set_quota) instead keeps the number of *missing* tokens, so a larger burst adds tokens at
    /// once. A fleet that moves a quota between its members would then allow these tokens twice.
    ///
    /// A check during the change may be refused although tokens are available. A check gets only tokens that the old or
    /// the new quota allows.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`], as for [`set_quota`](Self::set_quota). The old quota then stays. Every share fits a limiter
    /// that was built with the whole quota, unless the share's `max_debt` is larger than that of the whole quota.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let whole = Quota::per_second(100);
    /// let limiter = RateLimiter::with_clock(whole, ManualClock::new());
    /// limiter.set_share(None)?; // the others do not know of this member yet
    /// assert!(limiter.check().is_err());
    /// limiter.set_share(Some(Quota::per_second(50)))?;
    /// assert_eq!(limiter.peek().remaining(), 0); // a share begins empty
    /// # Ok::<(), damper::SetQuotaError>(())
    /// ```
    pub fn set_share(&self, share: Option<Quota>) -> Result<(), SetQuotaError> {
        let quota = share.unwrap_or(Quota::per_second(0).max_debt(0));
        self.algorithm.set_quota_keeping_tokens(quota, &self.clock)
    }

    /// Takes `n` tokens like [`check_n`](Self::check_n), but lets a *full* bucket give more than its burst.
    ///
    /// Use it for rare large requests. Such a request leaves a debt, and nothing is allowed until the debt is repaid.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry. No wait helps if `n` exceeds the sum of the burst and
    /// [`Quota::max_debt`].
    pub fn check_oversized(&self, n: u32) -> Result<Allowed, Denied> {
        let mut answer = self.algorithm.take_oversized(n, &self.clock);
        if let Ok(allowed) = &mut answer {
            allowed.set_soft_limit(self.soft_limit);
        }
        answer
    }

    /// Books `n` tokens after the fact, available or not, and returns how many it booked.
    ///
    /// Use it for costs that are known only afterwards. The bucket may go below empty, by at most [`Quota::max_debt`].
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

    /// Returns how many tokens the bucket is below empty, rounded up. It is 0 if tokens are left.
    pub fn debt(&self) -> u32 {
        self.algorithm.debt(&self.clock)
    }

    /// Gives back up to `n` unused tokens and returns how many it gave back.
    ///
    /// The tokens go to the waiters in their order, or to the next call if none waits. Tokens that a full bucket has no
    /// room for are lost: the result is then less than `n`. If the bucket has room for only a part of the last token,
    /// that part is given back, and it counts as one token.
    ///
    /// The limiter trusts the caller that the tokens were not used. In any stretch of time, the tokens refunded in it
    /// are allowed on top of what the quota allows. A refund wakes a waiting thread at once. A waiting future looks
    /// again within a second, or earlier if its tokens are due.
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

    /// Takes `n` tokens now, for use when they become available.
    ///
    /// Reservations are served in the order in which they were made. Checks are refused until the reserved tokens are
    /// available.
    ///
    /// # Errors
    ///
    /// [`Denied`] if `n` exceeds the burst, or if the debt would exceed [`Quota::max_debt`].
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

    /// Reserves like [`reserve`](Self::reserve) if the tokens become available within `longest`, else takes none.
    ///
    /// # Errors
    ///
    /// [`Denied`] as for `reserve`, or if the tokens would come too late.
    pub fn reserve_within(&self, n: u32, longest: Duration) -> Result<Reservation<&Self>, Denied> {
        Reservation::new(self, n, Some(longest))
    }

    /// Reserves like [`reserve`](Self::reserve), with a reservation that owns a reference to the limiter.
    ///
    /// The reservation is `'static` if the limiter is. It suits queues, spawned tasks and streamed responses.
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

    /// Reserves like [`reserve_owned`](Self::reserve_owned) if the tokens become available within `longest`.
    ///
    /// If they would come later, it takes none.
    ///
    /// # Errors
    ///
    /// [`Denied`] as for `reserve`, or if the tokens would come too late.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub fn reserve_owned_within(self: &Arc<Self>, n: u32, longest: Duration) -> Result<Reservation<Arc<Self>>, Denied> {
        Reservation::new(Arc::clone(self), n, Some(longest))
    }

    /// Prepares to wait for `n` tokens, first come, first served.
    ///
    /// [`wait`](Acquire::wait) blocks the thread. Asynchronous code uses `.await` (feature `tokio`) or
    /// [`sleeping_by`](Acquire::sleeping_by) instead.
    ///
    /// A wait without [`within`](Acquire::within) may be long. It is refused at once only if the tokens exceed the
    /// burst, or if the debt of all waiters would exceed [`Quota::max_debt`], which is ten bursts unless set.
    ///
    /// Prefer `within` to a `timeout` around the future. A call whose tokens come later than `within` allows is refused
    /// at once and takes nothing. A future that a timeout drops may leave tokens unused
    /// ([`AcquireFuture`](crate::AcquireFuture) says when).
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
    /// A future that is awaited directly sleeps on tokio's timer. To spawn it, use
    /// [`acquire_owned`](Self::acquire_owned).
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
        Acquire::new(TokensRequest::new(self, n))
    }

    /// Prepares to wait like [`acquire`](Self::acquire). The wait owns a reference to the limiter.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub fn acquire_owned(self: &Arc<Self>, n: u32) -> Acquire<Arc<Self>> {
        Acquire::new(TokensRequest::new(Arc::clone(self), n))
    }
}

impl<C: Clock> RateLimiter<LeakyBucket, C> {
    /// Returns how full the bucket is, in tokens, rounded up.
    pub fn level(&self) -> u32 {
        self.algorithm.level(&self.clock)
    }
}
