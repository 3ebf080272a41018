//! One gate before a server: a limit, classes, tenants and deadlines in one decision.

// | file | type |
// |---|---|
// | here | `Admission`: constructors, permits, the limit, counts; `FixedLimit`: the rule of a limit that you choose |
// | `enter` | how a call enters the gate, waits for it and leaves it |
// | `criticality` | `Criticality`: the class of a call |
// | `request` | `AdmissionRequest`: the class, tenant and deadline of a call; `Entrant`, the same on the gate's clock |
// | `classes` | `Classes`: the order in which its queue is served |
// | `shares` | `Shares`: the starts that the tenants of a class were given, and their waiting calls |
// | `median` | `RecentMedian`: of service times |
// | `permit` | the permits of an `Admission`, how to wait for them; `AdmissionRef` |
// | `run` | `RunToDeadline`: a call that is ended at its deadline |
// | `error` | `NotAdmitted` |

mod classes;
mod criticality;
mod enter;
mod error;
mod median;
mod permit;
mod request;
mod run;
mod shares;

pub(super) use classes::Classes;
pub use criticality::Criticality;
pub use error::NotAdmitted;
pub use permit::AdmissionPermit;
pub(crate) use permit::AdmissionRef;
pub use request::AdmissionRequest;
pub use run::RunToDeadline;

use crate::Acquire;
use crate::concurrency::adaptive::sampler::Sampler;
use crate::concurrency::bulkhead::permit::sealed::Slotted;
use crate::concurrency::queue::{Moment, Queue, SlotQueue};
use crate::concurrency::slots::{Occupancy, Slots};
use crate::concurrency::{BoundedRule, LimitBounds, LimitRule, ProbedGradient, WindowPlan, WindowSummary};
use crate::concurrency::{PermitRequest, RefusalCause};
use crate::sync::IS_MODEL;
use crate::time::{Clock, DefaultClock, Frequency, Seed, Ticks};
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use median::RecentMedian;

/// The default number of places of a queue.
const PLACES: u16 = if IS_MODEL { 4 } else { 1_024 };

