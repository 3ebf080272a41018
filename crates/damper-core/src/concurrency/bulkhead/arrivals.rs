//! The order of arrival.

use crate::concurrency::queue::{Discipline, Link, List};

/// Which call gets the next slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::concurrency) enum Order {
    OldestFirst,
    /// If the queue is full, the oldest call gives way.
    NewestFirst,
}

/// The waiting calls in the order of arrival, which are served from either end.
#[derive(Debug)]
pub(in crate::concurrency) struct Arrivals {
    pub(super) order: Order,
    waiting: List,
}

impl Arrivals {
    pub(in crate::concurrency) const fn served(order: Order) -> Self {
        Self { order, waiting: List::EMPTY }
    }
}

impl Discipline for Arrivals {
    type Newcomer = ();
    type Rank = ();

    const IS_WITHIN_LIMIT: bool = false;
    const PLACES_PER_CALL: u16 = 1;

    fn push(&mut self, (): (), call: u16, links: &mut [Link]) {
        self.waiting.push(links, call);
    }

    fn remove(&mut self, (): (), call: u16, links: &mut [Link]) {
        self.waiting.remove(links, call);
    }

    fn start(&mut self, (): ()) {}

    fn next(&self, _ticket: impl Fn(u16) -> u64) -> Option<u16> {
        match self.order {
            Order::OldestFirst => self.waiting.first(),
            Order::NewestFirst => self.waiting.last(),
        }
    }

    fn victim(&self, _newcomer: Option<()>, _ticket: impl Fn(u16) -> u64) -> Option<u16> {
        match self.order {
            Order::OldestFirst => None,
            Order::NewestFirst => self.waiting.first(),
        }
    }
}
