//! Leases: tokens that a thread takes many at a time and spends without touching shared memory.
//!
//! A part of the burst, the *budget*, is set aside for the leases. The bucket refills while leases hold tokens, so
//! its capacity is only the burst minus the budget from the start. The leases hold at most the budget, and the bucket
//! holds at most its capacity. Together they never hold more than the burst, so they allow no more than one bucket of
//! the whole burst does. (A capacity that changes with the number of tokens in leases was tried. It failed both when a
//! lease was created and when one was dropped.)
//!
//! A lease that is dropped returns its tokens to the bucket first, and its part of the budget second. In the other
//! order, another lease could claim that part and fill up while the tokens of the first lease are still outside the
//! bucket.

use super::algorithm::{Algorithm, JudgedTake, Look, PreparedQuota, TakePosition, Verdict, sealed};
use super::{Allowed, Denied, LimiterRef, RateLimiter, TokenBucket, Usage};
use crate::out_of_range::{OutOfRange, check};
use crate::quota::{Quota, SetQuotaError};
use crate::sync::{AtomicU64, Ordering, const_unless_loom};
use crate::time::Clock;

/// A token bucket that sets aside a part of its burst, the budget, for [`Lease`]s.
///
/// The leases together hold at most the budget, and the bucket holds at most the rest of the burst. A check of more
/// tokens than that rest is refused as one that exceeds the burst. Leases and checks together are allowed no more than
/// the quota. The burst of the quota has to exceed the budget, also when the quota is changed.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{Quota, RateLimiter};
///
/// // A million a second; of the burst 4,096 are for leases.
/// let limiter = RateLimiter::leasing(Quota::per_second(1_000_000), 4_096)?;
/// let spent: u32 = std::thread::scope(|scope| {
///     let workers = [(); 4].map(|()| {
///         scope.spawn(|| {
///             let mut lease = limiter.lease(64).expect("64 times 4 are less than 4,096");
///             (0..1_000).map(|_| u32::from(lease.check().is_ok())).sum::<u32>()
///         })
///     });
///     workers.into_iter().map(|worker| worker.join().unwrap()).sum()
/// });
/// assert_eq!(spent, 4_000);
/// # }
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Debug)]
pub struct LeasingBucket {
    bucket: TokenBucket,
    budget: u32,
    /// The part of the budget that is not leased.
    unleased: AtomicU64,
}

impl LeasingBucket {
    const_unless_loom! {
        /// Creates a full bucket that sets aside `budget` tokens of the burst for leases.
        ///
        /// # Errors
        ///
        /// [`OutOfRange`] if the budget is 0, or not less than the burst.
        pub const fn new(quota: Quota, budget: u32) -> Result<Self, OutOfRange> {
            match set_aside(quota, budget) {
                Ok(own) => Ok(Self { bucket: TokenBucket::new(own), budget, unleased: AtomicU64::new(budget as u64) }),
                Err(error) => Err(error),
            }
        }
    }

    /// Claims `size` tokens of the budget for a new lease.
    fn claim(&self, size: u32) -> Result<(), OutOfRange> {
        OutOfRange::check_count("size", size.into(), 1..=u64::MAX)?;
        // ORDERING: Relaxed: the swap below fails if this value is stale.
        let mut left = self.unleased.load(Ordering::Relaxed);
        loop {
            let Some(after) = left.checked_sub(size.into()) else {
                return OutOfRange::check_count("size", size.into(), 0..=left)
                    .map_err(|error| error.note("(the part of the budget that is not leased)"));
            };
            // ORDERING: Acquire pairs with the Release in `Drop`: a thread that claims budget which a lease returned
            // finds the tokens that the lease returned first. loom-tests: leases::successor_finds_the_returned_tokens.
            match self.unleased.compare_exchange_weak(left, after, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(newer) => left = newer,
            }
        }
    }
}

impl sealed::Sealed for LeasingBucket {}

impl Algorithm for LeasingBucket {
    #[inline]
    fn take(&self, n: u32, clock: &impl Clock) -> Result<Allowed, Denied> {
        self.bucket.take(n, clock)
    }

    #[inline]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, TakePosition), Denied> {
        self.bucket.take_revocably(n, clock)
    }

    fn roll_back(&self, n: u32, taken: TakePosition, clock: &impl Clock) {
        self.bucket.roll_back(n, taken, clock);
    }

    #[inline]
    fn look(&self) -> Option<Look> {
        self.bucket.look()
    }

    #[inline]
    fn judge(&self, look: Look, n: u32, now: u64, clock: &impl Clock) -> Verdict {
        self.bucket.judge(look, n, now, clock)
    }

    #[inline]
    fn take_judged(&self, take: &JudgedTake) -> bool {
        self.bucket.take_judged(take)
    }

    fn refusal(&self, n: u32, clock: &impl Clock) -> Option<Denied> {
        self.bucket.refusal(n, clock)
    }

    /// Returns the usage of the bucket, without the budget.
    fn usage(&self, clock: &impl Clock) -> Usage {
        self.bucket.usage(clock)
    }

    fn reset(&self, clock: &impl Clock) {
        self.bucket.reset(clock);
    }

    fn drain(&self, clock: &impl Clock) -> u32 {
        self.bucket.drain(clock)
    }

    fn quota(&self) -> Quota {
        with_budget(&self.bucket, self.budget)
    }

    fn prepare_quota(&self, quota: Quota, clock: &impl Clock) -> Result<PreparedQuota<'_>, SetQuotaError> {
        self.bucket.prepare_quota(beside(quota, self.budget)?, clock)
    }

    fn put_in_force(&self, prepared: PreparedQuota<'_>, clock: &impl Clock) {
        self.bucket.put_in_force(prepared, clock);
    }
}

