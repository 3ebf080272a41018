//! The adaptive limit: its constructors, permits, and learned state.

#[cfg(feature = "alloc")]
use super::sampler::STALLED;
use super::sampler::{Gate, Sampler};
use super::{BoundedRule, LimitBounds, LimitRule, Outcome, ProbedGradient};
use crate::CallError;
#[cfg(feature = "alloc")]
use crate::acquire::{Acquire, awaited};
#[cfg(feature = "alloc")]
use crate::concurrency::PermitRequest;
#[cfg(feature = "alloc")]
use crate::concurrency::bulkhead::Patience;
#[cfg(feature = "alloc")]
use crate::concurrency::bulkhead::permit::sealed::Entry;
use crate::concurrency::bulkhead::permit::sealed::{Learning, Slotted};
#[cfg(feature = "alloc")]
use crate::concurrency::queue::{Expiry, Place};
use crate::concurrency::{Bulkhead, BulkheadFull, BulkheadPermit, BulkheadStatus};
use crate::sync::const_unless_loom;
use crate::time::{Clock, DefaultClock};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::fmt;
#[cfg(feature = "alloc")]
use core::task::Waker;
use core::time::Duration;

/// Limits how many calls are in flight at once, by a limit that follows the service.
///
/// A fixed limit is a guess, and wrong as soon as the service changes. This one measures how long successful calls take. While
/// they take as long as those of the unloaded service, the service has room, and a limit that was reached grows. When they take
/// longer, calls queue somewhere inside the service, and the limit shrinks. Callers then get a refusal at once instead of a late
/// response, and the service spends no time on abandoned calls. The rule is [`ProbedGradient`], unless another is
/// [given](Self::with_rule).
///
/// Otherwise it is a [`Bulkhead`]: a call that finds no slot free is refused, or waits in a [`queue`](Self::queue). The caller
/// records the outcome of the call on the permit: [`success`](BulkheadPermit::success), or
/// [`overloaded`](BulkheadPermit::overloaded) if the service refused the call or it timed out. A permit that is dropped records
/// nothing.
///
/// If calls are refused or wait, and none has ended for 10 s, or four times the [baseline](Self::baseline) if that is longer, the
/// limit lets in one call more than are in flight, up to its highest value so far. Otherwise calls that hold their slots for long,
/// such as streams, could fill a limit that fell, and no call could end and raise it again.
///
/// Use one for each thing that can be overloaded: one per host for clients, one per group of similar routes for servers. It needs
/// some 100 calls in half a second to follow closely; with fewer, a window lasts until there were 100.
///
/// Share it by reference, in a `static` or an `Arc`. A call costs as much as with a bulkhead, plus two atomic accesses and two
/// readings of the clock. Nothing is allocated after construction. Every half second one of the callers evaluates the calls, and
/// the others do not wait for it.
///
/// # Memory ordering
///
/// Permits order memory like those of a [`Bulkhead`]: everything done before a permit is dropped happens before everything done under the permit that takes
/// its slot.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{AdaptiveLimit, BulkheadFull};
/// use std::io::ErrorKind;
///
/// static LIMIT: AdaptiveLimit = AdaptiveLimit::DEFAULT;
///
/// fn fetch() -> std::io::Result<String> {
///     // ...
/// #   Ok(String::new())
/// }
///
/// let permit = LIMIT.try_acquire()?; // Err: answer 503
/// match fetch() {
///     Ok(_) => permit.success(),
///     Err(error) if error.kind() == ErrorKind::TimedOut => permit.overloaded(),
///     Err(_) => permit.ignore(), // a fast error says nothing about the service's load
/// }
/// assert_eq!((LIMIT.limit(), LIMIT.in_flight()), (20, 0));
/// # }
/// # Ok::<(), damper::BulkheadFull>(())
/// ```
pub struct AdaptiveLimit<R = ProbedGradient, C = DefaultClock> {
    bulkhead: Bulkhead<C>,
    sampler: Sampler<R>,
}

