//! The calls that wait for a slot, in a slab of places that is allocated at construction.
//!
//! A place belongs to a call from its arrival until the call has learned its fate or has given up:
//!
//! | state of the place | list | |
//! |---|---|---|
//! | vacant | `vacant` | |
//! | waiting | that of its tenant, in [`Shares`] of its class | counted in the word's QUEUED |
//! | granted | `unwoken`, until its waker was taken; then none, until the call takes its permit | counted in IN FLIGHT |
//! | refused | `unwoken`, until its waker was taken; then it is vacant | |
//!
//! A call that finds its place vacant, or taken by another call, was refused. So refused calls keep no places, even before they
//! are polled. A vacant place holds the cause of the refusal until a newcomer gets it, and newcomers get the place that has been
//! vacant for longest. A granted call keeps its place until it takes its permit, because it may pass the slot on instead.
//!
//! The gate holds its lock around all of this, so it needs neither atomics nor locks of its own. User code runs outside: wakers
//! go in and out by value, and the gate clones, wakes and drops them after it has released the lock.

use super::request::Entrant;
use super::shares::Shares;
use super::{Criticality, RefusalCause};
use crate::concurrency::bulkhead::expiry::Expiry;
use crate::concurrency::bulkhead::list::{Link, List};
use crate::concurrency::slots::Occupancy;
use alloc::vec::Vec;
use core::task::Waker;

/// The most places for waiting calls: there are twice as many, and their numbers have 16 bits.
pub(super) const MOST_PLACES: u16 = u16::MAX / 2;

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

/// The fate of a call at the moment it was taken out of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Waiting,
    Granted,
    /// The cause is unknown once another call has the place.
    Refused(Option<RefusalCause>),
}

/// A call that was removed from the queue. Drop it outside the lock, with its waker.
#[derive(Debug)]
pub(super) struct Withdrawn {
    pub(super) fate: Fate,
    _waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Vacant,
    Waiting,
    Granted,
    /// The place is vacant once its waker was taken.
    Refused(RefusalCause),
}

#[derive(Debug)]
struct Call {
    ticket: u64,
    end: Option<Expiry>,
    waker: Option<Waker>,
    /// The share of its tenant, in its class.
    share: u16,
    criticality: Criticality,
    state: State,
}

#[derive(Debug)]
pub(super) struct Queue {
    calls: Vec<Call>,
    links: Vec<Link>,
    vacant: List,
    unwoken: List,
    /// By class.
    classes: [Shares; Criticality::ALL.len()],
    next_ticket: u64,
}

impl Queue {
    /// Creates a queue with places for `waiting` calls, and as many for calls with a decided fate.
    pub(super) fn new(waiting: u16) -> Self {
        let mut queue = Self {
            calls: Vec::new(),
            links: Vec::new(),
            vacant: List::EMPTY,
            unwoken: List::EMPTY,
            classes: Criticality::ALL.map(|_| Shares::new()),
            next_ticket: 0,
        };
        queue.set_places(waiting);
        queue
    }

    /// Replaces the places by places for `waiting` calls, and as many for calls with a decided fate.
    ///
    /// Call it before the first use.
    pub(super) fn set_places(&mut self, waiting: u16) {
        let places = waiting.min(MOST_PLACES) * 2;
        let vacant = |_| Call {
            ticket: 0,
            end: None,
            waker: None,
            share: 0,
            criticality: Criticality::default(),
            state: State::Vacant,
        };
        self.calls = (0..places).map(vacant).collect();
        self.links = alloc::vec![Link::NONE; usize::from(places)];
        self.vacant = List::EMPTY;
        (0..places).for_each(|place| self.vacant.push(&mut self.links, place));
    }

    /// Returns how many calls have joined so far.
    pub(super) fn total(&self) -> u64 {
        self.next_ticket
    }

    /// Returns how many calls of this class wait.
    pub(super) fn queued(&self, criticality: Criticality) -> u32 {
        self.classes[usize::from(criticality.class())].calls()
    }

    /// Returns the share in a class of a tenant, which is given by a keyed hash.
    ///
    /// It belongs to the tenant once a call of it [joins](Self::join).
    pub(super) fn share(&self, criticality: Criticality, tenant: u64) -> u16 {
        self.classes[usize::from(criticality.class())].of(tenant)
    }

    /// Returns whether a call that joins finds a place.
    pub(super) fn has_vacancy(&self) -> bool {
        self.vacant.first().is_some()
    }

    /// Gives a vacant place to a call of a tenant with this share; `None` if there is none.
    pub(super) fn join(&mut self, entrant: &Entrant, tenant: u64, share: u16, waker: Option<Waker>) -> Option<Place> {
        let index = self.vacant.pop(&mut self.links)?;
        self.next_ticket += 1;
        let (ticket, criticality) = (self.next_ticket, entrant.criticality);
        self.calls[usize::from(index)] =
            Call { ticket, end: entrant.end.map(|end| end.at), waker, share, criticality, state: State::Waiting };
        self.classes[usize::from(criticality.class())].push(share, tenant, index, &mut self.links);
        Some(Place { index, ticket })
    }

    /// Refuses the call that gives way to a newcomer of this class and share, and returns its waker.
    ///
    /// Its place is vacant then. `None` if there is no such call: those of higher classes do not give way.
    pub(super) fn displace_for(&mut self, criticality: Criticality, share: u16) -> Option<Waker> {
        let lowest = self.lowest().filter(|lowest| *lowest >= criticality)?;
        let victim = self.victim(lowest, (lowest == criticality).then_some(share))?;
        self.settle(victim, State::Refused(RefusalCause::Displaced));
        self.vacate(victim)
    }

