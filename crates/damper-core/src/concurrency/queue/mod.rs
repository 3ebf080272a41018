//! The calls that wait for a slot, in a slab of places that is allocated at construction.
//!
//! A place belongs to a call from its arrival until the call has learned its fate or has given up:
//!
//! | state of the place | list | |
//! |---|---|---|
//! | vacant | `vacant` | |
//! | waiting | one of the [`Discipline`] | counted in the word's QUEUED |
//! | granted | `unwoken`, until its waker was taken; then none, until the call takes its permit | counted in IN FLIGHT |
//! | refused | `unwoken`, until its waker was taken; then it is vacant | |
//!
//! A call that finds its place vacant, or taken by another call, was refused. So refused calls keep no places, even before they
//! are polled. A vacant place holds the cause of the refusal until a newcomer gets it, and newcomers get the place that has been
//! vacant for longest. A granted call keeps its place until it takes its permit, because it may pass the slot on instead.
//!
//! A [`SlotQueue`] holds its lock around all of this, so it needs neither atomics nor locks of its own. User code runs outside:
//! wakers go in and out by value, and are cloned, woken and dropped after the lock was released.

// | file | type |
// |---|---|
// | here | `Queue`: the places; `Discipline`: which call is next, and which gives way |
// | `slot_queue` | `SlotQueue`: a queue behind its lock, for a word of slots; wakes calls outside of it |
// | `expiry` | `Expiry`: the end of a wait, in ticks |
// | `list` | `List`: doubly linked lists through the slab |

mod expiry;
mod list;
mod slot_queue;

pub(crate) use expiry::Expiry;
pub(super) use list::{Link, List};
pub(super) use slot_queue::SlotQueue;

use super::slots::{Occupancy, Slots};
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;

/// Decides which waiting call gets the next slot, and which one gives way.
///
/// It has the waiting calls in lists of its own, through the links of the queue's places.
///
/// `ticket` returns the number of a waiting call. Newer calls have higher numbers.
pub(in crate::concurrency) trait Discipline: fmt::Debug {
    /// The properties of a newcomer by which it is ranked.
    type Newcomer: Copy;

    /// The rank of a waiting call, which its place keeps.
    type Rank: Copy + Default + fmt::Debug;

    /// Whether no more calls may wait than may be in flight.
    const IS_WITHIN_LIMIT: bool;

    /// The places for each call that may wait. With two, granted calls take none from newcomers.
    const PLACES_PER_CALL: u16;

    /// Adds a newcomer, in the place `call`, and returns its rank.
    fn push(&mut self, newcomer: Self::Newcomer, call: u16, links: &mut [Link]) -> Self::Rank;

    /// Removes a waiting call.
    fn remove(&mut self, rank: Self::Rank, call: u16, links: &mut [Link]);

    /// Records that a call of this rank got a slot.
    fn start(&mut self, rank: Self::Rank);

    /// Returns the call that gets the next slot, if one waits.
    fn next(&self, ticket: impl Fn(u16) -> u64) -> Option<u16>;

    /// Returns the call that gives way to this newcomer, or to a queue that has become shorter.
    fn victim(&self, newcomer: Option<Self::Newcomer>, ticket: impl Fn(u16) -> u64) -> Option<u16>;
}

/// A call's place in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    index: u16,
    /// Differs between consecutive calls in the same place.
    ticket: u64,
}

/// A call that has just joined the queue.
#[derive(Debug)]
pub struct Queued {
    pub(super) place: Place,
    /// The waker of the call that gave way to this one.
    ///
    /// Wake it only after a guard holds `place`, so that a panic of the waker leaves the queue.
    pub(super) displaced: Option<Waker>,
}

/// Why a call got neither a slot nor a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// No call may wait.
    NoQueue,
    /// No waiting call gave way to this one.
    NoVictim,
}

/// Why a waiting call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was its turn, and its time was over.
    Late,
    /// It gave way to another call, or the queue became shorter.
    Displaced,
}

/// The fate of a call at the moment it was taken out of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Waiting,
    Granted,
    /// The cause is unknown once another call has the place.
    Refused(Option<Cause>),
}

