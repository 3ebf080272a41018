//! To measure the unloaded latency, the rule pins the limit to 3, however large the service is.
//!
//! After Envoy's gradient controller, issue 46532.

use crate::concurrency::peer_bugs::peer::{Means, Rule};
use crate::concurrency::peer_bugs::service::End;

pub(crate) struct PinnedProbe {
    limit: f64,
    limit_before: f64,
    unloaded: f64,
    /// The number of calls of the probe so far, and the sum of their latencies.
    probe: Option<(u32, f64)>,
    last_probe: f64,
    means: Means,
}

const PINNED: f64 = 3.0;

impl PinnedProbe {
    pub(crate) fn new() -> Self {
        Self {
            limit: PINNED,
            limit_before: 20.0,
            unloaded: 0.0,
            probe: Some((0, 0.0)),
            last_probe: 0.0,
            means: Means::default(),
        }
    }
}

impl Rule for PinnedProbe {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, now: f64, latency: f64, in_flight: u32, _: End) {
        match self.probe {
            Some(_) if f64::from(in_flight) > PINNED => {}
            Some((49, sum)) => {
                self.unloaded = (sum + latency) / 50.0;
                (self.probe, self.limit, self.last_probe) = (None, self.limit_before, now);
            }
            Some((calls, sum)) => self.probe = Some((calls + 1, sum + latency)),
            None if now - self.last_probe >= 60.0 => {
                (self.probe, self.limit_before, self.limit) = (Some((0, 0.0)), self.limit, PINNED);
            }
            None => {
                if let Some(recent) = self.means.of_every(0.5, now, latency) {
                    let limit = self.limit * (self.unloaded * 1.25 / recent).clamp(0.5, 2.0);
                    self.limit = (limit + limit.sqrt()).clamp(PINNED, 1_000.0);
                }
            }
        }
    }
}