#[cfg(feature = "std")]
impl AdaptiveLimit {
    /// A limit from 1 to 1,000,000 that starts at 20, for a `static`.
    #[cfg(not(any(loom, shuttle)))]
    #[expect(clippy::declare_interior_mutable_const, reason = "the value that a `static` begins with")]
    pub const DEFAULT: Self = Self::new(LimitBounds::DEFAULT);

    const_unless_loom! {
        /// Creates a limit that moves within these bounds, on the [default clock](DefaultClock), without a queue.
        ///
        /// # Examples
        ///
        /// ```
        /// # extern crate damper_core as damper;
        /// use damper::AdaptiveLimit;
        /// use damper::concurrency::LimitBounds;
        ///
        /// let limit = AdaptiveLimit::new(LimitBounds::new(5, 400)?.starting_at(50)?).queue(100);
        /// assert_eq!(limit.limit(), 50);
        /// # Ok::<(), damper::OutOfRange>(())
        /// ```
        #[must_use]
        pub const fn new(bounds: LimitBounds) -> Self {
            Self::with_clock(bounds, crate::time::Monotonic)
        }
    }
}

#[cfg(feature = "std")]
impl Default for AdaptiveLimit {
    /// Creates a limit from 1 to 1,000,000 that starts at 20, on the default clock.
    fn default() -> Self {
        Self::new(LimitBounds::DEFAULT)
    }
}

impl<C: Clock> AdaptiveLimit<ProbedGradient, C> {
    const_unless_loom! {
        /// Creates a limit as [`new`](AdaptiveLimit::new) does, on a clock of your own. A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(bounds: LimitBounds, clock: C) -> Self {
            let rule = ProbedGradient::new(bounds);
            let plan = rule.first_plan();
            Self { bulkhead: Bulkhead::with_clock(plan.limit, clock), sampler: Sampler::new(rule, plan) }
        }
    }
}

impl<R: LimitRule, C: Clock> AdaptiveLimit<R, C> {
    /// Creates a limit that follows another rule.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(all(feature = "std", feature = "compared"))] {
    /// use damper::concurrency::LimitBounds;
    /// use damper::concurrency::compared::Vegas;
    /// use damper::{AdaptiveLimit, Monotonic};
    ///
    /// let limit = AdaptiveLimit::with_rule(Vegas::new(LimitBounds::DEFAULT), Monotonic);
    /// # assert_eq!(limit.limit(), 20);
    /// # }
    /// ```
    #[must_use]
    pub fn with_rule(rule: R, clock: C) -> Self {
        let plan = rule.first().held();
        Self { bulkhead: Bulkhead::with_clock(plan.limit, clock), sampler: Sampler::new(rule, plan) }
    }

