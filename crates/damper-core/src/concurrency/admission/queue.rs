//! The calls that wait for a slot, in a slab of places that is allocated at construction.
//!
//! A place is a call's from its arrival until it has learnt its fate or has given up:
//!
//! | state of the place | list | |
//! |---|---|---|
//! | vacant | `vacant` | |
//! | waiting | that of its tenant, in [`Shares`] of its class | counted in the word's QUEUED |
//! | granted | `unwoken`, until its waker was taken; then none, until the call comes for its permit | counted in IN FLIGHT |
//! | refused | `unwoken`, until its waker was taken; then it is vacant | |
//!
//! A call that finds its place vacant, or taken by another call, was refused. So refused calls keep no places, however many of them
//! have not been polled yet.
//!
//! Nothing here is atomic and nothing locks: the gate holds its lock around all of it. User code never runs in here:
//! wakers come in and go out by value, and are cloned, woken and dropped outside.

use super::Criticality;
use super::request::Entrant;
use super::shares::Shares;
use crate::concurrency::bulkhead::expiry::Expiry;
use crate::concurrency::bulkhead::list::{Link, List};
use crate::concurrency::slots::Occupancy;
use alloc::vec::Vec;
use core::task::Waker;

/// The most places that calls wait in: there are twice as many, and their numbers have 16 bits.
pub(super) const MOST_PLACES: u16 = u16::MAX / 2;

/// A call's place in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    index: u16,
    /// Tells the calls apart that have had the place one after another.
    ticket: u64,
}

/// The fate of a call at the moment it was taken out of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Waiting,
    Granted,
    Refused,
}

/// A call that was taken out of the queue. To be dropped outside the lock, with its waker.
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
    Refused,
}

#[derive(Debug)]
struct Call {
    ticket: u64,
    end: Option<Expiry>,
    waker: Option<Waker>,
    /// Its tenant's, in its class.
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
    /// With places for so many calls that wait, and for as many that have not learnt their fate.
    pub(super) fn new(waiting: u16) -> Self {
        let places = waiting.min(MOST_PLACES) * 2;
        let mut queue = Self {
            calls: Vec::with_capacity(usize::from(places)),
            links: Vec::new(),
            vacant: List::EMPTY,
            unwoken: List::EMPTY,
            classes: Criticality::ALL.map(|_| Shares::new()),
            next_ticket: 0,
        };
        queue.calls.extend((0..places).map(|_| Call {
            ticket: 0,
            end: None,
            waker: None,
            share: 0,
            criticality: Criticality::default(),
            state: State::Vacant,
        }));
        queue.links.resize(usize::from(places), Link::NONE);
        (0..places).for_each(|place| queue.vacant.push(&mut queue.links, place));
        queue
    }

    /// How many calls of this class wait.
    pub(super) fn queued(&self, criticality: Criticality) -> u32 {
        self.classes[usize::from(criticality.class())].calls()
    }

    /// The share of a tenant, which is given by a keyed hash, in a class.
    pub(super) fn share(&mut self, criticality: Criticality, tenant: u64) -> u16 {
        self.class(criticality).of(tenant)
    }

    /// Whether a call that joins finds a place.
    pub(super) fn has_vacancy(&self) -> bool {
        self.vacant.first().is_some()
    }

    /// Gives a vacant place to a call; `None` if there is none.
    pub(super) fn join(&mut self, entrant: &Entrant, share: u16, waker: Option<Waker>) -> Option<Place> {
        let index = self.vacant.pop(&mut self.links)?;
        self.next_ticket += 1;
        let (ticket, criticality) = (self.next_ticket, entrant.criticality);
        self.calls[usize::from(index)] =
            Call { ticket, end: entrant.end.map(|end| end.at), waker, share, criticality, state: State::Waiting };
        self.classes[usize::from(criticality.class())].push(share, index, &mut self.links);
        Some(Place { index, ticket })
    }

    /// Refuses the call that gives way to a newcomer of this class and share. Returns whether there is one: calls of
    /// higher classes do not.
    pub(super) fn displace_for(&mut self, criticality: Criticality, share: u16) -> bool {
        let Some(lowest) = self.lowest().filter(|lowest| *lowest >= criticality) else { return false };
        self.displace(lowest, (lowest == criticality).then_some(share))
    }

