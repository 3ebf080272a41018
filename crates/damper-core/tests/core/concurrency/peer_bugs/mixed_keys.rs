//! One average holds the latencies of all services, and each service is compared with it.
//!
//! After Vector's adaptive concurrency, pull request 21725.

use crate::concurrency::peer_bugs::peer::{Means, Rule};
use crate::concurrency::peer_bugs::service::End;
use std::cell::Cell;
use std::rc::Rc;

pub(crate) struct MixedKeys {
    limit: f64,
    means: Means,
    /// The lowest latency of all services. Correct would be that of this service.
    unloaded: Rc<Cell<f64>>,
}

impl MixedKeys {
    pub(crate) fn new(unloaded: &Rc<Cell<f64>>) -> Self {
        Self { limit: 20.0, means: Means::default(), unloaded: Rc::clone(unloaded) }
    }
}

impl Rule for MixedKeys {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, now: f64, latency: f64, in_flight: u32, _: End) {
        let Some(recent) = self.means.of_every(1.0, now, latency) else { return };
        self.unloaded.set(self.unloaded.get().min(recent));
        let is_full = f64::from(in_flight) * 2.0 > self.limit;
        let is_slow = recent > 1.4 * self.unloaded.get();
        self.limit = if is_slow { (self.limit * 0.9).max(1.0) } else { self.limit + f64::from(u8::from(is_full)) };
    }
}