/// A moment, for calls whose wait has an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// The clock's tick.
    pub(super) now: u64,
    /// Calls with no more than so many ticks left are too late.
    pub(super) needed: u64,
}

impl Moment {
    fn is_too_late_for(self, end: Option<Expiry>) -> bool {
        end.is_some_and(|end| end.has_passed(self.now.wrapping_add(self.needed)))
    }
}

/// A call that was removed from the queue. Drop it outside the lock, with its waker.
#[derive(Debug)]
struct Withdrawn {
    fate: Fate,
    _waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Vacant,
    Waiting,
    Granted,
    /// The place is vacant once its waker was taken.
    Refused(Cause),
}

#[derive(Debug)]
struct Call<R> {
    ticket: u64,
    end: Option<Expiry>,
    waker: Option<Waker>,
    rank: R,
    state: State,
}

/// The waiting calls, in the order of a discipline.
#[derive(Debug)]
pub(super) struct Queue<D: Discipline> {
    calls: Vec<Call<D::Rank>>,
    links: Vec<Link>,
    vacant: List,
    unwoken: List,
    pub(super) waiting: D,
    /// The most calls that may wait.
    most: u16,
    next_ticket: u64,
}

impl<D: Discipline> Queue<D> {
    /// A queue without places, which allocates nothing.
    const fn empty(waiting: D) -> Self {
        let (vacant, unwoken) = (List::EMPTY, List::EMPTY);
        Self { calls: Vec::new(), links: Vec::new(), vacant, unwoken, waiting, most: 0, next_ticket: 0 }
    }

    /// Lets `most` calls wait, or as many as can, and allocates the places that are missing.
    ///
    /// Places are never freed, because calls may have them. Afterwards [`settle`](Self::settle) refuses the calls that are too many.
    pub(super) fn set_places(&mut self, most: u16) {
        let most = most.min(u16::MAX / D::PLACES_PER_CALL);
        let (allocated, needed) = (self.calls.len() as u16, most * D::PLACES_PER_CALL);
        let missing = usize::from(needed.saturating_sub(allocated));
        self.calls.reserve_exact(missing);
        self.links.reserve_exact(missing);
        for place in allocated..needed {
            let (rank, state) = (D::Rank::default(), State::Vacant);
            self.calls.push(Call { ticket: 0, end: None, waker: None, rank, state });
            self.links.push(Link::NONE);
            self.vacant.push(&mut self.links, place);
        }
        self.most = most;
    }

    /// Removes all places, of a queue that no call has used.
    fn clear(&mut self) {
        self.calls = Vec::new();
        self.links = Vec::new();
        self.vacant = List::EMPTY;
    }

    /// Returns how many calls may wait, whatever the limit.
    pub(super) fn places(&self) -> u16 {
        self.most
    }

    /// Returns how many calls have joined so far.
    pub(super) fn total(&self) -> u64 {
        self.next_ticket
    }

    /// Changes the word, grants free slots, and refuses the calls that the queue has no room for.
    ///
    /// It does so in one swap, so that no newcomer overtakes them.
    fn settle(&mut self, slots: &Slots, moment: Moment, change: impl Fn(Occupancy) -> Occupancy) {
        let mut current = slots.load();
        loop {
            // If calls wait, the word changes only under the lock: then the swap succeeds, and the queue is changed once. If
            // none waits, there is nothing to grant or to refuse.
            let granted = self.grant(change(current), moment);
            let next = self.trim(granted);
            match slots.replace(current, next) {
                Ok(()) => return,
                Err(newer) => current = newer,
            }
        }
    }

