//! Waiting for several limits at once, first come, first served.
//!
//! Only the first call of the queue asks the limits, and it takes nothing before all of them allow it. Tokens that were
//! taken in advance, as [`RateLimiter::acquire`](crate::RateLimiter::acquire) takes them, would be used late where another
//! limit holds the call up: many calls would then begin at once, beyond the envelope of the first limit.
//!
//! **The turn** to ask is a word with one slot, and the other calls wait for that slot in the order of their arrival. The call
//! with the turn leaves its waker under a lock and then asks the limits. A settlement gives its tokens back first and takes that
//! waker afterwards. So a settlement that comes after the question always finds the waker.

use crate::acquire::{Acquire, awaited};
use crate::concurrency::LimitSetRefusal;
use crate::concurrency::bulkhead::{Arrivals, Order};
use crate::concurrency::queue::{Expiry, Moment, Place, SlotQueue};
use crate::concurrency::slots::Slots;
use crate::concurrency::waiting::{CostsRequest, Denial, Turn, Waitable};
use crate::limit::{InFlight, LimitSet, Limits, Sealed, SetReservation, Taken};
use crate::sync::Guarded;
use crate::time::Clock;
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
use core::task::Waker;
use core::time::Duration;

/// The queue of a [`LimitSet`], around its bound on the calls in flight. Made by [`LimitSet::queue`].
///
/// [`LimitSet::bulkhead`] returns it, and [`get_ref`](Self::get_ref) the bound that was there before.
pub struct SetQueue<P> {
    bound: P,
    /// One slot: the call that holds it is the first, and asks the limits. All others wait for it.
    turn: Slots,
    /// Holds the calls that wait for the turn.
    others: SlotQueue<Arrivals>,
    /// Wakes the first call, to ask again.
    first: Guarded<Option<Waker>>,
}

/// Where a call that waits for a set stands.
#[derive(Clone, Copy, Debug)]
pub enum Position {
    /// It waits behind others.
    Behind(Place),
    /// It is the first, and asks the limits.
    First,
}

/// Calls wait for their turn without a time, because they time their waits themselves.
const NOW: Moment = Moment { now: 0, needed: 0 };

impl<P> SetQueue<P> {
    fn new(bound: P, places: u16) -> Self {
        let others = SlotQueue::empty(Arrivals::served(Order::OldestFirst));
        others.set(|queue| queue.set_places(places));
        Self { bound, turn: Slots::new(1), others, first: Guarded::new(None) }
    }

    /// Returns the bound on the calls in flight.
    #[must_use]
    pub const fn get_ref(&self) -> &P {
        &self.bound
    }

    /// Returns how many calls wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        let turn = self.turn.load();
        turn.in_flight() + turn.queued()
    }

    fn has_waiters(&self) -> bool {
        self.turn.load().in_flight() > 0
    }

    /// Makes a call the first, or gives it a place behind the others.
    fn join(&self, waker: &Waker) -> Result<Position, LimitSetRefusal> {
        if self.turn.take().is_ok() {
            return Ok(Position::First);
        }
        // The oldest comes first, so a newcomer displaces no call. It is refused only if the queue is full.
        match self.others.join(&self.turn, NOW, |_| (), None, waker.clone()) {
            Ok(queued) => Ok(queued.map_or(Position::First, |queued| Position::Behind(queued.place))),
            Err(_) => Err(LimitSetRefusal::QueueFull),
        }
    }

    /// Returns whether the call in `place` is the first now. If not, `waker` wakes it from now on.
    fn is_first(&self, place: Place, waker: &Waker) -> bool {
        self.others.look(&self.turn, NOW, place, false, waker.clone()).is_some()
    }

    /// Removes a call; if it is the first, or has become it meanwhile, the next one is.
    fn remove(&self, position: Position) {
        match position {
            Position::Behind(place) => self.others.leave(&self.turn, NOW, place),
            Position::First => self.pass_on(),
        }
    }

    /// Wakes the first call by `waker` from now on. Call it before the limits are asked.
    fn wake_first_by(&self, waker: &Waker) {
        // The lock publishes what was settled before the earlier waker was taken, and the other way round: a call that is
        // settled after the first one asked finds its waker. loom-tests: set_queue::settlement_wakes_the_first_call.
        let waker = Some(waker.clone());
        let _dropped_outside_the_lock = self.first.write(|first| core::mem::replace(first, waker));
    }

    /// Makes the next call the first.
    fn pass_on(&self) {
        // The waker is taken before the turn is passed on, so that the waker of the next call stays. loom-tests:
        // set_queue::next_call_keeps_its_waker.
        let _dropped_outside_the_lock = self.first.write(Option::take);
        self.others.release(&self.turn, || NOW);
    }

    fn wake_first(&self) {
        if let Some(waker) = self.first.write(Option::take) {
            waker.wake();
        }
    }
}

