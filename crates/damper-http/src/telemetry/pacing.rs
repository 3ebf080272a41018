//! Counts and logs what pacing layers do.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

#[cfg(feature = "tracing")]
use super::log_sampler::{LogSampler, Sample, millis};
#[cfg(any(feature = "metrics", feature = "tracing"))]
use alloc::{borrow::ToOwned, string::String, sync::Arc};
use core::fmt::Display;
use core::time::Duration;

#[cfg(feature = "metrics")]
use {
    damper_metrics::Metric,
    damper_metrics::catalogue::{PACING_CALLS, PACING_REFUSED, PACING_REJECTED, PACING_SLEEP},
    metrics::{Counter, Histogram, counter, histogram},
    std::sync::OnceLock,
};

/// Counts and logs what a pacing layer does.
#[derive(Clone, Debug)]
pub struct PacingTelemetry {
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    layer: Arc<PacersOfLayer>,
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
#[derive(Debug)]
struct PacersOfLayer {
    name: String,
    /// Looked up at their first use, because until then no recorder may be installed.
    #[cfg(feature = "metrics")]
    metrics: OnceLock<PacingMetrics>,
    #[cfg(feature = "tracing")]
    refusals: LogSampler,
    #[cfg(feature = "tracing")]
    rejections: LogSampler,
}

#[cfg(feature = "metrics")]
struct PacingMetrics {
    calls: Counter,
    refused: Counter,
    rejected: Counter,
    sleeps: Histogram,
}

impl PacingTelemetry {
    /// Creates the telemetry of the layer of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            layer: Arc::new(PacersOfLayer {
                name: name.to_owned(),
                #[cfg(feature = "metrics")]
                metrics: OnceLock::new(),
                #[cfg(feature = "tracing")]
                refusals: LogSampler::default(),
                #[cfg(feature = "tracing")]
                rejections: LogSampler::default(),
            }),
        }
    }

    /// Returns the name of the layer.
    #[cfg(feature = "metrics")]
    pub(crate) fn name(&self) -> &str {
        &self.layer.name
    }

    #[cfg(feature = "metrics")]
    fn metrics(&self) -> &PacingMetrics {
        self.layer.metrics.get_or_init(|| {
            let of = |metric: Metric| counter!(metric.name(), "pacing" => self.layer.name.clone());
            PacingMetrics {
                calls: of(PACING_CALLS),
                refused: of(PACING_REFUSED),
                rejected: of(PACING_REJECTED),
                sleeps: histogram!(PACING_SLEEP.name(), "pacing" => self.layer.name.clone()),
            }
        })
    }

    /// Records a call that is made at once.
    #[inline]
    pub fn record_unslept(&self) {
        #[cfg(feature = "metrics")]
        self.metrics().calls.increment(1);
    }

    /// Records a call that sleeps before it is made.
    pub fn record_slept(&self, sleep: Duration) {
        self.record_unslept();
        #[cfg(feature = "metrics")]
        self.metrics().sleeps.record(sleep);
    }

    /// Records a call that is not made, because it would have to sleep for this time.
    pub fn record_refused(&self, sleep: Duration, refusal: impl Display) {
        #[cfg(feature = "metrics")]
        self.metrics().refused.increment(1);
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG)
            && let Some(Sample { suppressed, .. }) = self.layer.refusals.sample()
        {
            let (name, retry_after_ms) = (&self.layer.name, millis(sleep));
            tracing::debug!(target: "damper", pacing = name, retry_after_ms, suppressed, "{refusal}");
        }
    }

    /// Records a rejected response, and the sleep before the call is made again, if it is.
    pub fn record_rejected(&self, sleep: Option<Duration>) {
        #[cfg(feature = "metrics")]
        self.metrics().rejected.increment(1);
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG)
            && let Some(Sample { suppressed, .. }) = self.layer.rejections.sample()
        {
            let (name, sleep_ms) = (&self.layer.name, sleep.map(millis));
            tracing::debug!(target: "damper", pacing = name, sleep_ms, suppressed, "rejected by the server's limit");
        }
    }
}

#[cfg(feature = "metrics")]
impl core::fmt::Debug for PacingMetrics {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PacingMetrics").finish_non_exhaustive()
    }
}