/// The longest wait that a refusal names.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Decides which calls a server works on, by their class, tenant and deadline, within a limit.
///
/// The limit applies to the calls in flight. The gate serves calls by their [class](Criticality); the tenants of a class get
/// equal shares; and it refuses a call that can no longer end in time.
///
/// A limit alone refuses any call when it is reached. This one has a queue, as long as the limit, from which it chooses:
///
/// - While a slot is free, a call is admitted at once. Then no call is queued.
/// - Otherwise it is queued. A slot that becomes free goes to the highest [class](Criticality) with queued calls, within it to
///   the tenant that was given the fewest slots lately, and of that tenant to the newest call, which has the most time left.
/// - If the queue is full, a new call displaces one of the lowest class that has queued calls, unless that class is higher than
///   its own. It displaces the oldest call of the tenant with most calls queued.
/// - A call with less time left until its deadline than the median of recent service times is refused: when it arrives at the
///   queue, while it waits, and instead of being given a slot.
///
/// The limit [follows the service](crate::concurrency::AdaptiveLimit), or is [fixed](Self::fixed).
///
/// **End the work at its deadline**, with [`AdmissionPermit::run`], say. In simulations of three times the load that a server can
/// take, 99 % of the calls of the highest class, whose load was half of the capacity, got their response in time. Without the
/// queue a third did, as in every class. Where work was not ended at its deadline, 1 to 7 % of it was late.
///
/// The gate has two limitations. Strict priority starves: while the higher classes use up the capacity, the lower ones get
/// nothing. And there is one median: put calls of seconds and calls of milliseconds behind separate gates.
///
/// # Tenants
///
/// Equal tenants of a class get equal shares of the slots. In the simulations a tenant that sends ten times as much as the others
/// got 1.0 to 1.7 times as much as each of them: 1.7 under a limit of 10 or so, because often no other tenant had a call in so
/// short a queue. Only slots given to queued calls are counted. A call that finds a slot free takes it from no other call, so
/// nothing is counted without overload; counting those slots too changed nothing in simulations. A tenant that was away is owed
/// ten slots at most.
///
/// There are counters for 1,024 tenants per class, in groups of four that a keyed hash chooses. There may be more tenants: one
/// without a counter takes over that of a tenant of its group that has no calls queued. Five active tenants in one group get the
/// shares of four between them; of 100 active tenants that happens to 1 in 1,400 or so.
///
/// With far more active tenants than counters, or than places in the queue, a tenant that sends ten times as much as each of the
/// others gets more: under a limit of 256 and three times the load, 1.2 times as much as they with 1,000 tenants, 2.0 times with
/// 2,000, 3.5 times with 4,000 and 7 times with 16,000. The shares of the others differed by 23 % (1,000 tenants) to 34 % (2,000) from
/// their mean, where chance alone would make it 10 to 13 %. Put a limit per tenant before the gate where that matters.
///
/// # Cost
///
/// Share it by reference or in an `Arc`. With a slot free it decides without a lock, in one compare-and-swap. Where calls are
/// queued there is a lock, under which a slot is given in time proportional to the number of tenants queued. A gate takes some
/// 220 KB, half of it for the queue. Nothing is allocated after construction, except by the first [`wait`](crate::Acquire::wait) of each
/// thread.
///
/// # Panics in wakers
///
/// If a waker panics, no slot is lost, and the calls behind it are woken while the panic unwinds. If another of these wakers
/// panics too, the process aborts, as for any panic in a drop during unwinding.
///
/// # Memory ordering
///
/// Everything done before a permit is dropped happens before everything done under the permit that takes its slot.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use core::time::Duration;
/// use damper::Deadline;
/// use damper::concurrency::{Admission, AdmissionRequest, Criticality, NotAdmitted};
///
/// let gate = Admission::default();
///
/// let deadline = Deadline::after(Duration::from_millis(500));
/// let request = AdmissionRequest::new().criticality(Criticality::CriticalPlus).tenant("acme").by(&deadline);
/// let permit = gate.acquire(request).wait()?; // Err: answer 503
/// // ... the work, until permit.deadline() ...
/// permit.success();
/// assert_eq!((gate.limit(), gate.in_flight()), (20, 0));
/// # }
/// # Ok::<(), damper::concurrency::NotAdmitted>(())
/// ```
#[cfg(feature = "alloc")]
pub struct Admission<R = ProbedGradient, C = DefaultClock> {
    slots: Slots,
    queue: SlotQueue<Classes>,
    /// `None` where the limit is fixed.
    sampler: Option<Sampler<R>>,
    median: RecentMedian,
    seed: Seed,
    clock: C,
}

#[cfg(feature = "std")]
impl Admission {
    /// Creates a gate whose limit follows the service within these bounds, on the [default clock](DefaultClock).
    #[must_use]
    pub fn new(bounds: LimitBounds) -> Self {
        Self::with_clock(bounds, crate::time::Monotonic)
    }
}

#[cfg(feature = "std")]
impl Default for Admission {
    /// Creates a gate on the default clock whose limit starts at 20 and follows the service.
    ///
    /// The limit is from 1 to 1,000,000.
    fn default() -> Self {
        Self::new(LimitBounds::DEFAULT)
    }
}

#[cfg(feature = "std")]
impl Admission<FixedLimit> {
    /// Creates a gate for `limit` calls in flight, on the [default clock](DefaultClock).
    ///
    /// At most 2^24 - 1 calls (16,777,215): a higher limit counts as that. A limit of 0 refuses all calls at once, because the
    /// queue is no longer than the limit.
    #[must_use]
    pub fn fixed(limit: u32) -> Self {
        Self::fixed_with_clock(limit, crate::time::Monotonic)
    }
}

