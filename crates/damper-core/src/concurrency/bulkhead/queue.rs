//! The calls that wait for a slot, in a slab of places that is allocated at construction.
//!
//! A place belongs to a call from its arrival until the call has learned its fate or has given up. It is in one of three lists,
//! or in none:
//!
//! | state of the place | list | |
//! |---|---|---|
//! | vacant | `vacant` | |
//! | waiting | `waiting`, in the order of arrival | counted in the word's QUEUED |
//! | granted | `unwoken`, until its waker was taken; then none, until the call takes its permit | counted in IN FLIGHT |
//! | refused | `unwoken`, until its waker was taken; then it is vacant | |
//!
//! A call that finds its place vacant, or taken by another call, was refused. So refused calls keep no places, even before they
//! are polled. A granted call keeps its place until it takes its permit, because it may pass the slot on instead.
//!
//! The bulkhead holds its lock around all of this, so it needs neither atomics nor locks of its own. User code runs outside:
//! wakers go in and out by value, and the bulkhead clones, wakes and drops them after it has released the lock.

use super::expiry::Expiry;
use super::list::{Link, List};
use crate::concurrency::slots::Occupancy;
use alloc::vec::Vec;
use core::task::Waker;

/// The number of wakers that are taken under one lock.
const BATCH: usize = 8;

/// Wakers that were taken, to be woken outside the lock.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    wakers: [Option<Waker>; BATCH],
    /// Whether more wakers remain.
    pub(super) is_full: bool,
}

impl Wakers {
    /// Wakes them all. If one panics, those behind it are still there.
    pub(super) fn wake(&mut self) {
        self.wakers.iter_mut().filter_map(Option::take).for_each(Waker::wake);
    }
}

/// Which call gets the next slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    OldestFirst,
    NewestFirst,
}

/// A call's place in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    index: u16,
    /// Differs between consecutive calls in the same place.
    ticket: u64,
}

/// The result of a call's arrival.
#[derive(Debug)]
pub enum Entry {
    /// The call has a slot.
    Entered,
    /// The call has a place in the queue.
    Queued(Queued),
}

/// A call that has just joined the queue.
#[derive(Debug)]
pub struct Queued {
    pub(in crate::concurrency) place: Place,
    /// The end of its wait.
    pub(super) expiry: Option<Expiry>,
    /// The waker of the call that lost its place to this one.
    ///
    /// Wake it only after a guard holds `place`, so that a panic of the waker leaves the queue.
    pub(super) displaced: Option<Waker>,
}

/// The fate of a call at the moment it was taken out of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Waiting,
    Granted,
    Refused,
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
    Refused,
}

#[derive(Debug)]
struct Call {
    ticket: u64,
    state: State,
    expiry: Option<Expiry>,
    waker: Option<Waker>,
}

#[derive(Debug)]
pub(super) struct Queue {
    calls: Vec<Call>,
    links: Vec<Link>,
    vacant: List,
    waiting: List,
    unwoken: List,
    next_ticket: u64,
    order: Order,
}

impl Queue {
    /// A queue without places, which allocates nothing.
    pub(super) const EMPTY: Self = Self {
        calls: Vec::new(),
        links: Vec::new(),
        vacant: List::EMPTY,
        waiting: List::EMPTY,
        unwoken: List::EMPTY,
        next_ticket: 0,
        order: Order::OldestFirst,
    };

