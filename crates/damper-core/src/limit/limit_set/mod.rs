//! Several limits in one decision.

// | file | idea |
// |---|---|
// | `mod` | `LimitSet`: takes the costs of all limits or of none; changes their quotas |
// | `limits` | `Limits`: an array of limits, or a number of them that is known at run time |
// | `in_flight` | `InFlight`: a bound on the calls in flight |
// | `reservation` | `SetReservation`: costs that were taken, to be settled |
// | `settling` | `Settling`: the bounds on what reservations may give back |
// | `denied` | `LimitSetDenied`: the refusal |
// | `error` | `LimitSetQuotaError`: the refusal of a quota |

mod denied;
mod error;
mod in_flight;
mod limits;
mod reservation;
mod settling;

pub use denied::LimitSetDenied;
pub use error::LimitSetQuotaError;
pub(crate) use in_flight::InFlight;
pub use limits::Limits;
pub use reservation::SetReservation;
#[cfg(feature = "alloc")]
pub(crate) use reservation::Taken;

use super::algorithm::Verdict;
use super::{Algorithm, Allowed, Denied, Limiter, TokenBucket, Usage};
#[cfg(feature = "alloc")]
use crate::OutOfRange;
use crate::gate::Forecast;
use crate::quota::Quota;
use crate::time::{Clock, DefaultClock};
#[cfg(feature = "alloc")]
use alloc::boxed::Box;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::time::Duration;
use settling::Settling;

/// Several limits that a call has to pass together, such as ten a second *and* a thousand an hour.
///
/// A call takes its tokens of all limits, or of none.
///
/// A check loads the words of all limits, reads the clock once, and judges all of them. Only then does it take tokens,
/// from the first limit to the last.
///
/// If a limit refuses when it is judged, the check takes nothing and writes nothing. The refusal names the limit with
/// the longest wait. (As with a single limit, a check does write at the first use of a limit, and when it repairs a
/// state from before the clock stepped back. A `SlidingLog` reads the clock by itself.)
///
/// # Contention
///
/// Another call may take tokens of a limit between the load of its word and the take. The set then decides about that
/// limit anew. If this limit now refuses, the limits before it get back what the call took, less what has been refilled
/// since. Such a refusal is [contended](LimitSetDenied::is_contended).
///
/// No limit ever allows more than it would alone, counting the calls that all limits allowed. A call may be refused
/// because of tokens that another call is about to give back. All calls take in the order of the limits, so this
/// happens only if a later limit refused the other call. Of calls that compete for the last tokens, one is allowed. In
/// a simulation of 32 cores that hammer on the limit of an organisation without tokens, one decision in 200,000 was
/// such a refusal. If each limit were taken from before the next one is looked at, it would be one in 70.
///
/// Put the narrowest limit first, so that the least is given back.
///
/// # A cost for each limit
///
/// [`check_n`](Self::check_n) takes the same number of tokens of each limit, and [`reserve`](Self::reserve) takes a
/// separate cost of each. The reservation is [settled](SetReservation::settle) when the true cost is known. With
/// [`with_bulkhead`](Self::with_bulkhead) it also holds a slot until then, so that the calls in flight are limited too.
///
/// The tokens that a reservation gives back come on top of what the limit's quota allows. So at most
/// [`unsettled`](Self::unsettled) bursts of a limit may be given back by the reservations that are unsettled at any
/// moment: two, unless set. A reservation beyond that is allowed, but gives nothing back. After its
/// [`time_to_live`](Self::time_to_live) a reservation counts as used in full.
///
/// # Order
///
/// A set decides at once. Callers that retry after their refusals are served in no order: in a simulation of a
/// saturated set the largest calls were never served, because cheaper ones always came first. If the order matters,
/// give the set a [`queue`](Self::queue): then [`acquire`](Self::acquire) waits, first come, first served.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::{LimitSet, ManualClock, Quota};
///
/// let clock = ManualClock::new();
/// let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_hour(15)], &clock);
/// assert!(both.check_n(10).is_ok());
/// assert_eq!(both.check().unwrap_err().index(), 0);
/// clock.advance(core::time::Duration::from_secs(1));
/// assert!(both.check_n(5).is_ok());
/// let denied = both.check_n(6).unwrap_err(); // the first limit would wait for 100 ms
/// assert_eq!(denied.to_string(), "limit 2 (15/h burst 15): rate limit exceeded, retry in 1439 s");
/// ```
///
/// This set limits the requests, tokens and calls in flight of a language model:
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{Bulkhead, LimitSet, Quota};
///
/// let llm = LimitSet::new([Quota::per_minute(60), Quota::per_minute(90_000)]).with_bulkhead(Bulkhead::new(8));
/// let estimate = 2_000;
/// let call = llm.reserve([1, estimate])?;
/// let bill = 700; // what the answer says
/// call.settle([1, bill]);
/// assert_eq!(llm.peek()[1].remaining(), 90_000 - 700);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LimitSet<L: Limits, C = DefaultClock, P = ()> {
    limits: L,
    clock: C,
    settling: Settling<L>,
    bulkhead: P,
}