impl<C: Clock> Admission<ProbedGradient, C> {
    /// Creates a gate as [`new`](Admission::new) does, on a clock of your own. A reference to a clock is a clock too.
    #[must_use]
    pub fn with_clock(bounds: LimitBounds, clock: C) -> Self {
        let rule = ProbedGradient::new(bounds);
        let plan = rule.first().held();
        let places = PLACES.min(bounds.max().min(u16::MAX.into()) as u16);
        Self::of(plan.limit, places, Some(Sampler::new(rule, plan)), clock)
    }
}

impl<C: Clock> Admission<FixedLimit, C> {
    /// Creates a gate as [`fixed`](Admission::fixed) does, on a clock of your own. A reference to a clock is a clock too.
    #[must_use]
    pub fn fixed_with_clock(limit: u32, clock: C) -> Self {
        Self::of(limit, PLACES, None, clock)
    }

    /// Changes the limit while the gate is in use. At most 2^24 - 1, as for [`fixed`](Admission::fixed).
    ///
    /// A higher limit admits queued calls at once. Under a lower one calls in flight go on, and no other begins until enough of
    /// them have ended. Queued calls beyond the shorter queue are refused.
    pub fn set_limit(&self, limit: u32) {
        self.change_limit(limit);
    }
}

impl<R: LimitRule, C: Clock> Admission<R, C> {
    /// Creates a gate whose limit follows another rule.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(all(feature = "std", feature = "compared"))] {
    /// use damper::Monotonic;
    /// use damper::concurrency::compared::Aimd;
    /// use damper::concurrency::{Admission, LimitBounds};
    ///
    /// let gate = Admission::with_rule(Aimd::new(LimitBounds::new(4, 64)?), Monotonic);
    /// # assert_eq!(gate.limit(), 20);
    /// # }
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    #[must_use]
    pub fn with_rule(rule: R, clock: C) -> Self {
        let plan = rule.first().held();
        Self::of(plan.limit, PLACES, Some(Sampler::new(rule, plan)), clock)
    }

    fn of(limit: u32, places: u16, sampler: Option<Sampler<R>>, clock: C) -> Self {
        #[cfg(feature = "std")]
        let seed = Seed::random();
        #[cfg(not(feature = "std"))]
        let seed = Seed::new(0, 0);
        let queue = SlotQueue::empty(Classes::new()).with_places(places);
        Self { slots: Slots::new(limit), queue, sampler, median: RecentMedian::new(), seed, clock }
    }

    /// Sets the most calls that may be queued, whatever the limit.
    ///
    /// Default: 1,024. In a gate of [`new`](Admission::new) or
    /// [`with_clock`](Admission::with_clock) the highest limit, if that is lower.
    ///
    /// The queue is never longer than the limit in force, so that a call waits for about as long as a call takes. With 0 there is
    /// no queue, and so neither classes nor tenants. The places are allocated here, 104 bytes each on targets of 64 bits; at most
    /// 32,767.
    #[must_use]
    pub fn queue(self, places: u16) -> Self {
        Self { queue: self.queue.with_places(places), ..self }
    }

    /// Changes the most calls that may be queued while the gate is in use.
    ///
    /// More places are allocated here, and never freed. With fewer, queued calls beyond them are refused, those of the lowest class
    /// first.
    pub fn set_queue(&self, places: u16) {
        self.queue.set_places(&self.slots, self.now(), places);
    }

    /// Returns the most calls that may be queued, whatever the limit.
    #[must_use]
    pub fn places(&self) -> u16 {
        self.queue.places()
    }

    /// Sets the seed of the hash that chooses the counters of tenants. Default: a random one.
    ///
    /// Call it before the first use. Without `std` the default is always the same seed, so a client that chooses its tenant's
    /// name could share another tenant's counters.
    #[must_use]
    pub fn seed(self, seed: Seed) -> Self {
        Self { seed, ..self }
    }

