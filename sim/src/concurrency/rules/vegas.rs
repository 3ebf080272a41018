//! Netflix' `VegasLimit`, which keeps an estimated queue between two bounds.
//!
//! Its defects: the minimum of all times starves it when times vary, and each new measurement of the minimum may
//! mistake a loaded time for it (#165, #35).

use super::{INITIAL, MAXIMUM, log10};
use crate::concurrency::limit::{Finished, Outcome, Rule};
use crate::random::Random;

/// A limit by the estimated queue: L · (1 − minimum / time).
#[derive(Clone, Debug)]
pub struct Vegas {
    limit: f64,
    minimum: Option<f64>,
    samples: f64,
    /// A random factor from 0.5 to 1, redrawn for each interval.
    jitter: f64,
    random: Random,
}

impl Vegas {
    /// Creates the rule with its published defaults.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { limit: INITIAL, minimum: None, samples: 0.0, jitter: 0.75, random: Random::new(seed) }
    }
}

impl Rule for Vegas {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn sample(&mut self, _now: f64, call: &Finished, _in_flight: u32) {
        self.samples += 1.0;
        if self.samples >= self.jitter * 30.0 * self.limit {
            self.jitter = 0.5 + 0.5 * self.random.uniform();
            self.samples = 0.0;
            self.minimum = Some(call.latency);
            return;
        }
        let minimum = match self.minimum {
            Some(minimum) if minimum <= call.latency => minimum,
            _ => {
                self.minimum = Some(call.latency);
                return;
            }
        };
        let step = log10(self.limit);
        if call.outcome == Outcome::Overloaded {
            self.limit -= step;
        } else if f64::from(call.in_flight) * 2.0 >= self.limit {
            let queue = (self.limit * (1.0 - minimum / call.latency)).ceil();
            if queue <= step {
                self.limit += 6.0 * step;
            } else if queue < 3.0 * step {
                self.limit += step;
            } else if queue > 6.0 * step {
                self.limit -= step;
            }
        }
        self.limit = self.limit.clamp(1.0, MAXIMUM);
    }
}