    /// Takes a slot, or a place in the queue; `None` is a slot.
    fn enter_or_join(
        &mut self,
        slots: &Slots,
        newcomer: D::Newcomer,
        end: Option<Expiry>,
        waker: &mut Option<Waker>,
    ) -> Result<Option<Queued>, Full> {
        let mut current = slots.load();
        let displaced = loop {
            if current.has_room() {
                match slots.replace(current, current.entered()) {
                    Ok(()) => return Ok(None),
                    Err(newer) => current = newer,
                }
                continue;
            }
            let longest = self.longest(current);
            if longest == 0 {
                return Err(Full::NoQueue);
            }
            // Granted calls keep their places until they are polled, so there may be no vacancy in a shorter queue.
            if current.queued() >= longest || self.vacant.first().is_none() {
                // One call leaves and one joins, so the word stays as it is.
                break Some(self.displace_for(newcomer).ok_or(Full::NoVictim)?);
            }
            match slots.replace(current, current.joined()) {
                Ok(()) => break None,
                Err(newer) => current = newer,
            }
        };
        let place = self.join(newcomer, end, waker.take()).ok_or(Full::NoVictim)?;
        Ok(Some(Queued { place, displaced }))
    }

    /// Gives a vacant place to a call; `None` if there is none.
    fn join(&mut self, newcomer: D::Newcomer, end: Option<Expiry>, waker: Option<Waker>) -> Option<Place> {
        let index = self.vacant.pop(&mut self.links)?;
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        let rank = self.waiting.push(newcomer, index, &mut self.links);
        self.calls[usize::from(index)] = Call { ticket, end, waker, rank, state: State::Waiting };
        Some(Place { index, ticket })
    }

    /// Refuses the call that gives way to a newcomer, and returns its waker; `None` if there is no such call.
    ///
    /// Its place is vacant then.
    fn displace_for(&mut self, newcomer: D::Newcomer) -> Option<Waker> {
        let victim = self.victim(Some(newcomer))?;
        self.settle_call(victim, State::Refused(Cause::Displaced));
        self.vacate(victim)
    }

    /// Gives free slots to waiting calls, refuses those that are too late, and returns the next word.
    fn grant(&mut self, mut occupancy: Occupancy, moment: Moment) -> Occupancy {
        while occupancy.has_slot_for_queued()
            && let Some(next) = self.waiting.next(|call| self.calls[usize::from(call)].ticket)
        {
            occupancy = occupancy.dequeued();
            let &Call { rank, end, .. } = &self.calls[usize::from(next)];
            if moment.is_too_late_for(end) {
                self.decide(next, State::Refused(Cause::Late));
            } else {
                self.decide(next, State::Granted);
                self.waiting.start(rank);
                occupancy = occupancy.entered();
            }
        }
        occupancy
    }

    /// Refuses calls until no more wait than may, and returns the next word.
    fn trim(&mut self, mut occupancy: Occupancy) -> Occupancy {
        while occupancy.queued() > self.longest(occupancy)
            && let Some(victim) = self.victim(None)
        {
            self.decide(victim, State::Refused(Cause::Displaced));
            occupancy = occupancy.dequeued();
        }
        occupancy
    }

    /// Takes the waker of a call with a decided fate, and returns whether there may be another.
    fn take_waker(&mut self) -> (Option<Waker>, bool) {
        let Some(place) = self.unwoken.pop(&mut self.links) else { return (None, false) };
        let call = &mut self.calls[usize::from(place)];
        let waker = if matches!(call.state, State::Refused(_)) { self.vacate(place) } else { call.waker.take() };
        (waker, self.unwoken.first().is_some())
    }

    /// Returns the fate of a call; `None` if it still waits, and then `waker` wakes it from now on.
    ///
    /// If it still waits, its earlier waker is in `waker` afterwards. Otherwise its place is vacant now, as after
    /// [`withdraw`](Self::withdraw).
    fn look(&mut self, place: Place, moment: Moment, waker: &mut Option<Waker>) -> Option<Withdrawn> {
        match self.call(place) {
            Some(call) if call.state == State::Waiting && !moment.is_too_late_for(call.end) => {
                core::mem::swap(&mut call.waker, waker);
                None
            }
            _ => Some(self.withdraw(place)),
        }
    }

