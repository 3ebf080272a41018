//! The baseline is a slow average of the latency, including that under load.
//!
//! In a long incident it becomes the incident's latency. After failsafe-go's adaptive limiter, issue 127.

use crate::concurrency::peer_bugs::peer::{Means, Rule};
use crate::concurrency::peer_bugs::service::End;

pub(crate) struct DriftingBaseline {
    limit: f64,
    baseline: Option<f64>,
    means: Means,
}

impl DriftingBaseline {
    pub(crate) fn new() -> Self {
        Self { limit: 20.0, baseline: None, means: Means::default() }
    }
}

impl Rule for DriftingBaseline {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, now: f64, latency: f64, in_flight: u32, _: End) {
        let Some(recent) = self.means.of_every(1.0, now, latency) else { return };
        let baseline = self.baseline.get_or_insert(recent);
        *baseline += (recent - *baseline) / 60.0;
        let step = self.limit.log10().max(1.0);
        let queue = self.limit * (1.0 - *baseline / recent);
        if queue > 6.0 * step {
            self.limit -= step;
        } else if queue < 3.0 * step && f64::from(in_flight) * 5.0 > self.limit {
            self.limit += step;
        }
        self.limit = self.limit.clamp(1.0, 200.0);
    }
}
