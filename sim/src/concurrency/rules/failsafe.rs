//! failsafe-go's adaptive limiter.
//!
//! It estimates the queue by a long average, and correlates the calls in flight with throughput and with time. Its
//! defect: the baseline learns a long incident (#127).

use super::{INITIAL, MAXIMUM, log10};
use crate::concurrency::limit::{Finished, Outcome, Rule};
use std::collections::VecDeque;

/// A limit that changes by log10 once a window of a second and 50 samples.
#[derive(Clone, Debug)]
pub struct Failsafe {
    limit: f64,
    /// The window's times of successful calls, and its maximum of calls in flight.
    times: Vec<f64>,
    in_flight: u32,
    ends: f64,
    /// The last p90s, of which the median is used.
    recent: VecDeque<f64>,
    short: Average,
    long: Average,
    throughput: Correlation,
    latency: Correlation,
}

/// An exponential average that weighs its first ten values equally.
#[derive(Clone, Copy, Debug)]
struct Average {
    age: f64,
    count: f64,
    value: f64,
}

impl Average {
    const fn new(age: f64) -> Self {
        Self { age, count: 0.0, value: 0.0 }
    }

    fn add(&mut self, value: f64) -> f64 {
        self.count += 1.0;
        let weight = if self.count <= 10.0 { 1.0 / self.count } else { 2.0 / (self.age + 1.0) };
        self.value += (value - self.value) * weight;
        self.value
    }
}

/// Pearson's correlation over the last 50 pairs.
#[derive(Clone, Debug, Default)]
struct Correlation {
    pairs: VecDeque<(f64, f64)>,
}

impl Correlation {
    /// Returns the correlation, and the second value's deviation relative to its mean.
    ///
    /// They are zero and one before there are ten pairs.
    fn add(&mut self, x: f64, y: f64) -> (f64, f64) {
        self.pairs.push_back((x, y));
        if self.pairs.len() > 50 {
            self.pairs.pop_front();
        }
        let n = self.pairs.len() as f64;
        if n < 10.0 {
            return (0.0, 1.0);
        }
        let (sum_x, sum_y) = self.pairs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
        let (mean_x, mean_y) = (sum_x / n, sum_y / n);
        let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
        for (x, y) in &self.pairs {
            let (dx, dy) = (x - mean_x, y - mean_y);
            (xx, yy, xy) = (xx + dx * dx, yy + dy * dy, xy + dx * dy);
        }
        let variation = (yy / n).sqrt() / mean_y;
        if xx <= f64::EPSILON || yy <= f64::EPSILON { (0.0, variation) } else { (xy / (xx * yy).sqrt(), variation) }
    }
}

impl Failsafe {
    /// Creates the rule with its published defaults, except for the maximum.
    #[must_use]
    pub fn new() -> Self {
        Self {
            limit: INITIAL,
            times: Vec::new(),
            in_flight: 0,
            ends: 0.0,
            recent: VecDeque::new(),
            short: Average::new(5.0),
            long: Average::new(60.0),
            throughput: Correlation::default(),
            latency: Correlation::default(),
        }
    }

    fn update(&mut self, p90: f64, full: bool) {
        self.recent.push_back(p90);
        if self.recent.len() > 5 {
            self.recent.pop_front();
        }
        let mut sorted: Vec<_> = self.recent.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let short = self.short.add(sorted[sorted.len() / 2]);
        let long = self.long.add(short);
        let (in_flight, step) = (f64::from(self.in_flight), log10(self.limit));
        let queue = (self.limit * (1.0 - long / short)).ceil();
        let (throughput, variation) = self.throughput.add(in_flight, in_flight / short);
        let (latency, _) = self.latency.add(in_flight, short);
        let flat = throughput < 0.0 || (latency > 0.5 && (throughput < 0.3 || variation < 0.2));
        let new = if queue > 6.0 * step || (full && flat) {
            self.limit - step
        } else if queue < 3.0 * step {
            self.limit + step
        } else {
            self.limit
        };
        // At most five times the calls in flight.
        let new = if new > 5.0 * in_flight { self.limit - step } else { new };
        self.limit = new.clamp(1.0, MAXIMUM);
    }
}

impl Default for Failsafe {
    fn default() -> Self {
        Self::new()
    }
}

impl Rule for Failsafe {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn sample(&mut self, now: f64, call: &Finished, in_flight: u32) {
        if call.outcome == Outcome::Success {
            self.times.push(call.latency);
            self.in_flight = self.in_flight.max(call.in_flight);
        }
        if now > self.ends && self.times.len() >= 50 {
            let last = self.times.len() * 9 / 10;
            let (_, p90, _) = self.times.select_nth_unstable_by(last, f64::total_cmp);
            let p90 = *p90;
            // The finished call still counts as in flight there.
            self.update(p90, f64::from(in_flight + 1) >= self.limit.floor());
            self.times.clear();
            self.in_flight = 0;
            self.ends = now + 1.0;
        }
    }
}