#[cfg(feature = "std")]
impl<const N: usize> LimitSet<[TokenBucket; N]> {
    /// Creates token buckets of these quotas on the default clock.
    #[must_use]
    pub fn new(quotas: [Quota; N]) -> Self {
        Self::with_clock(quotas, crate::time::Monotonic)
    }
}

impl<const N: usize, C: Clock> LimitSet<[TokenBucket; N], C> {
    /// Creates token buckets of these quotas on a clock of your own.
    #[must_use]
    pub fn with_clock(quotas: [Quota; N], clock: C) -> Self {
        Self::with_algorithms(quotas.map(TokenBucket::new), clock)
    }
}

impl<const N: usize, A: Algorithm, C: Clock> LimitSet<[A; N], C> {
    /// Creates a set of limits that all have the same algorithm.
    #[must_use]
    pub fn with_algorithms(limits: [A; N], clock: C) -> Self {
        let settling = Settling::new(&limits, &clock);
        Self { limits, clock, settling, bulkhead: () }
    }
}

#[cfg(feature = "alloc")]
impl<A: Algorithm, C: Clock> LimitSet<Box<[A]>, C> {
    /// Creates a set of limits whose number is known at run time, such as those of a file.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if there are more than 16.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{LimitSet, ManualClock, Quota, TokenBucket};
    ///
    /// let quotas: Vec<Quota> = vec!["60/min".parse()?, "90000/min".parse()?, "1000/day".parse()?];
    /// let limits = LimitSet::boxed(quotas.into_iter().map(TokenBucket::new), ManualClock::new())?;
    /// let call = limits.reserve(&[1, 2_000, 1])?;
    /// call.settle(&[1, 700, 1]);
    /// assert_eq!(limits.peek()[1].used(), 700);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn boxed(limits: impl IntoIterator<Item = A>, clock: C) -> Result<Self, OutOfRange> {
        let limits: Box<[A]> = limits.into_iter().collect();
        OutOfRange::check_count("limits", limits.len() as u64, 0..=limits::MOST as u64)?;
        let settling = Settling::new(&limits, &clock);
        Ok(Self { limits, clock, settling, bulkhead: () })
    }
}

impl<L: Limits, C: Clock> LimitSet<L, C> {
    /// Limits the calls in flight too.
    ///
    /// A call is in flight from [`reserve`](Self::reserve) until the reservation is settled or dropped.
    ///
    /// It takes a [`Bulkhead`](crate::Bulkhead), or a reference to one or an `Arc` of one that others use too. A set
    /// with a bulkhead has no `check`, because a check returns nothing that could hold a slot.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::concurrency::LimitSetRefusal;
    /// use damper::{Bulkhead, LimitSet, ManualClock, Quota};
    ///
    /// let clock = ManualClock::new();
    /// let llm = LimitSet::with_clock([Quota::per_minute(60)], &clock).with_bulkhead(Bulkhead::with_clock(1, &clock));
    /// let call = llm.reserve([1])?;
    /// let refusal = llm.reserve([1]).unwrap_err();
    /// assert!(matches!(refusal, LimitSetRefusal::InFlight(full) if full.limit() == 1));
    /// drop(call);
    /// assert_eq!(llm.bulkhead().in_flight(), 0);
    /// # Ok::<(), LimitSetRefusal>(())
    /// ```
    #[must_use]
    pub fn with_bulkhead<P: InFlight>(self, bulkhead: P) -> LimitSet<L, C, P> {
        let Self { limits, clock, settling, bulkhead: () } = self;
        LimitSet { limits, clock, settling, bulkhead }
    }

    /// Takes one token of every limit if all of them have one.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`], which names the refusing limit with the longest wait.
    pub fn check(&self) -> Result<Allowed, LimitSetDenied> {
        self.check_n(1)
    }

    /// Takes `n` tokens of every limit if all of them have so many, else none.
    ///
    /// [`Allowed`] describes the limit that has the fewest tokens left.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`], which names the refusing limit with the longest wait.
    pub fn check_n(&self, n: u32) -> Result<Allowed, LimitSetDenied> {
        self.take(|_| n, |_| Ok(()))
    }
}