#[cfg(feature = "std")]
impl RateLimiter<LeasingBucket> {
    const_unless_loom! {
        /// Creates a token bucket that sets aside `budget` tokens of its burst for leases.
        ///
        /// It uses the [default clock](crate::time::DefaultClock). For another clock, use
        /// `RateLimiter::with_algorithm(LeasingBucket::new(quota, budget)?, clock)`.
        ///
        /// # Errors
        ///
        /// [`OutOfRange`] if the budget is 0, or not less than the burst.
        pub const fn leasing(quota: Quota, budget: u32) -> Result<Self, OutOfRange> {
            match LeasingBucket::new(quota, budget) {
                Ok(bucket) => Ok(Self::with_algorithm(bucket, crate::time::Monotonic)),
                Err(error) => Err(error),
            }
        }
    }
}

impl<C: Clock> RateLimiter<LeasingBucket, C> {
    /// Returns a lease that holds up to `size` tokens, empty at first.
    ///
    /// It is for one thread or task.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if `size` is 0, or exceeds what is left of the budget.
    pub fn lease(&self, size: u32) -> Result<Lease<&Self>, OutOfRange> {
        self.parts().0.claim(size)?;
        Ok(Lease { limiter: self, size, held: 0 })
    }

    /// Returns a lease as [`lease`](Self::lease) does, but one that keeps an `Arc` of the limiter.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if `size` is 0, or exceeds what is left of the budget.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub fn lease_owned(self: &alloc::sync::Arc<Self>, size: u32) -> Result<Lease<alloc::sync::Arc<Self>>, OutOfRange> {
        self.parts().0.claim(size)?;
        Ok(Lease { limiter: alloc::sync::Arc::clone(self), size, held: 0 })
    }
}

/// The tokens of one thread or task, taken from the limiter many at a time.
///
/// While they last, a check is a subtraction, which touches no atomic and reads no clock.
///
/// A lease holds up to its size. A check that finds too few tokens in the lease takes the rest from the bucket, and
/// refills the lease.
///
/// Only the owner of a lease can spend its tokens. An idle lease keeps them from all others until it is
/// [emptied](Lease::give_back) or dropped. A lease that is leaked (by `mem::forget`) keeps its part of the budget for
/// ever.
///
/// Its tokens do not expire, and a change of the quota does not touch them.
#[derive(Debug)]
#[must_use = "a lease that is dropped at once gives nothing"]
pub struct Lease<L: LimiterRef<Algorithm = LeasingBucket>> {
    limiter: L,
    size: u32,
    held: u32,
}

impl<L: LimiterRef<Algorithm = LeasingBucket>> Lease<L> {
    /// Spends one token if there is one in the lease or in the bucket.
    ///
    /// # Errors
    ///
    /// [`Denied`], which is the bucket's refusal.
    #[inline]
    pub fn check(&mut self) -> Result<(), Denied> {
        self.check_n(1)
    }

    /// Spends `n` tokens if the lease and the bucket together have them, else none.
    ///
    /// # Errors
    ///
    /// [`Denied`], with which the bucket refuses the tokens that the lease lacks.
    #[inline]
    pub fn check_n(&mut self, n: u32) -> Result<(), Denied> {
        match self.held.checked_sub(n) {
            Some(rest) => {
                self.held = rest;
                Ok(())
            }
            None => self.refill_and_spend(n).map(drop),
        }
    }

    /// Spends `n` tokens, more than the lease holds, and returns how many of them no bucket owes.
    #[cold]
    fn refill_and_spend(&mut self, n: u32) -> Result<u32, Denied> {
        let (leasing, clock) = self.limiter.limiter().parts();
        let missing = n - self.held;
        let (taken, is_owed) = leasing.bucket.take_between(missing, missing.saturating_add(self.size), clock)?;
        self.held = taken - missing;
        Ok(if is_owed { 0 } else { missing })
    }

