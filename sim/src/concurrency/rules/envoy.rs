//! Envoy's gradient controller of its adaptive concurrency filter.
//!
//! Its defects: each measurement of the minimum pins the limit to 3, and under load it may stay there (#46532, #8337).

use super::{INITIAL, MAXIMUM};
use crate::concurrency::limit::{Finished, Outcome, Rule};
use crate::random::Random;

/// The interval between measurements of the minimum, in seconds.
const INTERVAL: f64 = 60.0;
/// The interval between updates of the limit, in seconds.
///
/// With the example's 0.1 s, calls of 100 ms make the limit swing between 7 and 100.
const UPDATE: f64 = 0.5;
const PINNED: f64 = 3.0;

/// A limit by the ratio of a measured minimum to the median of the last interval.
#[derive(Clone, Debug)]
pub struct Envoy {
    limit: f64,
    /// The limit before the present measurement of the minimum, and the time of its start.
    measuring: Option<(f64, f64)>,
    minimum: f64,
    next_measurement: f64,
    next_update: f64,
    updates_at_minimum: u32,
    times: Vec<f64>,
    random: Random,
}

impl Envoy {
    /// Creates the rule with its documented defaults. It starts with a measurement.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            limit: PINNED,
            measuring: Some((INITIAL, 0.0)),
            minimum: 0.0,
            next_measurement: 0.0,
            next_update: 0.0,
            updates_at_minimum: 0,
            times: Vec::new(),
            random: Random::new(seed),
        }
    }

    fn median(&mut self) -> f64 {
        let middle = self.times.len() / 2;
        let (_, median, _) = self.times.select_nth_unstable_by(middle, f64::total_cmp);
        *median
    }

    fn measure(&mut self, now: f64) {
        self.measuring = Some((self.limit, now));
        self.limit = PINNED;
        self.updates_at_minimum = 0;
        self.times.clear();
    }
}

impl Rule for Envoy {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn sample(&mut self, now: f64, call: &Finished, _in_flight: u32) {
        if call.outcome == Outcome::Overloaded {
            return;
        }
        if let Some((before, since)) = self.measuring {
            // A call that started under the earlier limit says nothing about the minimum.
            if now - call.latency < since {
                return;
            }
            self.times.push(call.latency);
            if self.times.len() >= 50 {
                self.minimum = self.median();
                self.times.clear();
                self.limit = before;
                self.measuring = None;
                self.next_measurement = now + INTERVAL * (1.0 + 0.15 * self.random.uniform());
                self.next_update = now + UPDATE;
            }
            return;
        }
        self.times.push(call.latency);
        if now < self.next_update {
            return;
        }
        self.next_update = now + UPDATE;
        let gradient = (self.minimum * 1.25 / self.median()).clamp(0.5, 2.0);
        let scaled = self.limit * gradient;
        self.limit = (scaled + scaled.sqrt()).floor().clamp(PINNED, MAXIMUM);
        self.times.clear();
        self.updates_at_minimum = if self.limit <= PINNED { self.updates_at_minimum + 1 } else { 0 };
        if now >= self.next_measurement || self.updates_at_minimum >= 5 {
            self.measure(now);
        }
    }
}
