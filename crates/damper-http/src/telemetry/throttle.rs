//! Counts and logs what throttles do.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

use super::Observe;
#[cfg(feature = "tracing")]
use super::log_sampler::{LogSampler, Sample, millis};
use crate::Head;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use alloc::{borrow::ToOwned, string::String, sync::Arc};
use damper_core::gate::Refusal;
#[cfg(feature = "tracing")]
use damper_core::throttle::Throttled;

#[cfg(feature = "metrics")]
use {
    damper_metrics::Metric,
    damper_metrics::catalogue::{THROTTLE_ALLOWED, THROTTLE_REFUSED},
    metrics::{Counter, counter},
    std::sync::OnceLock,
};

/// Counts and logs what the throttles of a layer do.
#[derive(Clone, Debug)]
pub struct ThrottleTelemetry {
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    layer: Arc<ThrottlesOfLayer>,
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
#[derive(Debug)]
struct ThrottlesOfLayer {
    name: String,
    /// Looked up at their first use, because until then no recorder may be installed.
    #[cfg(feature = "metrics")]
    counters: OnceLock<ThrottleCounters>,
    #[cfg(feature = "tracing")]
    refusals: LogSampler,
}

#[cfg(feature = "metrics")]
#[derive(Debug)]
struct ThrottleCounters {
    allowed: Counter,
    refused: Counter,
}

impl ThrottleTelemetry {
    /// Creates the telemetry of the layer of this name.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            layer: Arc::new(ThrottlesOfLayer {
                name: name.to_owned(),
                #[cfg(feature = "metrics")]
                counters: OnceLock::new(),
                #[cfg(feature = "tracing")]
                refusals: LogSampler::default(),
            }),
        }
    }

    /// Returns the name of the layer.
    #[cfg(feature = "metrics")]
    pub(crate) fn name(&self) -> &str {
        &self.layer.name
    }

    #[cfg(feature = "metrics")]
    fn counters(&self) -> &ThrottleCounters {
        self.layer.counters.get_or_init(|| {
            let of = |metric: Metric| counter!(metric.name(), "throttle" => self.layer.name.clone());
            ThrottleCounters { allowed: of(THROTTLE_ALLOWED), refused: of(THROTTLE_REFUSED) }
        })
    }
}

impl<N: Refusal> Observe<N> for ThrottleTelemetry {
    #[inline]
    fn allowed(&self) {
        #[cfg(feature = "metrics")]
        self.counters().allowed.increment(1);
    }

    fn refused(&self, _: &Head<'_>, refusal: &N) {
        #[cfg(feature = "metrics")]
        self.counters().refused.increment(1);
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG)
            && let Some(Sample { suppressed, .. }) = self.layer.refusals.sample()
        {
            let name = &self.layer.name;
            let share_refused = Throttled::find_in(refusal).map(Throttled::share_refused);
            let retry_after_ms = refusal.retry_after().map(millis);
            tracing::debug!(
                target: "damper", throttle = name, share_refused, retry_after_ms, suppressed, "{refusal}"
            );
        }
    }
}
