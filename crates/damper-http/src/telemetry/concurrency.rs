//! Counts and logs what limits on the calls in flight decide.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

use crate::Head;
use crate::concurrency::ConcurrencyRefusal;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use alloc::{borrow::ToOwned, string::String, sync::Arc};
#[cfg(feature = "metrics")]
use {
    crate::concurrency::ConcurrencyStatus,
    damper_core::shadow::ShadowReport,
    metrics::{Counter, counter, gauge},
    std::sync::OnceLock,
};

/// Counts and logs what the limit of a layer decides.
#[derive(Clone, Debug)]
pub(crate) struct ConcurrencyTelemetry {
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
            }),
        }
    }

    /// Records that a request has its permit.
    #[inline]
    pub(crate) fn record_allowed(&self) {
        #[cfg(feature = "metrics")]
        {
            let LimitOfLayer { name, side, allowed } = &*self.layer;
            let of_layer = || counter!("damper_concurrency_allowed_total", "limit" => name.clone(), "side" => *side);
            allowed.get_or_init(of_layer).increment(1);
        }
    }

    /// Records that a request was refused.
    #[cold]
    pub(crate) fn record_refused(&self, head: &Head<'_>, refusal: &impl ConcurrencyRefusal) {
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        let LimitOfLayer { name, side, .. } = &*self.layer;
        #[cfg(feature = "metrics")]
        {
            let cause = refusal.cause_label();
            counter!("damper_concurrency_refused_total", "limit" => name.clone(), "side" => *side, "cause" => cause)
                .increment(1);
        }
        #[cfg(feature = "tracing")]
        {
            let (method, path) = (head.method.as_str(), head.uri.path());
            tracing::debug!(target: "damper", limit = name, side, method, path, "{refusal}");
        }
    }

    /// Records the refusals of the limit and of a candidate beside it.
    #[cfg(feature = "metrics")]
    pub(crate) fn record_shadow(&self, report: Option<ShadowReport>) {
        let LimitOfLayer { name, side, .. } = &*self.layer;
        let Some(ShadowReport { by_both, only_by_candidate, only_in_force, .. }) = report else { return };
        let of = |metric: &'static str, in_force: &'static str| counter!(metric, "limit" => name.clone(), "side" => *side, "in_force" => in_force);
        of("damper_concurrency_shadow_refused_total", "allowed").absolute(only_by_candidate);
        of("damper_concurrency_shadow_refused_total", "refused").absolute(by_both);
        of("damper_concurrency_shadow_allowed_total", "refused").absolute(only_in_force);
    }

    /// Records how much of the limit is in use.
    #[cfg(feature = "metrics")]
    pub(crate) fn record_status(&self, status: Option<ConcurrencyStatus>) {
        let LimitOfLayer { name, side, .. } = &*self.layer;
        if let Some(ConcurrencyStatus { limit, in_flight, queued }) = status {
            let of = |metric: &'static str| gauge!(metric, "limit" => name.clone(), "side" => *side);
            of("damper_concurrency_limit").set(limit);
            of("damper_concurrency_in_flight").set(in_flight);
            of("damper_concurrency_queued").set(queued);
        }
    }
}