    /// Gives the limit a queue of `places` places. Default: none.
    ///
    /// See [`Bulkhead::queue`]. A call is timed from its permit on, without its time in the queue.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn queue(self, places: u16) -> Self {
        Self { bulkhead: self.bulkhead.queue(places), ..self }
    }

    /// Changes the number of places of the queue while the limit is in use, as [`Bulkhead::set_queue`] does.
    #[cfg(feature = "alloc")]
    pub fn set_queue(&self, places: u16) {
        self.bulkhead.set_queue(places);
    }

    /// Returns how many calls may wait in the queue.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn places(&self) -> u16 {
        self.bulkhead.places()
    }

    /// Serves the queue newest first, as [`Bulkhead::newest_first`] does. Default: oldest first.
    ///
    /// Call it before the first use.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn newest_first(self) -> Self {
        Self { bulkhead: self.bulkhead.newest_first(), ..self }
    }

    /// Takes a permit if a slot is free and no call waits for it. Never waits, locks or allocates.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if there is none.
    #[inline]
    pub fn try_acquire(&self) -> Result<BulkheadPermit<&Self>, BulkheadFull> {
        self.take()?;
        Ok(BulkheadPermit::of_slot(self, self.began()))
    }

    /// Takes a permit as [`try_acquire`](Self::try_acquire) does, with its own reference to the limit.
    ///
    /// The permit can outlive the borrow, as a response body or a spawned task needs.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if there is none.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    #[inline]
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<BulkheadPermit<Arc<Self>>, BulkheadFull> {
        self.take()?;
        Ok(BulkheadPermit::of_slot(Arc::clone(self), self.began()))
    }

    /// Waits for a permit in the [`queue`](Self::queue), as [`Bulkhead::acquire`] does.
    ///
    /// A call that waits looks every 10 s whether any call has ended. So its future sleeps even if its wait has no end.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::AdaptiveLimit;
    ///
    /// let limit = AdaptiveLimit::default().queue(100);
    /// let permit = limit.acquire().within(Duration::from_millis(20)).wait()?;
    /// permit.success();
    /// # }
    /// # Ok::<(), damper::BulkheadFull>(())
    /// ```
    #[cfg(feature = "alloc")]
    pub fn acquire(&self) -> Acquire<&Self> {
        Acquire::new(PermitRequest::of(Ok(self)))
    }

    /// Waits as [`acquire`](Self::acquire) does, for a permit with its own reference to the limit.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub fn acquire_owned(self: &Arc<Self>) -> Acquire<Arc<Self>> {
        Acquire::new(PermitRequest::of(Ok(Arc::clone(self))))
    }

    /// Makes one call if a slot is free and no call waits for it, and records its outcome.
    ///
    /// `Ok` is a [success](Outcome::Success), and its time counts. `Err` is [ignored](Outcome::Ignored), because a fast error
    /// says nothing about the service's load. So is a panic.
    ///
    /// Errors caused by overload, such as timeouts and 503, do say something: classify them with [`call_with`](Self::call_with).
    /// It never waits, whether or not there is a queue.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E, BulkheadFull>> {
        self.call_with(call, Outcome::of)
    }

    /// Makes one call as [`call`](Self::call) does; `classify` gives the outcome.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was, whatever the outcome.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::AdaptiveLimit;
    /// use damper::concurrency::Outcome;
    /// use std::io::ErrorKind;
    ///
    /// let limit = AdaptiveLimit::default();
    /// let page = limit.call_with(
    ///     || std::fs::read_to_string("/no/such/page"),
    ///     |result| match result {
    ///         Err(error) if error.kind() == ErrorKind::TimedOut => Outcome::Overloaded,
    ///         result => Outcome::of(result),
    ///     },
    /// );
    /// assert!(page.is_err());
    /// # }
    /// ```
    #[inline]
    pub fn call_with<T, E>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Outcome,
    ) -> Result<T, CallError<E, BulkheadFull>> {
        let permit = self.try_acquire()?;
        let result = call();
        permit.record(classify(&result));
        result.map_err(CallError::Failed)
    }

    /// Awaits a future if a slot is free, and records its outcome, as [`call`](Self::call) does.
    ///
    /// The slot is taken when the returned future is first polled, and the call is timed from then on. A future that is dropped
    /// before it ended records nothing: put a timeout *into* the future, and classify its error as overload with
    /// [`run_with`](Self::run_with).
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was.
    pub async fn run<T, E>(&self, future: impl Future<Output = Result<T, E>>) -> Result<T, CallError<E, BulkheadFull>> {
        self.run_with(future, Outcome::of).await
    }

    /// Awaits a future as [`run`](Self::run) does; `classify` gives the outcome.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was, whatever the outcome.
    pub async fn run_with<T, E>(
        &self,
        future: impl Future<Output = Result<T, E>>,
        classify: impl FnOnce(&Result<T, E>) -> Outcome,
    ) -> Result<T, CallError<E, BulkheadFull>> {
        let permit = self.try_acquire()?;
        let result = future.await;
        permit.record(classify(&result));
        result.map_err(CallError::Failed)
    }

    /// Changes the bounds while the limit is in use.
    ///
    /// The limit in force is moved into the new bounds at once; a higher one admits queued calls. Under a lower one calls in
    /// flight go on, and no other begins until enough of them have ended. The rule keeps the state that it has learned. A running
    /// measurement goes on too: its limit may be below the lowest bound until it ends. If the limit changes by more than a
    /// twentieth, the current window starts over, without the calls in flight. The [start](LimitBounds::starting_at) of the
    /// bounds has no effect.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::AdaptiveLimit;
    /// use damper::concurrency::LimitBounds;
    ///
    /// let limit = AdaptiveLimit::default();
    /// assert_eq!(limit.limit(), 20);
    /// limit.set_bounds(LimitBounds::new(50, 200)?);
    /// assert_eq!(limit.limit(), 50);
    /// # }
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub fn set_bounds(&self, bounds: LimitBounds)
    where
        R: BoundedRule,
    {
        self.sampler.set_bounds(bounds, &self.bulkhead);
    }

    /// Takes over the bounds that were set on another limit, if any were.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub(in crate::concurrency) fn take_bounds_of(&self, other: &Self) {
        self.sampler.take_bounds_of(&other.sampler, &self.bulkhead);
    }

    /// Takes over the number of places of another limit's queue.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub(in crate::concurrency) fn take_queue_of(&self, other: &Self) {
        self.bulkhead.take_queue_of(&other.bulkhead);
    }

    /// Returns an unused limit with the settings of this one, which is unused too.
    ///
    /// It follows the rule of `first`, within the bounds that were set on this one since. Otherwise earlier bounds would decide
    /// where it starts.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub(in crate::concurrency) fn alike(&self, first: &Self) -> Self
    where
        C: Clone,
    {
        let rule = first.sampler.rule();
        let alike = Self { bulkhead: self.bulkhead.alike(), sampler: Sampler::new(rule, rule.first().held()) };
        alike.take_bounds_of(self);
        alike
    }

    /// Returns the latency of the unloaded service, if the rule has learned one.
    #[must_use]
    pub fn baseline(&self) -> Option<Duration> {
        self.sampler.rule().baseline()
    }

    /// Returns the rule in its present state.
    #[must_use]
    pub fn rule(&self) -> R {
        self.sampler.rule()
    }

    /// Returns the ticket of a call that has got its slot now.
    #[inline]
    fn began(&self) -> u64 {
        self.bulkhead.clock().now()
    }

    #[inline]
    fn take(&self) -> Result<(), BulkheadFull> {
        match self.bulkhead.take() {
            Ok(in_flight) => {
                self.sampler.saw(in_flight);
                Ok(())
            }
            Err(full) => Err(self.refused(full)),
        }
    }

    /// Returns the refusal that a call would get now, if any. Writes nothing.
    pub(crate) fn refusal(&self) -> Option<BulkheadFull> {
        self.bulkhead.refusal()
    }

    /// Records the outcome of a call that began at this tick.
    #[inline]
    pub(super) fn record(&self, began: u64, outcome: Outcome) {
        match outcome {
            Outcome::Success => self.sampler.succeeded(began, self.bulkhead.clock(), &self.bulkhead),
            Outcome::Overloaded => self.sampler.overloaded(self.bulkhead.clock(), &self.bulkhead),
            Outcome::Ignored => {}
        }
    }

    /// Records that a call found no slot free.
    #[cold]
    fn refused(&self, full: BulkheadFull) -> BulkheadFull {
        self.sampler.refused(full.limit(), self.bulkhead.clock(), &self.bulkhead);
        full
    }
}

