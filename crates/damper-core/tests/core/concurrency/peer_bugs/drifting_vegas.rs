//! The latency is compared with the lowest latency of any call.
//!
//! So services whose calls differ starve. Now and then that lowest latency is replaced by that of an arbitrary call, so
//! it becomes the queue's. After Vegas of Netflix's concurrency-limits, issues 165 and 35.

use crate::concurrency::peer_bugs::peer::Rule;
use crate::concurrency::peer_bugs::service::End;

pub(crate) struct DriftingVegas {
    limit: f64,
    lowest: f64,
    since_probe: f64,
}

impl DriftingVegas {
    pub(crate) fn new() -> Self {
        Self { limit: 20.0, lowest: f64::INFINITY, since_probe: 0.0 }
    }
}

impl Rule for DriftingVegas {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, _: f64, latency: f64, in_flight: u32, _: End) {
        self.since_probe += 1.0;
        if self.since_probe >= 22.0 * self.limit {
            (self.since_probe, self.lowest) = (0.0, latency);
            return;
        }
        self.lowest = self.lowest.min(latency);
        if f64::from(in_flight) * 2.0 < self.limit {
            return;
        }
        let step = self.limit.log10().floor().max(1.0);
        let queue = (self.limit * (1.0 - self.lowest / latency)).ceil();
        if queue <= step {
            self.limit += 6.0 * step;
        } else if queue < 3.0 * step {
            self.limit += step;
        } else if queue > 6.0 * step {
            self.limit -= step;
        }
        self.limit = self.limit.clamp(1.0, 1_000.0);
    }
}