    /// Admits a call if a slot is free and its deadline has not passed. Never waits, locks or allocates.
    ///
    /// Under overload no slot is free, so neither class nor tenant helps here. Use [`acquire`](Self::acquire) for calls that may wait
    /// for as long as a call takes.
    ///
    /// # Errors
    ///
    /// [`NotAdmitted`] if it is not admitted.
    #[inline]
    pub fn try_acquire(&self, request: AdmissionRequest) -> Result<AdmissionPermit<&Self>, NotAdmitted> {
        let admitted = self.enter(&request.at_once().on(&self.clock))?;
        Ok(AdmissionPermit::of_slot(self, admitted))
    }

    /// Admits a call as [`try_acquire`](Self::try_acquire) does; the permit has its own reference to the gate.
    ///
    /// The permit can outlive the borrow, as a response body or a spawned task needs.
    ///
    /// # Errors
    ///
    /// [`NotAdmitted`] if it is not admitted.
    #[cfg(target_has_atomic = "ptr")]
    #[inline]
    pub fn try_acquire_owned(
        self: &Arc<Self>,
        request: AdmissionRequest,
    ) -> Result<AdmissionPermit<Arc<Self>>, NotAdmitted> {
        let admitted = self.enter(&request.at_once().on(&self.clock))?;
        Ok(AdmissionPermit::of_slot(Arc::clone(self), admitted))
    }

    /// Waits in the queue until the call is admitted or refused, at most until its deadline.
    ///
    /// `gate.acquire(request).wait()?` blocks the thread, and `gate.acquire(request).await?` does not.
    ///
    /// A call that waits for an adaptive limit looks every 10 s whether any call has ended. So its future sleeps even if its wait has
    /// no end.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "tokio")] {
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() -> Result<(), damper::concurrency::NotAdmitted> {
    /// use damper::concurrency::{Admission, AdmissionRequest, Criticality};
    ///
    /// let gate = Admission::default();
    /// let permit = gate.acquire(AdmissionRequest::new().criticality(Criticality::Sheddable)).await?;
    /// permit.success();
    /// # Ok(())
    /// # }
    /// # run().unwrap(); }
    /// ```
    pub fn acquire(&self, request: AdmissionRequest) -> Acquire<&Self> {
        Acquire::new(PermitRequest::new(Ok(self), request.on(&self.clock)))
    }

    /// Waits as [`acquire`](Self::acquire) does, for a permit with its own reference to the gate.
    #[cfg(target_has_atomic = "ptr")]
    pub fn acquire_owned(self: &Arc<Self>, request: AdmissionRequest) -> Acquire<Arc<Self>> {
        Acquire::new(PermitRequest::new(Ok(Arc::clone(self)), request.on(&self.clock)))
    }

    /// Changes the bounds of the limit while the gate is in use.
    ///
    /// It works like [`AdaptiveLimit::set_bounds`](crate::concurrency::AdaptiveLimit::set_bounds).
    ///
    /// Queued calls beyond the queue of a lower limit are refused. The number of places of the queue does not change.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::concurrency::{Admission, LimitBounds};
    ///
    /// let gate = Admission::default();
    /// gate.set_bounds(LimitBounds::new(1, 10)?);
    /// assert_eq!(gate.limit(), 10);
    /// # }
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub fn set_bounds(&self, bounds: LimitBounds)
    where
        R: BoundedRule,
    {
        if let Some(sampler) = &self.sampler {
            sampler.set_bounds(bounds, self);
        }
    }

    /// Returns the latency of the unloaded service, if the limit's rule has learned one.
    #[must_use]
    pub fn baseline(&self) -> Option<Duration> {
        self.sampler.as_ref().and_then(|sampler| sampler.rule().baseline())
    }

    /// Records in an adaptive limit that `in_flight` calls were in flight.
    #[inline]
    fn saw(&self, in_flight: u32) {
        if let Some(sampler) = &self.sampler {
            sampler.saw(in_flight);
        }
    }

    /// Records in an adaptive limit that a call found no slot free under this limit.
    #[cold]
    fn saw_refusal(&self, limit: u32) {
        if let Some(sampler) = &self.sampler {
            sampler.refused(limit, &self.clock, self);
        }
    }

    fn now(&self) -> Moment {
        Moment { now: self.clock.now(), needed: self.median.ticks() }
    }

    /// Returns the ticks since an earlier one; 0 if the clock stepped back.
    #[inline]
    fn ticks_since(&self, began: u64) -> u64 {
        (self.clock.now().wrapping_sub(began) as i64).max(0) as u64
    }

    fn change_limit(&self, limit: u32) {
        self.queue.settle(&self.slots, || self.now(), |occupancy| occupancy.limited_to(limit));
    }

    /// Returns the refusal that [`try_acquire`](Self::try_acquire) would give now, if any. Writes nothing.
    pub(crate) fn refusal(&self, request: AdmissionRequest) -> Option<NotAdmitted> {
        if request.at_once().on(&self.clock).is_late(self.clock.now(), 0) {
            return Some(self.refused(RefusalCause::Late));
        }
        (!self.slots.load().has_room()).then(|| self.refused(RefusalCause::NoSlot))
    }

    fn refused(&self, cause: RefusalCause) -> NotAdmitted {
        let occupancy = self.slots.load();
        let wait = if cause == RefusalCause::Late { None } else { self.time_of_queue(occupancy) };
        NotAdmitted::new(cause, occupancy.limit(), wait)
    }

    /// Returns the time in which the queued calls and one more get their slots; `None` if not known.
    fn time_of_queue(&self, occupancy: Occupancy) -> Option<Duration> {
        let (median, limit) = (self.median.ticks(), occupancy.limit());
        if median == 0 || limit == 0 {
            return None;
        }
        // In the time of one call, `limit` slots become free. The factors are below 2^60 and 2^17.
        let ticks = u128::from(median) * u128::from(occupancy.queued() + 1) / u128::from(limit);
        let ticks = Ticks::new(u64::try_from(ticks).unwrap_or(u64::MAX));
        Some(ticks.duration(Frequency::from_hertz(self.clock.frequency()))?.min(LONGEST_WAIT))
    }
}

impl<R, C> Admission<R, C> {
    /// Returns the limit in force, in calls in flight.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.slots.load().limit()
    }