impl<R, C> AdaptiveLimit<R, C> {
    /// Returns the limit in force, in calls in flight.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.bulkhead.limit()
    }

    /// Returns the number of permits. It exceeds the limit only after the limit has shrunk.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.bulkhead.in_flight()
    }

    /// Returns how many calls wait in the queue.
    #[must_use]
    pub fn queued(&self) -> u32 {
        self.bulkhead.queued()
    }

    /// Returns the limit and both counts, of one moment. Changes nothing.
    #[must_use]
    pub fn status(&self) -> BulkheadStatus {
        self.bulkhead.status()
    }

    /// Returns how many calls have joined the queue so far. Takes the queue's lock for a moment.
    #[must_use]
    #[cfg(feature = "alloc")]
    pub fn total_queued(&self) -> u64 {
        self.bulkhead.total_queued()
    }
}

#[cfg(feature = "alloc")]
awaited!([R: LimitRule, C: Clock] AdaptiveLimit<R, C>, PermitRequest);

impl<R: LimitRule, C: Clock> Slotted for AdaptiveLimit<R, C> {
    /// When the call began, in ticks.
    type Ticket = u64;

    #[cfg(feature = "alloc")]
    type Wish = Patience;

    #[cfg(feature = "alloc")]
    type Refusal = BulkheadFull;