    /// Removes a call from the queue. Its place is vacant now.
    fn withdraw(&mut self, place: Place) -> Withdrawn {
        let index = place.index;
        let Some(call) = self.call(place) else { return Withdrawn { fate: Fate::Refused(None), _waker: None } };
        let (state, rank, is_unwoken) = (call.state, call.rank, call.waker.is_some());
        let fate = match state {
            State::Waiting => {
                self.waiting.remove(rank, index, &mut self.links);
                Fate::Waiting
            }
            State::Granted => {
                if is_unwoken {
                    self.unwoken.remove(&mut self.links, index);
                }
                Fate::Granted
            }
            State::Refused(cause) if is_unwoken => {
                self.unwoken.remove(&mut self.links, index);
                Fate::Refused(Some(cause))
            }
            State::Refused(cause) => return Withdrawn { fate: Fate::Refused(Some(cause)), _waker: None },
            State::Vacant => return Withdrawn { fate: Fate::Refused(None), _waker: None },
        };
        let waker = self.vacate(index);
        self.calls[usize::from(index)].state = State::Vacant;
        Withdrawn { fate, _waker: waker }
    }

    /// Returns how many calls may wait.
    fn longest(&self, occupancy: Occupancy) -> u32 {
        let most = self.most.into();
        if D::IS_WITHIN_LIMIT { occupancy.limit().min(most) } else { most }
    }

    /// Returns the call that gives way, if one does.
    fn victim(&self, newcomer: Option<D::Newcomer>) -> Option<u16> {
        self.waiting.victim(newcomer, |call| self.calls[usize::from(call)].ticket)
    }

    /// Decides the fate of a waiting call, which must then be woken.
    fn decide(&mut self, index: u16, state: State) {
        self.settle_call(index, state);
        self.unwoken.push(&mut self.links, index);
    }

    /// Ends the wait of a call. Its place is in no list then.
    fn settle_call(&mut self, index: u16, state: State) {
        let call = &mut self.calls[usize::from(index)];
        call.state = state;
        self.waiting.remove(call.rank, index, &mut self.links);
    }

    /// Returns the call in this place, if the place is still its own.
    fn call(&mut self, place: Place) -> Option<&mut Call<D::Rank>> {
        self.calls.get_mut(usize::from(place.index)).filter(|call| call.ticket == place.ticket)
    }

    /// Makes a place that is in no list vacant, and returns its waker.
    ///
    /// The state stays, for the cause of a refusal.
    fn vacate(&mut self, index: u16) -> Option<Waker> {
        self.vacant.push(&mut self.links, index);
        self.calls[usize::from(index)].waker.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::concurrency::Criticality;
    use crate::concurrency::admission::Classes;
    use crate::concurrency::bulkhead::{Arrivals, Order};

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn place_takes_52_bytes() {
        assert_eq!(size_of::<Call<<Arrivals as Discipline>::Rank>>() + size_of::<Link>(), 52);
        assert_eq!(size_of::<Call<<Classes as Discipline>::Rank>>() + size_of::<Link>(), 52);
    }

    fn allocates_nothing_after_construction<D: Discipline>(waiting: D, newcomer: impl Fn(&D, u64) -> D::Newcomer) {
        let mut queue = Queue::empty(waiting);
        queue.set_places(3);
        let capacities = (queue.calls.capacity(), queue.links.capacity());
        for round in 0..1_000 {
            let new = newcomer(&queue.waiting, round);
            let place = queue.join(new, None, Some(Waker::noop().clone())).unwrap();
            if round % 2 == 0 || queue.displace_for(new).is_none() {
                assert_eq!(queue.withdraw(place).fate, Fate::Waiting);
            }
        }
        assert_eq!((queue.calls.capacity(), queue.links.capacity()), capacities);
        assert_eq!(queue.vacant.iter(&queue.links).count(), queue.calls.len());
    }

    #[test]
    fn nothing_is_allocated_after_construction() {
        allocates_nothing_after_construction(Arrivals::served(Order::OldestFirst), |_, _| ());
        allocates_nothing_after_construction(Arrivals::served(Order::NewestFirst), |_, _| ());
        let tenant = |classes: &Classes, tenant| classes.newcomer(Criticality::Critical, tenant << 31);
        allocates_nothing_after_construction(Classes::new(), tenant);
    }
}