    /// Returns the number of permits. It exceeds the limit only after the limit has shrunk.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.slots.load().in_flight()
    }

    /// Returns how many calls wait in the queue.
    #[must_use]
    pub fn queued(&self) -> u32 {
        self.slots.load().queued()
    }

    /// Returns how many calls of a class wait in the queue. Takes the queue's lock for a moment.
    #[must_use]
    pub fn queued_of(&self, criticality: Criticality) -> u32 {
        self.queue.read(|queue| queue.waiting.queued(criticality))
    }

    /// Returns how many calls have joined the queue so far. Takes the queue's lock for a moment.
    #[must_use]
    pub fn total_queued(&self) -> u64 {
        self.queue.read(Queue::total)
    }
}

impl<R, C: Clock> Admission<R, C> {
    /// Returns the median of recent service times, of some hundred successful calls; `None` before the first.
    ///
    /// A call that was [overloaded](AdmissionPermit::overloaded) counts too if it took longer than the median: if it was ended at
    /// its deadline, it would have taken even longer.
    #[must_use]
    pub fn median_service_time(&self) -> Option<Duration> {
        match self.median.ticks() {
            0 => None,
            ticks => Ticks::new(ticks).duration(Frequency::from_hertz(self.clock.frequency())),
        }
    }
}

impl<R, C> fmt::Debug for Admission<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let occupancy = self.slots.load();
        f.debug_struct("Admission")
            .field("limit", &occupancy.limit())
            .field("in_flight", &occupancy.in_flight())
            .field("queued", &occupancy.queued())
            .finish_non_exhaustive()
    }
}

/// A limit that stays as it is set: for [`Admission::fixed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg(feature = "alloc")]
pub struct FixedLimit(pub(super) u32);

impl LimitRule for FixedLimit {
    fn first(&self) -> WindowPlan {
        WindowPlan::new(self.0)
    }

    fn next(&mut self, _window: &WindowSummary) -> WindowPlan {
        WindowPlan::new(self.0)
    }
}
