//! Several limits in one decision.

// | file | idea |
// |---|---|
// | `mod` | `LimitSet`: takes the costs of all limits or of none; changes their quotas |
// | `limits` | `Limits`: an array of limits, or a boxed slice of them |
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
/// A call takes its tokens from all limits, or from none.
///
/// A check first loads the words of all limits, in which they keep their state. Then it reads the clock once, and
/// judges all limits. (A `SlidingLog` reads the clock by itself.) Only then does it take tokens, from the first limit
/// to the last.
///
/// If a limit refuses when it is judged, the check takes nothing and writes nothing. The refusal names the limit with
/// the longest wait. As with a single limit, there are two exceptions: a check writes at the first use of a limit, and
/// when it repairs a state from before the clock stepped back.
///
/// # Contention
///
/// Another call may take tokens from a limit after this call has loaded its word. This call then decides about that
/// limit anew. If the limit refuses now, the limits before it get back what the call took, less what has been refilled
/// since. Such a refusal is [contended](LimitSetDenied::is_contended).
///
/// No limit ever allows more than it would alone. Only calls that all limits allowed count for this.
///
/// A call may be refused because of tokens that another call is about to give back. All calls take in the order of the
/// limits, and from the bulkhead last. So this happens only if a later limit or the bulkhead refused the other call.
/// Otherwise one of the calls that compete for the last tokens is allowed.
///
/// In a simulation, 32 cores called a set without pause while the limit of an organisation had no tokens. One decision
/// in 200,000 was such a refusal. It would be one in 70 if each limit were taken from before the next one is looked at.
///
/// Put the narrowest limit first: it refuses most often, and a refusal by the first limit leaves nothing to give back.
///
/// # A cost for each limit
///
/// [`check_n`](Self::check_n) takes the same number of tokens from each limit, and [`reserve`](Self::reserve) takes a
/// separate cost from each. The reservation is [settled](SetReservation::settle) when the true cost is known. With
/// [`with_bulkhead`](Self::with_bulkhead) it also holds a slot until then, so that the calls in flight are limited too.
///
/// Tokens that reservations give back come on top of what a limit's quota allows, so their number is bounded. At any
/// moment, the unsettled reservations can give back at most [`unsettled`](Self::unsettled) bursts of a limit, two
/// unless set. A reservation beyond this bound is allowed, but gives nothing back. After its
/// [`time_to_live`](Self::time_to_live) a reservation counts as used in full.
///
/// # Order
///
/// A set decides at once. Callers that retry after a refusal are served in no order. In a simulation of a saturated set
/// the largest calls were never served, because smaller ones always came first. If the order matters, give the set a
/// [`queue`](Self::queue). Then [`acquire`](Self::acquire) waits, first come, first served.
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
    /// Creates a set of token buckets with these quotas, on the default clock.
    #[must_use]
    pub fn new(quotas: [Quota; N]) -> Self {
        Self::with_clock(quotas, crate::time::Monotonic)
    }
}

impl<const N: usize, C: Clock> LimitSet<[TokenBucket; N], C> {
    /// Creates a set of token buckets with these quotas, on a clock of your own.
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
    /// Creates a set of limits whose number is known only at run time.
    ///
    /// For example, the limits come from a configuration file.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if there are more than 16 limits.
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
    /// `bulkhead` is a [`Bulkhead`](crate::Bulkhead), or a reference or an `Arc` to one that others use too. A set with
    /// a bulkhead has no `check`, because a check returns nothing that could hold a slot.
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

    /// Takes one token from every limit, or none if a limit has no token.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`], which names the refusing limit with the longest wait.
    pub fn check(&self) -> Result<Allowed, LimitSetDenied> {
        self.check_n(1)
    }

