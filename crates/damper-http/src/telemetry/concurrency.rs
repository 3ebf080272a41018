//! Counts and logs what limits on the calls in flight decide.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

use super::Observe;
#[cfg(feature = "tracing")]
use super::log_sampler::{LogSampler, Sample, millis};
use crate::Head;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use alloc::{borrow::ToOwned, string::String, sync::Arc};
use damper_core::gate::Refusal;
#[cfg(feature = "metrics")]
use {
    damper_metrics::Readings,
    damper_metrics::catalogue::{CONCURRENCY_ALLOWED, CONCURRENCY_REFUSED},
    metrics::{Counter, counter},
    std::sync::OnceLock,
};

/// Counts and logs what the limit of a layer decides.
#[derive(Clone, Debug)]
pub struct ConcurrencyTelemetry {
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    layer: Arc<LimitOfLayer>,
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
#[derive(Debug)]
struct LimitOfLayer {
    name: String,
    side: &'static str,
    /// Looked up at its first use, because until then no recorder may be installed.
    #[cfg(feature = "metrics")]
    allowed: OnceLock<Counter>,
    #[cfg(feature = "tracing")]
    refusals: LogSampler,
}

impl ConcurrencyTelemetry {
    /// Creates the telemetry of a server's layer of this name.
    pub(crate) fn of_server(name: &str) -> Self {
        Self::of("server", name)
    }

    /// Creates the telemetry of a client's layer of this name.
    pub(crate) fn of_client(name: &str) -> Self {
        Self::of("client", name)
    }

    fn of(side: &'static str, name: &str) -> Self {
        Self {
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            layer: Arc::new(LimitOfLayer {
                name: name.to_owned(),
                side,
                #[cfg(feature = "metrics")]
                allowed: OnceLock::new(),
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

    /// Returns these readings with the side of the layer as a label.
    #[cfg(feature = "metrics")]
    pub(crate) fn of_side<'a>(&self, readings: &Readings<'a>) -> Readings<'a> {
        readings.with("side", self.layer.side)
    }
}

impl<N: Refusal> Observe<N> for ConcurrencyTelemetry {
    #[inline]
    fn allowed(&self) {
        #[cfg(feature = "metrics")]
        {
            let LimitOfLayer { name, side, allowed, .. } = &*self.layer;
            let of_layer = || counter!(CONCURRENCY_ALLOWED.name(), "limit" => name.clone(), "side" => *side);
            allowed.get_or_init(of_layer).increment(1);
        }
    }

    #[cold]
    fn refused(&self, head: &Head<'_>, refusal: &N) {
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        let LimitOfLayer { name, side, .. } = &*self.layer;
        #[cfg(feature = "metrics")]
        {
            let cause = refusal.label();
            counter!(CONCURRENCY_REFUSED.name(), "limit" => name.clone(), "side" => *side, "cause" => cause)
                .increment(1);
        }
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG)
            && let Some(Sample { suppressed, .. }) = self.layer.refusals.sample()
        {
            let (method, path, cause) = (head.method.as_str(), head.uri.path(), refusal.label());
            let retry_after_ms = refusal.retry_after().map(millis);
            tracing::debug!(
                target: "damper", limit = name, side, method, path, cause, retry_after_ms, suppressed, "{refusal}"
            );
        }
    }
}