    /// Gives free slots to waiting calls, refuses those that are too late, and returns the next word.
    ///
    /// Calls with no more than `needed` ticks left are too late.
    pub(super) fn grant(&mut self, mut occupancy: Occupancy, now: u64, needed: u64) -> Occupancy {
        while occupancy.has_slot_for_queued()
            && let Some(next) = self.next()
        {
            occupancy = occupancy.dequeued();
            let call = &self.calls[usize::from(next)];
            let (criticality, share) = (call.criticality, call.share);
            if call.end.is_some_and(|end| end.has_passed(now.wrapping_add(needed))) {
                self.decide(next, State::Refused(RefusalCause::Late));
            } else {
                self.decide(next, State::Granted);
                self.class(criticality).start(share);
                occupancy = occupancy.entered();
            }
        }
        occupancy
    }

    /// Refuses calls until at most `most` wait, and returns the next word.
    pub(super) fn trim(&mut self, mut occupancy: Occupancy, most: u32) -> Occupancy {
        while occupancy.queued() > most
            && let Some(lowest) = self.lowest()
            && let Some(victim) = self.victim(lowest, None)
        {
            self.decide(victim, State::Refused(RefusalCause::Displaced));
            occupancy = occupancy.dequeued();
        }
        occupancy
    }

    /// Takes the waker of a call with a decided fate, and returns whether there may be another.
    pub(super) fn take_waker(&mut self) -> (Option<Waker>, bool) {
        let Some(place) = self.unwoken.pop(&mut self.links) else { return (None, false) };
        let call = &mut self.calls[usize::from(place)];
        let waker = if matches!(call.state, State::Refused(_)) { self.vacate(place) } else { call.waker.take() };
        (waker, self.unwoken.first().is_some())
    }

    /// Returns the fate of a call; `None` if it still waits, and then `waker` wakes it from now on.
    ///
    /// If it still waits, its earlier waker is in `waker` afterwards. Otherwise its place is vacant now, as after
    /// [`withdraw`](Self::withdraw).
    pub(super) fn look(&mut self, place: Place, now: u64, needed: u64, waker: &mut Option<Waker>) -> Option<Withdrawn> {
        match self.call(place) {
            Some(call)
                if call.state == State::Waiting
                    && !call.end.is_some_and(|end| end.has_passed(now.wrapping_add(needed))) =>
            {
                core::mem::swap(&mut call.waker, waker);
                None
            }
            _ => Some(self.withdraw(place)),
        }
    }

    /// Removes a call from the queue. Its place is vacant now.
    pub(super) fn withdraw(&mut self, place: Place) -> Withdrawn {
        let index = place.index;
        let Some(call) = self.call(place) else { return Withdrawn { fate: Fate::Refused(None), _waker: None } };
        let (state, share, criticality, is_unwoken) = (call.state, call.share, call.criticality, call.waker.is_some());
        let fate = match state {
            State::Waiting => {
                self.classes[usize::from(criticality.class())].remove(share, index, &mut self.links);
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

    /// Returns the call that gets the next slot, from the highest class.
    fn next(&self) -> Option<u16> {
        self.classes.iter().find_map(|class| class.next(|call| self.calls[usize::from(call)].ticket))
    }

    /// Returns the lowest class with waiting calls.
    fn lowest(&self) -> Option<Criticality> {
        Criticality::ALL.into_iter().rev().find(|criticality| self.queued(*criticality) > 0)
    }

    /// Returns the call of this class that gives way, if one waits.
    fn victim(&self, criticality: Criticality, newcomer: Option<u16>) -> Option<u16> {
        let class = &self.classes[usize::from(criticality.class())];
        class.victim(newcomer, |call| self.calls[usize::from(call)].ticket)
    }

    /// Decides the fate of a waiting call, which must then be woken.
    fn decide(&mut self, index: u16, state: State) {
        self.settle(index, state);
        self.unwoken.push(&mut self.links, index);
    }

    /// Ends the wait of a call. Its place is in no list then.
    fn settle(&mut self, index: u16, state: State) {
        let call = &mut self.calls[usize::from(index)];
        call.state = state;
        let (share, class) = (call.share, usize::from(call.criticality.class()));
        self.classes[class].remove(share, index, &mut self.links);
    }

    fn class(&mut self, criticality: Criticality) -> &mut Shares {
        &mut self.classes[usize::from(criticality.class())]
    }

    /// Returns the call in this place, if the place is still its own.
    fn call(&mut self, place: Place) -> Option<&mut Call> {
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

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn place_takes_52_bytes() {
        assert_eq!(size_of::<Call>() + size_of::<Link>(), 52);
    }

    #[test]
    fn nothing_is_allocated_after_construction() {
        let mut queue = Queue::new(3);
        let capacities = (queue.calls.capacity(), queue.links.capacity());
        for tenant in 0..1_000 {
            let entrant = Entrant { criticality: Criticality::Critical, tenant, end: None, wait_end: None };
            let share = queue.share(entrant.criticality, tenant << 31);
            let place = queue.join(&entrant, tenant << 31, share, Some(Waker::noop().clone()));
            if tenant % 2 == 0 {
                assert_eq!(place.map(|place| queue.withdraw(place).fate), Some(Fate::Waiting));
            } else {
                assert!(queue.displace_for(Criticality::CriticalPlus, 0).is_some());
            }
        }
        assert_eq!((queue.calls.capacity(), queue.links.capacity()), capacities);
        assert_eq!(queue.queued(Criticality::Critical), 0);
    }
}