    #[inline]
    fn release(&self) {
        self.sampler.freed();
        self.bulkhead.release();
    }

    #[cfg(feature = "alloc")]
    #[inline]
    fn enter(&self, _: &Patience) -> Result<u64, BulkheadFull> {
        self.take().map(|()| self.began())
    }

    #[cfg(feature = "alloc")]
    fn join(&self, patience: &mut Patience, waker: Waker) -> Result<Entry<u64>, BulkheadFull> {
        // `enter` was refused before.
        Ok(match self.bulkhead.join(patience, waker)? {
            Entry::Entered(()) => Entry::Entered(self.began()),
            Entry::Queued(queued) => Entry::Queued(queued),
        })
    }

    #[cfg(feature = "alloc")]
    fn look(&self, place: Place, patience: &Patience, waker: Waker) -> Option<Result<u64, BulkheadFull>> {
        let Some(outcome) = self.bulkhead.look(place, patience, waker) else {
            self.sampler.raise_if_stalled(self.bulkhead.clock(), &self.bulkhead);
            return None;
        };
        if outcome.is_ok() {
            // A call that had to wait for its slot found the limit reached, whether or not other calls come.
            self.sampler.saw(self.limit());
        }
        Some(outcome.map(|()| self.began()))
    }

    #[cfg(feature = "alloc")]
    fn leave(&self, place: Place) {
        self.bulkhead.leave(place);
    }

    #[cfg(feature = "alloc")]
    fn limit(&self) -> u32 {
        AdaptiveLimit::limit(self)
    }

    #[cfg(feature = "alloc")]
    fn expiry_after(&self, wait: Duration) -> Expiry {
        self.bulkhead.expiry_after(wait)
    }

    #[cfg(feature = "alloc")]
    fn remaining(&self, patience: &Patience) -> Option<Duration> {
        self.bulkhead.remaining(patience).into_iter().chain([STALLED]).min()
    }
}

impl<R: LimitRule, C: Clock> Learning for AdaptiveLimit<R, C> {
    #[inline]
    fn record(&self, began: u64, outcome: Outcome) {
        AdaptiveLimit::record(self, began, outcome);
    }

    fn usual_latency(&self) -> Option<Duration> {
        self.baseline()
    }
}

/// Leaves out the call that has just ended, whose permit still holds its slot.
impl<C: Clock> Gate for Bulkhead<C> {
    fn in_flight(&self) -> u32 {
        Bulkhead::in_flight(self).saturating_sub(1)
    }

    fn set_limit(&self, limit: u32) {
        Bulkhead::set_limit(self, limit);
    }
}

impl<R, C> fmt::Debug for AdaptiveLimit<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveLimit")
            .field("limit", &self.limit())
            .field("in_flight", &self.in_flight())
            .field("queued", &self.queued())
            .finish_non_exhaustive()
    }
}