    pub(super) fn new(places: u16, order: Order) -> Self {
        let mut queue = Self { order, ..Self::EMPTY };
        queue.calls.extend((0..places).map(|_| Call { ticket: 0, state: State::Vacant, expiry: None, waker: None }));
        queue.links.resize(usize::from(places), Link::NONE);
        (0..places).for_each(|place| queue.vacant.push(&mut queue.links, place));
        queue
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// Sets the order. Call it before the first use.
    pub(super) fn set_order(&mut self, order: Order) {
        self.order = order;
    }

    /// Returns how many calls have joined so far.
    pub(super) fn total(&self) -> u64 {
        self.next_ticket
    }

    pub(super) fn has_vacancy(&self) -> bool {
        self.vacant.first().is_some()
    }

    /// Gives a vacant place to a call; `None` if there is none.
    pub(super) fn join(&mut self, expiry: Option<Expiry>, waker: Option<Waker>) -> Option<Place> {
        let index = self.vacant.pop(&mut self.links)?;
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.calls[usize::from(index)] = Call { ticket, state: State::Waiting, expiry, waker };
        self.waiting.push(&mut self.links, index);
        Some(Place { index, ticket })
    }

    /// Refuses the call that has waited longest, in a queue of newest first, and returns its waker.
    ///
    /// Its place is vacant then. `None` if no call waits.
    pub(super) fn displace(&mut self) -> Option<Waker> {
        if self.order == Order::OldestFirst {
            return None;
        }
        let oldest = self.waiting.pop(&mut self.links)?;
        self.vacate(oldest)
    }

    /// Gives free slots to waiting calls, refuses those whose time is over, and returns the next word.
    pub(super) fn grant(&mut self, mut occupancy: Occupancy, now: u64) -> Occupancy {
        while occupancy.has_slot_for_queued()
            && let Some(next) = self.next()
        {
            self.waiting.remove(&mut self.links, next);
            self.unwoken.push(&mut self.links, next);
            let call = &mut self.calls[usize::from(next)];
            occupancy = occupancy.dequeued();
            if call.expiry.is_some_and(|expiry| expiry.has_passed(now)) {
                call.state = State::Refused;
            } else {
                call.state = State::Granted;
                occupancy = occupancy.entered();
            }
        }
        occupancy
    }

    /// Takes wakers of calls with a decided fate.
    pub(super) fn take_wakers(&mut self) -> Wakers {
        let mut taken = Wakers::default();
        for waker in &mut taken.wakers {
            let Some(place) = self.unwoken.pop(&mut self.links) else { return taken };
            let call = &mut self.calls[usize::from(place)];
            *waker = if call.state == State::Refused { self.vacate(place) } else { call.waker.take() };
        }
        taken.is_full = self.unwoken.first().is_some();
        taken
    }

    /// Returns the fate of a call; `None` if it still waits, and then `waker` wakes it from now on.
    ///
    /// If it still waits, its earlier waker is in `waker` afterwards. Otherwise its place is vacant now, as after
    /// [`withdraw`](Self::withdraw).
    pub(super) fn look(&mut self, place: Place, now: u64, waker: &mut Option<Waker>) -> Option<Withdrawn> {
        match self.call(place) {
            Some(call) if call.state == State::Waiting && !call.expiry.is_some_and(|expiry| expiry.has_passed(now)) => {
                core::mem::swap(&mut call.waker, waker);
                None
            }
            _ => Some(self.withdraw(place)),
        }
    }

    /// Removes a call from the queue. Its place is vacant now.
    pub(super) fn withdraw(&mut self, place: Place) -> Withdrawn {
        let index = place.index;
        let fate = match self.call(place).map(|call| (call.state, call.waker.is_some())) {
            Some((State::Waiting, _)) => {
                self.waiting.remove(&mut self.links, index);
                Fate::Waiting
            }
            Some((State::Granted, is_unwoken)) => {
                if is_unwoken {
                    self.unwoken.remove(&mut self.links, index);
                }
                Fate::Granted
            }
            Some((State::Refused, _)) => {
                self.unwoken.remove(&mut self.links, index);
                Fate::Refused
            }
            Some((State::Vacant, _)) | None => return Withdrawn { fate: Fate::Refused, _waker: None },
        };
        Withdrawn { fate, _waker: self.vacate(index) }
    }

    /// Returns the call that gets the next slot.
    fn next(&self) -> Option<u16> {
        match self.order {
            Order::OldestFirst => self.waiting.first(),
            Order::NewestFirst => self.waiting.last(),
        }
    }

    /// Returns the call in this place, if the place is still its own.
    fn call(&mut self, place: Place) -> Option<&mut Call> {
        self.calls.get_mut(usize::from(place.index)).filter(|call| call.ticket == place.ticket)
    }

    /// Makes a place that is in no list vacant, and returns its waker.
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
        for order in [Order::OldestFirst, Order::NewestFirst] {
            let mut queue = Queue::new(3, order);
            let capacities = (queue.calls.capacity(), queue.links.capacity());
            for round in 0..100 {
                let places: Vec<_> = (0..5).map(|_| queue.join(None, Some(Waker::noop().clone()))).collect();
                assert_eq!(places.iter().filter(|place| place.is_some()).count(), 3);
                for place in places.into_iter().flatten().skip(round % 2) {
                    assert_eq!(queue.withdraw(place).fate, Fate::Waiting);
                }
                while let Some(place) = queue.waiting.pop(&mut queue.links) {
                    queue.vacate(place);
                }
            }
            assert_eq!((queue.calls.capacity(), queue.links.capacity()), capacities);
        }
    }
}
