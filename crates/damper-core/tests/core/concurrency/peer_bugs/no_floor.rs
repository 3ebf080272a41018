//! The limit may fall to 0.
//!
//! Then no call begins, so none completes and nothing raises the limit again. After Vector's adaptive concurrency, pull
//! request 21344.

use crate::concurrency::peer_bugs::peer::{Means, Rule};
use crate::concurrency::peer_bugs::service::End;

pub(crate) struct NoFloor {
    limit: f64,
    means: Means,
}

impl NoFloor {
    pub(crate) fn new() -> Self {
        Self { limit: 20.0, means: Means::default() }
    }
}

impl Rule for NoFloor {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, now: f64, latency: f64, _: u32, end: End) {
        self.means.overloaded += u32::from(end == End::Overloaded);
        if self.means.of_every(1.0, now, latency).is_some() {
            // Correct would be at least 1.
            self.limit = if std::mem::take(&mut self.means.overloaded) > 0 {
                (self.limit * 0.9).floor()
            } else {
                self.limit + 1.0
            };
        }
    }
}