impl<L: Limits, C: Clock, P> LimitSet<L, C, P> {
    /// Returns how much of each limit is used, in the order of the limits, and takes nothing.
    ///
    /// [`ready_in`](Self::ready_in) returns how long it takes until given costs are available.
    pub fn peek(&self) -> L::Usages {
        self.limits.usages(&self.clock)
    }
}

impl<L: Limits, C: Clock, P: InFlight> LimitSet<L, C, P> {
    /// Takes a cost of each limit, and a slot of the bulkhead if there is one: all of them, or none.
    ///
    /// It is for costs that are known only afterwards. Take an estimate, and [settle](SetReservation::settle) the
    /// reservation when the true cost is known. A reservation that is dropped without that, by a panic or a cancelled
    /// future, counts as used in full.
    ///
    /// In any stretch of time each limit allows what its quota allows, plus what reservations give back in that time.
    /// The reservations made before the stretch give back at most what was [unsettled](Self::unsettled) at its start:
    /// two bursts, unless set.
    /// The set never takes in advance: a call that is allowed may begin at once.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`], which names the refusing limit with the longest wait. A cost above the burst is refused for
    /// ever. With a bulkhead it is a [`LimitSetRefusal`](crate::concurrency::LimitSetRefusal), which names the bulkhead
    /// only if no limit refuses.
    pub fn reserve(&self, costs: L::Costs<'_>) -> Result<SetReservation<&Self>, P::Refusal> {
        SetReservation::new(self, costs)
    }