impl<P: InFlight> Sealed for SetQueue<P> {}

/// The bound of a set with a queue: calls that do not wait are refused while others wait.
impl<P: InFlight<Refusal: Into<LimitSetRefusal>>> InFlight for SetQueue<P> {
    type Refusal = LimitSetRefusal;

    #[inline]
    fn refusal(&self) -> Option<LimitSetRefusal> {
        if self.has_waiters() {
            return Some(LimitSetRefusal::OthersWait);
        }
        self.bound.refusal().map(Into::into)
    }

    #[inline]
    fn enter(&self) -> Result<(), LimitSetRefusal> {
        self.bound.enter().map_err(Into::into)
    }

    #[inline]
    fn leave(&self) {
        self.bound.leave();
        self.wake_first();
    }

    fn limits_changed(&self) {
        self.bound.limits_changed();
        self.wake_first();
    }
}

impl<L: Limits, C: Clock, P: InFlight<Refusal: Into<LimitSetRefusal>>> LimitSet<L, C, P> {
    /// Gives the set a queue, in which [`acquire`](LimitSet::acquire) waits: `places` calls behind the first one.
    ///
    /// Call it after [`with_bulkhead`](LimitSet::with_bulkhead), and before the first use. The places are allocated here, 52
    /// bytes each on targets of 64 bits.
    ///
    /// Calls are served in the order in which they came, whatever they cost: small ones never overtake a large one.
    /// [`reserve`](LimitSet::reserve) is refused while calls wait, so it overtakes none either.
    ///
    /// # The cost of a large call for others
    ///
    /// The first call holds up all others until its own costs are there. That takes at most as long as an empty limit
    /// needs to fill, plus the time until a slot is free. Callers that estimate whole bursts make others wait for that long
    /// each, but no call waits for more than those that came before it. Where a caller is not trusted, bound its estimates,
    /// or keep a limit for it alone. A call that is cancelled or times out holds up the others no longer, and the calls
    /// behind it keep their order.
    pub fn queue(self, places: u16) -> LimitSet<L, C, SetQueue<P>> {
        self.with_bound(|bound| SetQueue::new(bound, places))
    }
}

