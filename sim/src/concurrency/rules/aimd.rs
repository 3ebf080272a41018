//! Additive increase, multiplicative decrease, as in Netflix' concurrency-limits (`AIMDLimit`).

use super::{INITIAL, MAXIMUM};
use crate::concurrency::limit::{Finished, Outcome, Rule};

/// Adds one after each call while at least half of the limit is in use.
///
/// It subtracts a tenth after a drop or a call of 5 s.
#[derive(Clone, Copy, Debug)]
pub struct Aimd {
    limit: f64,
}

impl Aimd {
    /// Creates the rule with its published defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { limit: INITIAL }
    }
}

impl Default for Aimd {
    fn default() -> Self {
        Self::new()
    }
}

impl Rule for Aimd {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn sample(&mut self, _now: f64, call: &Finished, _in_flight: u32) {
        if call.outcome == Outcome::Overloaded || call.latency > 5.0 {
            self.limit = (self.limit * 0.9).floor();
        } else if f64::from(call.in_flight) * 2.0 >= self.limit {
            self.limit += 1.0;
        }
        self.limit = self.limit.clamp(20.0, MAXIMUM);
    }
}
