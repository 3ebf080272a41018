//! A limit by another rule: it admits calls in flight up to the rule's limit.

use crate::concurrency::peer_bugs::service::{End, Limit};
use damper::{Clock, ManualClock};
use std::cell::{Cell, RefCell};

pub(crate) trait Rule {
    /// The limit on calls in flight. Only its whole part counts.
    fn limit(&self) -> f64;
    /// Records a call that ended at `now`, took `latency` seconds, and had `in_flight` calls beside it.
    fn ended(&mut self, now: f64, latency: f64, in_flight: u32, end: End);
}

pub(crate) struct Peer<'a, R> {
    clock: &'a ManualClock,
    rule: RefCell<R>,
    in_flight: Cell<u32>,
}

impl<'a, R: Rule> Peer<'a, R> {
    pub(crate) fn new(clock: &'a ManualClock, rule: R) -> Self {
        Self { clock, rule: RefCell::new(rule), in_flight: Cell::new(0) }
    }
}

impl<R: Rule> Limit for Peer<'_, R> {
    type Permit = ();

    fn try_acquire(&self) -> Option<()> {
        let has_room = f64::from(self.in_flight.get() + 1) <= self.limit();
        has_room.then(|| self.in_flight.set(self.in_flight.get() + 1))
    }

    fn ended(&self, (): (), latency: f64, end: End) {
        let now = self.clock.now() as f64 / self.clock.frequency() as f64;
        self.rule.borrow_mut().ended(now, latency, self.in_flight.get(), end);
        self.in_flight.set(self.in_flight.get() - 1);
    }

    fn limit(&self) -> f64 {
        self.rule.borrow().limit()
    }
}

/// The mean latency of each window of time.
#[derive(Default)]
pub(crate) struct Means {
    began: f64,
    sum: f64,
    count: f64,
    pub(crate) overloaded: u32,
}

impl Means {
    /// Adds a call. Once a window is over, returns its mean latency and starts the next.
    pub(crate) fn of_every(&mut self, seconds: f64, now: f64, latency: f64) -> Option<f64> {
        self.sum += latency;
        self.count += 1.0;
        if now - self.began < seconds {
            return None;
        }
        let mean = self.sum / self.count;
        (self.began, self.sum, self.count) = (now, 0.0, 0.0);
        Some(mean)
    }
}