impl<L: Limits, C: Clock, P: InFlight<Refusal: Into<LimitSetRefusal>>> LimitSet<L, C, SetQueue<P>> {
    /// Prepares to wait for the cost of each limit and a slot, first come, first served.
    ///
    /// `set.acquire([1, estimate]).wait()?` blocks the thread, and `set.acquire([1, estimate]).await?` does not (feature
    /// `tokio`; elsewhere [`sleeping_by`](crate::Acquire::sleeping_by)). Either returns a
    /// [`SetReservation`](crate::SetReservation), as [`reserve`](LimitSet::reserve) does.
    ///
    /// Nothing is taken before all of it is there. So each limit allows its envelope, as for calls that do not wait.
    ///
    /// The first call asks again when its tokens are due. A reservation that is settled or dropped wakes it earlier, and so
    /// does a change of a quota. A change elsewhere, such as of the limit of the bulkhead or of a slot that a user outside of the
    /// set frees, is noticed within a second.
    ///
    /// # Examples
    ///
    /// Calls to a language model:
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "tokio")] {
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() -> Result<(), damper::LimitSetRefusal> {
    /// use core::time::Duration;
    /// use damper::{Bulkhead, LimitSet, Quota};
    ///
    /// let limits = [Quota::per_minute(60), Quota::per_minute(90_000)];
    /// let llm = LimitSet::new(limits).with_bulkhead(Bulkhead::new(8)).queue(1_024);
    ///
    /// let estimate = 2_000;
    /// let call = llm.acquire([1, estimate]).within(Duration::from_secs(30)).await?;
    /// let bill = 700; // what the answer says
    /// call.settle([1, bill]);
    /// # Ok(())
    /// # }
    /// # run().unwrap(); }
    /// ```
    pub fn acquire(&self, costs: L::Costs<'_>) -> Acquire<&Self> {
        Acquire::new(CostsRequest::new(self, self.copy_of_costs(costs.as_ref()).map_err(LimitSetRefusal::Limit)))
    }

    /// Prepares to wait as [`acquire`](Self::acquire) does, for a reservation with its own reference to the set.
    #[cfg(target_has_atomic = "ptr")]
    pub fn acquire_owned(self: &Arc<Self>, costs: L::Costs<'_>) -> Acquire<Arc<Self>> {
        let costs = self.copy_of_costs(costs.as_ref()).map_err(LimitSetRefusal::Limit);
        Acquire::new(CostsRequest::new(Arc::clone(self), costs))
    }
}

awaited!([L: Limits, C: Clock, P: InFlight<Refusal: Into<LimitSetRefusal>>] LimitSet<L, C, SetQueue<P>>, CostsRequest);

impl<L: Limits, C: Clock, P: InFlight<Refusal: Into<LimitSetRefusal>>> Waitable for LimitSet<L, C, SetQueue<P>> {
    type Demand = L::PerLimit<u32>;
    type Place = Position;
    type Taken = Taken<L>;
    type Reservation<T: Deref<Target = Self>> = SetReservation<T>;
    type Denial = LimitSetRefusal;
    type Refusal = LimitSetRefusal;
    type Clock = C;

    const TIMED_OUT: LimitSetRefusal = LimitSetRefusal::TimedOut;

    const LINES: usize = 1;

    fn clock(&self) -> &C {
        LimitSet::clock(self)
    }

    fn take(&self, costs: &Self::Demand) -> Result<Taken<L>, LimitSetRefusal> {
        self.take_costs(costs, &self.bulkhead().bound).map_err(Into::into)
    }

    fn refusal(&self, costs: &Self::Demand) -> Option<LimitSetRefusal> {
        self.refusal_of(costs).map(LimitSetRefusal::Limit)
    }

    fn holds_up(&self, _: &Self::Demand) -> bool {
        self.bulkhead().has_waiters()
    }

    fn arrive(&self, _: &Self::Demand, _: Option<Expiry>, waker: &Waker) -> Result<Option<Position>, LimitSetRefusal> {
        self.bulkhead().join(waker).map(Some)
    }

    fn join(
        &self,
        _: &Self::Demand,
        _: &LimitSetRefusal,
        _: Option<Expiry>,
        waker: &Waker,
    ) -> Result<Position, LimitSetRefusal> {
        self.bulkhead().join(waker)
    }

    fn look(&self, _: &Self::Demand, position: &mut Position, waker: &Waker) -> Turn {
        let queue = self.bulkhead();
        if let Position::Behind(place) = *position
            && !queue.is_first(place, waker)
        {
            return Turn::HeldUp(None);
        }
        *position = Position::First;
        queue.wake_first_by(waker);
        Turn::MayAsk
    }

    fn refused(&self, _: &Self::Demand, _: &Position, _: &LimitSetRefusal) -> bool {
        true
    }

    fn leave(&self, position: Position) {
        self.bulkhead().remove(position);
    }

    fn reservation<T: Deref<Target = Self>>(
        set: T,
        _: &Self::Demand,
        taken: Taken<L>,
        position: Option<Position>,
    ) -> SetReservation<T> {
        let reservation = SetReservation::of(set, taken);
        if let Some(position) = position {
            // The reservation exists by now, so that it frees the slot if the next call's waker panics.
            reservation.set().leave(position);
        }
        reservation
    }
}

impl Denial for LimitSetRefusal {
    fn is_final(&self) -> bool {
        matches!(self, Self::Limit(denied) if denied.is_final())
    }

    fn due_in(&self) -> Option<Duration> {
        self.retry_after()
    }
}

impl<P: fmt::Debug> fmt::Debug for SetQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetQueue").field("bound", &self.bound).field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}