    /// Spends `n` tokens as [`check_n`](Self::check_n) does, for a call whose true cost is known later.
    ///
    /// It never waits. The returned reservation corrects the cost when it is [settled](LeaseReservation::settle). It
    /// borrows the lease, because a lease serves one call at a time.
    ///
    /// # Errors
    ///
    /// [`Denied`], with which the bucket refuses the tokens that the lease lacks.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{Quota, RateLimiter};
    ///
    /// let rows = RateLimiter::leasing(Quota::per_second(1_000_000), 4_096)?;
    /// let mut lease = rows.lease(1_000)?;
    /// let query = lease.reserve(500)?; // an estimate; the lease was empty, so it is filled too
    /// query.settle(20); // the rows that were read; the lease is full, so the bucket gets the other 480 back
    /// assert_eq!(lease.held(), 1_000);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn reserve(&mut self, n: u32) -> Result<LeaseReservation<'_, L>, Denied> {
        let free = if let Some(rest) = self.held.checked_sub(n) {
            self.held = rest;
            0
        } else {
            self.refill_and_spend(n)?
        };
        Ok(LeaseReservation { lease: self, n, free })
    }

    /// Corrects the cost of a call that spent `taken` tokens but `used` another number.
    ///
    /// - Unused tokens go to the lease. Those that the lease has no room for go to the bucket.
    /// - An excess is spent from the lease. Tokens that the lease lacks are charged to the bucket.
    #[inline]
    fn settle(&mut self, taken: u32, used: u32) {
        let (unused, excess) = (taken.saturating_sub(used), used.saturating_sub(taken));
        let (kept, spent) = (unused.min(self.size - self.held), excess.min(self.held));
        self.held = self.held + kept - spent;
        if (unused, excess) != (kept, spent) {
            self.settle_with_the_bucket(unused - kept, excess - spent);
        }
    }

    #[cold]
    fn settle_with_the_bucket(&self, taken: u32, used: u32) {
        let (leasing, clock) = self.limiter.limiter().parts();
        leasing.bucket.settle(taken, used, clock);
    }

    /// Gives all tokens back to the bucket.
    ///
    /// Call it before the lease becomes idle. A bucket in debt takes the tokens too. Tokens that a full bucket has no
    /// room for are lost.
    pub fn give_back(&mut self) {
        if self.held > 0 {
            let (leasing, clock) = self.limiter.limiter().parts();
            // The bucket may be in debt, because the quota may have become lower while the lease held tokens. The
            // bucket's `give_back` works at any debt.
            leasing.bucket.give_back(self.held, clock);
            self.held = 0;
        }
    }

    /// Returns the tokens that the lease holds.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Returns the most tokens that the lease can hold.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }
}

impl<L: LimiterRef<Algorithm = LeasingBucket>> Drop for Lease<L> {
    fn drop(&mut self) {
        // The tokens are given back before the budget. Otherwise another lease could fill up before these tokens come
        // back.
        self.give_back();
        // ORDERING: Release, as `LeasingBucket::claim` says.
        self.limiter.limiter().parts().0.unleased.fetch_add(self.size.into(), Ordering::Release);
    }
}

/// A reservation of tokens that a call spent from a [`Lease`], by an estimate of its cost.
///
/// [`Lease::reserve`] returns it. [Settle](Self::settle) it when the true cost is known. If it is dropped instead, the
/// tokens stay spent.
#[derive(Debug)]
#[must_use = "a reservation that is dropped at once counts as used"]
pub struct LeaseReservation<'a, L: LimiterRef<Algorithm = LeasingBucket>> {
    lease: &'a mut Lease<L>,
    n: u32,
    /// How many of the tokens came from a quota without a limit. They were not taken from any bucket.
    free: u32,
}

impl<L: LimiterRef<Algorithm = LeasingBucket>> LeaseReservation<'_, L> {
    /// Corrects the number of tokens spent to the number that the call `used`.
    ///
    /// - A call that used fewer gives the rest back to the lease. Tokens that the lease has no room for are
    ///   [refunded](crate::RateLimiter::refund) to the bucket.
    /// - A call that used more spends the excess from the lease. Tokens that the lease lacks are charged to the bucket,
    ///   into debt if necessary, but not beyond [`Quota::max_debt`](crate::Quota::max_debt). Until that debt is repaid,
    ///   no lease gets tokens from the bucket, but leases still spend what they hold.
    /// - Tokens that came from the bucket under a quota without a limit are not given back.
    ///
    /// If the lease has room for the rest, or holds the excess, settling touches no memory that other threads use.
    #[inline]
    pub fn settle(self, used: u32) {
        self.lease.settle(self.n, used.max(self.free));
    }
}

/// Returns `quota` with its burst lowered by `budget`, the tokens that leases or stripes may hold.
pub(super) const fn set_aside(quota: Quota, budget: u32) -> Result<Quota, OutOfRange> {
    let burst = quota.burst_size();
    check!(check_count("budget", budget as u64, 1..=u64::MAX));
    check!(check_count("budget", budget as u64, 0..=burst.saturating_sub(1) as u64), "(less than the burst)");
    Ok(quota.burst(burst - budget))
}

/// Returns the quota that the user set. Its burst is that of the bucket's own quota plus `budget`.
pub(super) fn with_budget(bucket: &TokenBucket, budget: u32) -> Quota {
    let quota = bucket.quota();
    // The sum is the burst of the quota that was set, so it fits.
    quota.burst(quota.burst_size() + budget)
}

/// Returns the quota from [`set_aside`], or turns its error into [`SetQuotaError::BurstWithinBudget`].
pub(super) fn beside(quota: Quota, budget: u32) -> Result<Quota, SetQuotaError> {
    set_aside(quota, budget).map_err(|_| SetQuotaError::BurstWithinBudget)
}
