//! The costs of a call, taken from all limits and settled later.

use super::settling::TakenCost;
use super::{InFlight, LimitSet, LimitSetDenied, Limits};
use crate::limit::TokenBucket;
use crate::time::Clock;
use core::fmt;
use core::ops::Deref;
use sealed::Reservable;

/// A pointer to a [`LimitSet`] that a [`SetReservation`] can hold.
///
/// It is a `&LimitSet`, or an `Arc<LimitSet>` if the reservation has to outlive the borrow.
pub trait LimitSetRef: Deref<Target: Reservable> {}

impl<S: Deref<Target: Reservable>> LimitSetRef for S {}

mod sealed {
    /// The part of a set that its reservations need.
    pub trait Reservable {
        /// The costs that a call took.
        type Taken;

        /// Stops counting the costs of a call as unsettled, and frees its slot in the bulkhead.
        fn end(&self, taken: &Self::Taken);
    }
}

/// The costs that a call took, one for each limit.
#[derive(Clone, Copy)]
pub struct Taken<L: Limits> {
    costs: L::PerLimit<TakenCost>,
    /// The tick at which the costs were taken.
    since: u64,
}

impl<L: Limits> fmt::Debug for Taken<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken").field("costs", &self.costs.as_ref()).field("since", &self.since).finish()
    }
}

impl<L: Limits, C: Clock, P: InFlight> Reservable for LimitSet<L, C, P> {
    type Taken = Taken<L>;

    #[inline]
    fn end(&self, taken: &Taken<L>) {
        self.settling.release(&taken.costs);
        self.bulkhead.leave();
    }
}

/// The costs of one call, taken from all limits of a set, with its slot in the bulkhead.
///
/// [`LimitSet::reserve`] returns it.
///
/// Keep it for as long as the call takes, and [settle](Self::settle) it when the true costs are known. If it is dropped
/// instead, the slot is freed, and the costs count as used, because the call may have used them.
#[must_use = "a reservation that is dropped at once counts as used"]
pub struct SetReservation<S: LimitSetRef> {
    set: S,
    taken: <S::Target as Reservable>::Taken,
}

impl<S: Deref<Target = LimitSet<L, C, P>>, L: Limits, C: Clock, P: InFlight> SetReservation<S> {
    /// Takes the costs from all limits and a slot from the bulkhead, or nothing.
    pub(super) fn new(set: S, costs: L::Costs<'_>) -> Result<Self, P::Refusal> {
        let taken = set.take_costs(&set.copy_of_costs(costs.as_ref())?, &set.bulkhead)?;
        Ok(Self { set, taken })
    }

    /// Returns the reservation of costs that [`LimitSet::take_costs`] took.
    #[cfg(feature = "alloc")]
    pub(crate) fn of(set: S, taken: Taken<L>) -> Self {
        Self { set, taken }
    }

    /// Returns the set.
    #[cfg(feature = "alloc")]
    pub(crate) fn set(&self) -> &LimitSet<L, C, P> {
        &self.set
    }
}

impl<L: Limits, C: Clock, P: InFlight> LimitSet<L, C, P> {
    /// Returns a copy of the costs, or a refusal if there are not as many costs as limits.
    pub(crate) fn copy_of_costs(&self, costs: &[u32]) -> Result<L::PerLimit<u32>, LimitSetDenied> {
        let limits = self.limits.as_slice().len();
        if costs.len() != limits {
            return Err(LimitSetDenied::of_costs(costs.len(), limits));
        }
        let mut copy = L::filled(0);
        for (copy, &n) in copy.as_mut().iter_mut().zip(costs) {
            *copy = n;
        }
        Ok(copy)
    }

    /// Takes the costs from all limits and a slot from `bound`, or nothing.
    pub(crate) fn take_costs<B: InFlight>(&self, costs: &L::PerLimit<u32>, bound: &B) -> Result<Taken<L>, B::Refusal> {
        let cost = |index: usize| costs.as_ref()[index];
        // The bulkhead is asked first. So while it is full, calls write nothing to the limits.
        if let Some(refusal) = bound.refusal() {
            return Err(self.refusal(&cost).map_or(refusal, Into::into));
        }
        let mut taken = Taken { costs: L::filled(TakenCost::for_good(0)), since: 0 };
        self.take(cost, |now, verdicts| {
            bound.enter().inspect(|()| {
                taken = Taken { costs: self.settling.count(&self.limits, costs, verdicts, now), since: now };
            })
        })?;
        Ok(taken)
    }

