//! The latency is compared with a long average of itself.
//!
//! Under a lasting overload both become the queue's latency, so the limit grows. After Gradient2 of Netflix's
//! concurrency-limits, issue 134.

use crate::concurrency::peer_bugs::peer::{Means, Rule};
use crate::concurrency::peer_bugs::service::End;

pub(crate) struct DriftingGradient {
    limit: f64,
    long: f64,
    samples: f64,
    means: Means,
}

impl DriftingGradient {
    pub(crate) fn new() -> Self {
        Self { limit: 20.0, long: 0.0, samples: 0.0, means: Means::default() }
    }
}

impl Rule for DriftingGradient {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, now: f64, latency: f64, in_flight: u32, _: End) {
        let Some(latency) = self.means.of_every(0.1, now, latency) else { return };
        self.samples += 1.0;
        let weight = if self.samples <= 10.0 { 1.0 / self.samples } else { 2.0 / 601.0 };
        self.long += (latency - self.long) * weight;
        if self.long / latency > 2.0 {
            self.long *= 0.95;
        }
        if f64::from(in_flight) < self.limit / 2.0 {
            return;
        }
        let gradient = (1.5 * self.long / latency).clamp(0.5, 1.0);
        self.limit = (self.limit * 0.8 + (self.limit * gradient + 4.0) * 0.2).clamp(1.0, 10_000.0);
    }
}