    /// Gives free slots to calls that wait, and refuses those that are too late instead: those with no more than `needed` ticks
    /// left. Returns what the word has to say then.
    pub(super) fn grant(&mut self, mut occupancy: Occupancy, now: u64, needed: u64) -> Occupancy {
        while occupancy.has_slot_for_queued()
            && let Some(next) = self.next()
        {
            occupancy = occupancy.dequeued();
            let call = &self.calls[usize::from(next)];
            let (criticality, share) = (call.criticality, call.share);
            if call.end.is_some_and(|end| end.has_passed(now.wrapping_add(needed))) {
                self.decide(next, State::Refused);
            } else {
                self.decide(next, State::Granted);
                self.class(criticality).start(share);
                occupancy = occupancy.entered();
            }
        }
        occupancy
    }

    /// Refuses calls until no more than so many wait. Returns what the word has to say then.
    pub(super) fn trim(&mut self, mut occupancy: Occupancy, most: u32) -> Occupancy {
        while occupancy.queued() > most
            && let Some(lowest) = self.lowest()
            && self.displace(lowest, None)
        {
            occupancy = occupancy.dequeued();
        }
        occupancy
    }

    /// Takes the waker of a call whose fate is known, if there is one, and tells whether there may be another.
    pub(super) fn take_waker(&mut self) -> (Option<Waker>, bool) {
        let Some(place) = self.unwoken.pop(&mut self.links) else { return (None, false) };
        let call = &mut self.calls[usize::from(place)];
        let waker = if call.state == State::Refused { self.vacate(place) } else { call.waker.take() };
        (waker, self.unwoken.first().is_some())
    }

    /// Looks what has become of a call. If it is to go on waiting, that is `None`, and the call is woken by `waker` from now on;
    /// its earlier waker is in there afterwards. Else its place is vacant now, as after [`withdraw`](Self::withdraw).
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

    /// Takes a call out of the queue. Its place is vacant now.
    pub(super) fn withdraw(&mut self, place: Place) -> Withdrawn {
        let index = place.index;
        let Some(call) = self.call(place) else { return Withdrawn { fate: Fate::Refused, _waker: None } };
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
            State::Refused => {
                self.unwoken.remove(&mut self.links, index);
                Fate::Refused
            }
            State::Vacant => return Withdrawn { fate: Fate::Refused, _waker: None },
        };
        Withdrawn { fate, _waker: self.vacate(index) }
    }

    /// The call that gets the next slot: of the highest class.
    fn next(&self) -> Option<u16> {
        self.classes.iter().find_map(|class| class.next(|call| self.calls[usize::from(call)].ticket))
    }

    /// The lowest class of which calls wait.
    fn lowest(&self) -> Option<Criticality> {
        Criticality::ALL.into_iter().rev().find(|criticality| self.queued(*criticality) > 0)
    }

    /// Refuses a call of this class, if one waits.
    fn displace(&mut self, criticality: Criticality, newcomer: Option<u16>) -> bool {
        let class = &self.classes[usize::from(criticality.class())];
        let victim = class.victim(newcomer, |call| self.calls[usize::from(call)].ticket);
        victim.inspect(|victim| self.decide(*victim, State::Refused)).is_some()
    }

    /// Decides the fate of a call that waits.
    fn decide(&mut self, index: u16, state: State) {
        let call = &mut self.calls[usize::from(index)];
        call.state = state;
        let (share, class) = (call.share, usize::from(call.criticality.class()));
        self.classes[class].remove(share, index, &mut self.links);
        self.unwoken.push(&mut self.links, index);
    }

    fn class(&mut self, criticality: Criticality) -> &mut Shares {
        &mut self.classes[usize::from(criticality.class())]
    }

    /// The call that has this place, if it is still its own.
    fn call(&mut self, place: Place) -> Option<&mut Call> {
        self.calls.get_mut(usize::from(place.index)).filter(|call| call.ticket == place.ticket)
    }

    /// Makes a place vacant that is in no list, and returns its waker.
    fn vacate(&mut self, index: u16) -> Option<Waker> {
        self.vacant.push(&mut self.links, index);
        let call = &mut self.calls[usize::from(index)];
        call.state = State::Vacant;
        call.waker.take()
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
            let entrant = Entrant { criticality: Criticality::Critical, tenant, end: None };
            let share = queue.share(entrant.criticality, tenant << 31);
            let place = queue.join(&entrant, share, Some(Waker::noop().clone()));
            if tenant % 2 == 0 {
                assert_eq!(place.map(|place| queue.withdraw(place).fate), Some(Fate::Waiting));
            } else {
                queue.displace_for(Criticality::CriticalPlus, 0);
                assert!(queue.take_waker().0.is_some());
            }
        }
        assert_eq!((queue.calls.capacity(), queue.links.capacity()), capacities);
        assert_eq!(queue.queued(Criticality::Critical), 0);
    }
}