    /// Returns the refusal that a call with these costs would get from the limits now. Writes nothing.
    #[cfg(feature = "alloc")]
    pub(crate) fn refusal_of(&self, costs: &L::PerLimit<u32>) -> Option<LimitSetDenied> {
        self.refusal(&|index| costs.as_ref()[index])
    }
}

impl<L: Limits<Algorithm = TokenBucket>, C: Clock, P: InFlight> LimitSet<L, C, P> {
    /// Gives back the `unused` tokens of a call, one number for each limit.
    ///
    /// Each limit does what [`RateLimiter::refund`](crate::RateLimiter::refund) does: it trusts the caller that the
    /// tokens were not used. If a call can keep a value until its cost is known, prefer [`reserve`](LimitSet::reserve)
    /// and [`settle`](SetReservation::settle). A reservation cannot give back more than it took, and what it gives back
    /// is [bounded](LimitSet::unsettled).
    ///
    /// If the number of limits is known only at run time, `unused` may be shorter than the set. The limits without a
    /// number then get nothing back.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{LimitSet, ManualClock, Quota};
    ///
    /// let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_hour(1_000)], ManualClock::new());
    /// both.check_n(5)?;
    /// both.refund([5, 5]); // the call was not made
    /// assert_eq!(both.peek().map(|usage| usage.remaining()), [10, 1_000]);
    /// # Ok::<(), damper::LimitSetDenied>(())
    /// ```
    pub fn refund(&self, unused: L::Costs<'_>) {
        for (bucket, &n) in self.limits.as_slice().iter().zip(unused.as_ref()) {
            bucket.refund(n, &self.clock);
        }
        self.bulkhead.limits_changed();
    }
}

impl<S, L, C, P> SetReservation<S>
where
    S: Deref<Target = LimitSet<L, C, P>>,
    L: Limits<Algorithm = TokenBucket>,
    C: Clock,
    P: InFlight,
{
    /// Corrects the costs to what the call used, and frees its slot.
    ///
    /// If the call was not made, settle with costs of 0. For each limit, tokens that were not used are given back as
    /// [`refund`](crate::RateLimiter::refund) does, with these exceptions:
    ///
    /// - Tokens for which a full bucket has no room are lost.
    /// - Tokens beyond the [bound](LimitSet::unsettled) on unsettled costs are not given back.
    /// - Nothing is given back after the [time-to-live](LimitSet::time_to_live).
    ///
    /// Tokens that were used beyond the cost are booked as [`charge`](crate::RateLimiter::charge) does, into debt if
    /// necessary. The debt is at most [`Quota::max_debt`](crate::Quota::max_debt). Calls are refused while a limit is
    /// in debt.
    ///
    /// The tokens are settled before the slot is freed, so the next call finds both. If the number of limits is known
    /// only at run time, `used` may be shorter than the set. The limits without a number then keep their costs.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{LimitSet, ManualClock, Quota};
    ///
    /// let llm = LimitSet::with_clock([Quota::per_minute(60), Quota::per_minute(6_000)], ManualClock::new());
    /// llm.reserve([1, 5_000])?.settle([1, 2_000]);
    /// assert_eq!(llm.peek().map(|usage| usage.used()), [1, 2_000]);
    ///
    /// llm.reserve([1, 4_000])?.settle([1, 5_000]); // 1,000 more than there are
    /// let denied = llm.reserve([1, 1]).unwrap_err();
    /// assert_eq!((denied.index(), denied.retry_after()), (1, Some(Duration::from_millis(10_010))));
    /// # Ok::<(), damper::LimitSetDenied>(())
    /// ```
    pub fn settle(self, used: L::Costs<'_>) {
        let (set, Taken { costs, since }) = (&*self.set, &self.taken);
        let is_alive = set.settling.is_alive(*since, set.clock.now());
        for ((bucket, taken), &used) in set.limits.as_slice().iter().zip(costs.as_ref()).zip(used.as_ref()) {
            let returnable = if is_alive { taken.returnable } else { 0 };
            bucket.settle(taken.cost, used.max(taken.cost - returnable), &set.clock);
        }
        // `self` is dropped only here, after the refunds. Then the costs no longer count as unsettled.
    }
}

/// Frees the slot, and stops counting the costs as unsettled. The costs stay taken.
impl<S: LimitSetRef> Drop for SetReservation<S> {
    #[inline]
    fn drop(&mut self) {
        self.set.end(&self.taken);
    }
}

impl<S: LimitSetRef> fmt::Debug for SetReservation<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetReservation").finish_non_exhaustive()
    }
}