    /// Takes `n` tokens from every limit, or none if a limit has fewer.
    ///
    /// [`Allowed`] describes the limit that has the fewest tokens left.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`], which names the refusing limit with the longest wait.
    pub fn check_n(&self, n: u32) -> Result<Allowed, LimitSetDenied> {
        self.take(|_| n, |_, _| Ok(()))
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
    /// Takes a cost from each limit, and a slot from the bulkhead if there is one.
    ///
    /// It takes all of them, or none.
    ///
    /// Use it for costs that are known only afterwards. Take an estimate, and [settle](SetReservation::settle) the
    /// reservation when the true cost is known. If a panic or a cancelled future drops the reservation before that, it
    /// counts as used in full.
    ///
    /// In any stretch of time each limit allows what its quota allows, plus what reservations give back in that time.
    /// The reservations made before that time give back at most what was [unsettled](Self::unsettled) when it began:
    /// two bursts, unless set. The set never takes in advance: a call that is allowed may begin at once.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`], which names the refusing limit with the longest wait. A cost above the burst is refused for
    /// ever. With a bulkhead the error is a [`LimitSetRefusal`](crate::concurrency::LimitSetRefusal). It names the
    /// bulkhead only if no limit refuses.
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

    /// Returns the bound on the calls in flight: the bulkhead, a queue, or `()` if there is none.
    pub const fn bulkhead(&self) -> &P {
        &self.bulkhead
    }

    /// Returns the time until these costs are available, and takes nothing.
    ///
    /// The time is rounded up to the clock's tick. It is zero if the costs are available now. It is `None` if no wait
    /// helps, as for [`LimitSetDenied::retry_after`], or if the number of costs is not the number of limits. Only the
    /// limits count: calls in flight and calls that wait are ignored.
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

    /// Puts another quota in force for the limit with this index, counted from 0.
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

    /// Puts a new quota in force for every limit, or for none.
    ///
    /// If two threads change the quotas, those of one thread are in force in the end, never a mixture. A decision
    /// during a change may use the new quota of one limit and the old quota of another.
    ///
    /// # Errors
    ///
    /// [`LimitSetQuotaError`] if a limit refuses its quota, if another thread is changing one, or if the number of
    /// quotas is not the number of limits. All old quotas then stay.
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

    /// Puts the quotas of these limits in force. The first of these limits has the index `index` in the set.
    ///
    /// All quotas are prepared before the first is put in force. Meanwhile, another thread that changes one of them
    /// gets `SetQuotaError::Busy`.
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
    /// `enter` comes last. It gets the tick at which the limits were judged, and the verdicts, which say how the costs were
    /// taken. If it fails, all costs are given back.
    ///
    /// All calls swap in the order of the limits. So if a call is refused because of tokens that another call gives
    /// back, a later limit or `enter` has refused that other call. Otherwise one of the calls that compete for a limit
    /// succeeds.
    #[inline]
    fn take<E: From<LimitSetDenied>>(
        &self,
        cost: impl Fn(usize) -> u32,
        enter: impl FnOnce(u64, &L::PerLimit<Verdict>) -> Result<(), E>,
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
        enter(now, &verdicts).inspect_err(|_| self.roll_back(&cost, verdicts.as_ref()))?;
        let tightest = verdicts.as_ref().iter().filter_map(Verdict::allowed).reduce(tighter);
        Ok(tightest.copied().unwrap_or_else(Allowed::unlimited))
    }

    /// Loads the state of all limits, reads the clock once, and judges each limit.
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

    /// Returns the refusal by the limit with the longest wait, if any refuses.
    ///
    /// A limit whose verdict is undecided is asked again.
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

    /// Decides about one limit anew and takes its cost, because it could not be judged or its swap failed.
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

    /// Gives back the costs that were taken from the limits that `verdicts` covers, the last limit first.
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

/// Returns the answer with fewer tokens left, or `one` if both have as many.
#[inline]
fn tighter<'a>(one: &'a Allowed, other: &'a Allowed) -> &'a Allowed {
    if other.remaining() < one.remaining() { other } else { one }
}

/// A refusal is that of the limit with the longest wait.
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