    /// Reserves as [`reserve`](Self::reserve) does, with a reservation that owns a reference to the set.
    ///
    /// The reservation is `'static` if the set is. It suits queues, spawned tasks and streamed responses.
    ///
    /// # Errors
    ///
    /// It fails as [`reserve`](Self::reserve) does.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub fn reserve_owned(self: &Arc<Self>, costs: L::Costs<'_>) -> Result<SetReservation<Arc<Self>>, P::Refusal> {
        SetReservation::new(Arc::clone(self), costs)
    }

    /// Returns the bound on the calls in flight.
    pub const fn bulkhead(&self) -> &P {
        &self.bulkhead
    }

    /// Returns the time until these costs are available, and takes nothing.
    ///
    /// It is rounded up to the clock's tick, and zero if they are available now. It is `None` if no wait helps, as for
    /// [`LimitSetDenied::retry_after`], or if there are not as many costs as limits. It considers only the limits,
    /// neither the calls in flight nor the calls that wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{LimitSet, ManualClock, Quota};
    ///
    /// let llm = LimitSet::with_clock([Quota::per_minute(60), Quota::per_minute(6_000)], ManualClock::new());
    /// assert_eq!(llm.ready_in([1, 5_000]), Some(Duration::ZERO));
    /// llm.reserve([1, 5_000])?.settle([1, 4_000]);
    /// assert_eq!(llm.ready_in([1, 5_000]), Some(Duration::from_secs(30)));
    /// assert_eq!(llm.ready_in([1, 7_000]), None); // more than the burst
    /// # Ok::<(), damper::LimitSetDenied>(())
    /// ```
    pub fn ready_in(&self, costs: L::Costs<'_>) -> Option<Duration> {
        let costs = costs.as_ref();
        if costs.len() != self.limits.as_slice().len() {
            return None;
        }
        match self.refusal(&|index| costs[index]) {
            None => Some(Duration::ZERO),
            Some(denied) => denied.retry_after(),
        }
    }

    /// Returns the clock.
    #[cfg(feature = "alloc")]
    pub(crate) const fn clock(&self) -> &C {
        &self.clock
    }

    /// Returns the set after `change` has replaced its bound on the calls in flight.
    #[cfg(feature = "alloc")]
    pub(crate) fn with_bound<Q>(self, change: impl FnOnce(P) -> Q) -> LimitSet<L, C, Q> {
        let Self { limits, clock, settling, bulkhead } = self;
        LimitSet { limits, clock, settling, bulkhead: change(bulkhead) }
    }

    /// Puts another quota in force for the limit `index`.
    ///
    /// It does what [`RateLimiter::set_quota`](super::RateLimiter::set_quota) does.
    ///
    /// # Errors
    ///
    /// [`LimitSetQuotaError`] if there is no such limit, or if the limit refuses the quota. The old quota then stays.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{LimitSet, ManualClock, Quota};
    ///
    /// let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_hour(1_000)], ManualClock::new());
    /// both.set_quota(1, Quota::per_hour(2_000))?;
    /// let error = both.set_quota(2, Quota::per_hour(2_000)).unwrap_err();
    /// assert_eq!(error.to_string(), "limit 3 does not exist, there are 2");
    /// # Ok::<(), damper::limit::LimitSetQuotaError>(())
    /// ```
    pub fn set_quota(&self, index: usize, quota: Quota) -> Result<(), LimitSetQuotaError> {
        let limits = self.limits.as_slice();
        let missing = LimitSetQuotaError::NoSuchLimit { index, limits: limits.len() };
        let limit = limits.get(index).ok_or(missing)?;
        limit.set_quota(quota, &self.clock).map_err(|error| LimitSetQuotaError::Refused { index, error })?;
        self.bulkhead.limits_changed();
        Ok(())
    }

    /// Puts a quota in force for each of the limits, for all or for none.
    ///
    /// If two threads change the quotas, those of one of them are in force in the end, never a mixture. A decision
    /// during a change may use the new quota of one limit and the old quota of another.
    ///
    /// # Errors
    ///
    /// [`LimitSetQuotaError`] if one of the limits refuses its quota, another thread is changing one, or there are not
    /// as many quotas as limits. All quotas then stay.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{LimitSet, ManualClock, Quota};
    ///
    /// let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_hour(15)], ManualClock::new());
    /// both.set_quotas([Quota::per_second(20), Quota::per_hour(1_000)])?;
    /// let too_fast = Quota::per_second(1_000_000_000).burst(15);
    /// assert!(both.set_quotas([Quota::per_second(30), too_fast]).is_err());
    /// assert_eq!(both.peek().map(|usage| usage.limit()), [20, 1_000]);
    /// # Ok::<(), damper::limit::LimitSetQuotaError>(())
    /// ```
    pub fn set_quotas(&self, quotas: L::Quotas<'_>) -> Result<(), LimitSetQuotaError> {
        let (limits, quotas) = (self.limits.as_slice(), quotas.as_ref());
        if limits.len() != quotas.len() {
            return Err(LimitSetQuotaError::WrongNumber { quotas: quotas.len(), limits: limits.len() });
        }
        self.put_in_force(0, limits, quotas)?;
        self.bulkhead.limits_changed();
        Ok(())
    }

    /// Puts the quotas of these limits in force. The first of them has the index `index` in the set.
    ///
    /// All quotas are prepared before the first is put in force. Another thread that changes a quota meanwhile gets
    /// `SetQuotaError::Busy`.
    fn put_in_force(&self, index: usize, limits: &[L::Algorithm], quotas: &[Quota]) -> Result<(), LimitSetQuotaError> {
        let (Some((limit, limits)), Some((&quota, quotas))) = (limits.split_first(), quotas.split_first()) else {
            return Ok(());
        };
        let prepared = limit.prepare_quota(quota, &self.clock);
        let prepared = prepared.map_err(|error| LimitSetQuotaError::Refused { index, error })?;
        self.put_in_force(index + 1, limits, quotas)?;
        limit.put_in_force(prepared, &self.clock);
        Ok(())
    }

    /// Takes the cost of each limit and calls `enter`, or takes nothing.
    ///
    /// `enter` comes last, and gets the tick at which the limits were judged. If it fails, all costs are given back.
    ///
    /// All calls swap in the order of the limits. So a call is refused because of tokens that another call gives back
    /// only if a later limit refused that other call. If no later limit refuses, one of the calls that compete for a
    /// limit succeeds.
    #[inline]
    fn take<E: From<LimitSetDenied>>(
        &self,
        cost: impl Fn(usize) -> u32,
        enter: impl FnOnce(u64) -> Result<(), E>,
    ) -> Result<Allowed, E> {
        let limits = self.limits.as_slice();
        let (now, mut verdicts) = self.judge(&cost);
        if !verdicts.as_ref().iter().take(limits.len()).all(Verdict::is_allowed)
            && let Some(denied) = self.longest_refusal(&cost, verdicts.as_mut())
        {
            return Err(denied.into());
        }
        for (index, limit) in limits.iter().enumerate() {
            match &verdicts.as_ref()[index] {
                Verdict::Allowed(take, _) if limit.take_judged(take) => {}
                _ => self.take_anew(index, &cost, verdicts.as_mut())?,
            }
        }
        enter(now).inspect_err(|_| self.roll_back(&cost, verdicts.as_ref()))?;
        let tightest = verdicts.as_ref().iter().filter_map(Verdict::allowed).reduce(tighter);
        Ok(tightest.copied().unwrap_or_else(Allowed::unlimited))
    }

    /// Looks at all limits, reads the clock once, and judges each.
    #[inline]
    fn judge(&self, cost: &impl Fn(usize) -> u32) -> (u64, L::PerLimit<Verdict>) {
        let limits = self.limits.as_slice();
        let mut looks = L::filled(None);
        for (limit, look) in limits.iter().zip(looks.as_mut()) {
            *look = limit.look();
        }
        // The clock is read after all words. `OneWord::read` says why.
        let now = self.clock.now();
        let mut verdicts = L::filled(Verdict::Undecided);
        for (index, (limit, verdict)) in limits.iter().zip(verdicts.as_mut()).enumerate() {
            *verdict = match looks.as_ref()[index] {
                Some(look) => limit.judge(look, cost(index), now, &self.clock),
                None => Verdict::Undecided,
            };
        }
        (now, verdicts)
    }

    /// Returns the refusal with the longest wait.
    ///
    /// A limit that could not be judged by its look is asked for its refusal.
    #[cold]
    fn longest_refusal(&self, cost: &impl Fn(usize) -> u32, verdicts: &mut [Verdict]) -> Option<LimitSetDenied> {
        let limits = self.limits.as_slice();
        let mut longest: Option<(usize, &Denied)> = None;
        for (index, (limit, verdict)) in limits.iter().zip(verdicts).enumerate() {
            if let Verdict::Undecided = verdict
                && let Some(denied) = limit.refusal(cost(index), &self.clock)
            {
                *verdict = Verdict::Refused(denied);
            }
            if let Verdict::Refused(denied) = verdict
                && longest.is_none_or(|(_, longest)| denied.outlasts(longest))
            {
                longest = Some((index, denied));
            }
        }
        longest.map(|(index, denied)| LimitSetDenied::new(*denied, index, limits[index].quota()))
    }

    /// Takes a limit's cost by a new decision, if it could not be judged or its swap failed.
    ///
    /// If the limit refuses, the limits before it get their tokens back.
    #[cold]
    fn take_anew(
        &self,
        index: usize,
        cost: &impl Fn(usize) -> u32,
        verdicts: &mut [Verdict],
    ) -> Result<(), LimitSetDenied> {
        let limit = &self.limits.as_slice()[index];
        match limit.take_revocably(cost(index), &self.clock) {
            Ok((allowed, position)) => verdicts[index] = Verdict::taken(allowed, position),
            Err(denied) => {
                self.roll_back(cost, &verdicts[..index]);
                return Err(LimitSetDenied::new(denied, index, limit.quota()).contended());
            }
        }
        Ok(())
    }

    /// Gives back the costs that were taken of the first limits, as many limits as there are `verdicts`.
    #[cold]
    fn roll_back(&self, cost: &impl Fn(usize) -> u32, verdicts: &[Verdict]) {
        for (index, (limit, verdict)) in self.limits.as_slice().iter().zip(verdicts).enumerate().rev() {
            if let Verdict::Allowed(take, _) = verdict {
                limit.roll_back(cost(index), take.position, &self.clock);
            }
        }
    }

    /// Returns the refusal that a call with these costs would get from the limits now. Takes nothing.
    #[cold]
    pub(crate) fn refusal(&self, cost: &impl Fn(usize) -> u32) -> Option<LimitSetDenied> {
        self.longest_refusal(cost, self.judge(cost).1.as_mut())
    }
}

/// Returns the answer with fewer tokens left, or the first if both have as many.
#[inline]
fn tighter<'a>(one: &'a Allowed, other: &'a Allowed) -> &'a Allowed {
    if other.remaining() < one.remaining() { other } else { one }
}

/// Refuses with the refusal of the limit that has the longest wait.
///
/// [`check_n`](LimitSet::check_n) also says which limit that is.
impl<L: Limits, C: Clock> Limiter for LimitSet<L, C> {
    #[inline]
    fn try_acquire(&self, n: u32) -> Result<(), Denied> {
        self.check_n(n).map(drop).map_err(|refused| refused.denied())
    }

    fn usage(&self) -> Usage {
        let usages = self.limits.as_slice().iter().map(|limit| limit.usage(&self.clock));
        usages.min_by_key(Usage::remaining).unwrap_or(Usage::UNLIMITED)
    }

    fn forecast(&self, n: u32) -> Forecast<Denied> {
        self.refusal(&|_| n).map(|refused| refused.denied()).into()
    }
}
