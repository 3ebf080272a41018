//! Netflix' `Gradient2Limit` behind its `WindowedLimit`, as documented.
//!
//! Its defect: under a lasting overload the long average learns the queue, and the limit grows to its maximum (#134).

use super::{INITIAL, MAXIMUM};
use crate::concurrency::limit::{Finished, Outcome, Rule};

/// A limit by the ratio of a long to a short average of windows of a second.
#[derive(Clone, Copy, Debug)]
pub struct Gradient2 {
    limit: f64,
    long: f64,
    windows: f64,
    window: Window,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    ends: f64,
    samples: u32,
    sum: f64,
    in_flight: u32,
}

impl Gradient2 {
    /// Creates the rule with its published defaults.
    #[must_use]
    pub fn new() -> Self {
        Self { limit: INITIAL, long: 0.0, windows: 0.0, window: Window::default() }
    }

    fn update(&mut self, short: f64, in_flight: u32) {
        self.windows += 1.0;
        if self.windows <= 10.0 {
            self.long += (short - self.long) / self.windows;
        } else {
            self.long += (short - self.long) * 2.0 / 601.0;
        }
        if self.long / short > 2.0 {
            self.long *= 0.95;
        }
        if f64::from(in_flight) < self.limit / 2.0 {
            return;
        }
        let gradient = (1.5 * self.long / short).clamp(0.5, 1.0);
        let new = self.limit * gradient + 4.0;
        self.limit = (0.8 * self.limit + 0.2 * new).clamp(20.0, MAXIMUM);
    }
}

impl Default for Gradient2 {
    fn default() -> Self {
        Self::new()
    }
}

impl Rule for Gradient2 {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn sample(&mut self, now: f64, call: &Finished, _in_flight: u32) {
        // A drop is not counted.
        if call.outcome == Outcome::Success {
            self.window.samples += 1;
            self.window.sum += call.latency;
            self.window.in_flight = self.window.in_flight.max(call.in_flight);
        }
        if now >= self.window.ends && self.window.samples >= 10 {
            let Window { samples, sum, in_flight, .. } = self.window;
            self.window = Window { ends: now + 1.0, ..Window::default() };
            self.update(sum / f64::from(samples), in_flight);
        }
    }
}
