//! Counts and logs the decisions of a service's limits.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

use crate::scopes::{Caller, ScopesDenied};
use damper_http::internal::DeadlineTelemetry;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use std::sync::Arc;
#[cfg(feature = "metrics")]
use {
    crate::document::Scope,
    damper_metrics::catalogue::{LIMIT_ALLOWED, LIMIT_REFUSED},
    metrics::{Counter, counter},
    std::sync::OnceLock,
};
#[cfg(feature = "tracing")]
use {
    crate::document::shortened,
    damper_http::internal::{LogSampler, Sample, millis},
};

/// Counts and logs the decisions of a layer's limits, and the calls that its deadlines end.
#[derive(Clone, Debug)]
pub(crate) struct ServerTelemetry {
    pub(crate) deadlines: DeadlineTelemetry,
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    limits: Arc<LimitsOfLayer>,
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
#[derive(Debug)]
struct LimitsOfLayer {
    name: String,
    /// Looked up at its first use, because until then no recorder may be installed.
    #[cfg(feature = "metrics")]
    allowed: OnceLock<Counter>,
    /// Each scope's, looked up at its first refusal.
    #[cfg(feature = "metrics")]
    refused: [OnceLock<Counter>; 4],
    #[cfg(feature = "tracing")]
    refusals: LogSampler,
}

#[cfg(feature = "metrics")]
impl LimitsOfLayer {
    fn refused(&self, scope: Scope) -> &Counter {
        let index = match scope {
            Scope::Global => 0,
            Scope::Service => 1,
            Scope::Function => 2,
            Scope::User => 3,
        };
        self.refused[index]
            .get_or_init(|| counter!(LIMIT_REFUSED.name(), "limit" => self.name.clone(), "scope" => scope.name()))
    }
}

impl ServerTelemetry {
    /// Creates the telemetry of the layer of a service with this name.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            deadlines: DeadlineTelemetry::of_server(name),
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            limits: Arc::new(LimitsOfLayer {
                name: name.to_owned(),
                #[cfg(feature = "metrics")]
                allowed: OnceLock::new(),
                #[cfg(feature = "metrics")]
                refused: [const { OnceLock::new() }; 4],
                #[cfg(feature = "tracing")]
                refusals: LogSampler::default(),
            }),
        }
    }

    /// Records that a request passed all of its limits.
    #[inline]
    pub(crate) fn record_allowed(&self) {
        #[cfg(feature = "metrics")]
        {
            let LimitsOfLayer { name, allowed, .. } = &*self.limits;
            allowed.get_or_init(|| counter!(LIMIT_ALLOWED.name(), "limit" => name.clone())).increment(1);
        }
    }

    /// Records that a limit refused a request.
    #[cold]
    pub(crate) fn record_refused(&self, http: &http::Request<()>, caller: Caller<'_>, denied: &ScopesDenied) {
        #[cfg(feature = "metrics")]
        self.limits.refused(denied.scope()).increment(1);
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG)
            && let Some(Sample { key, suppressed }) =
                self.limits.refusals.sample_key(|| caller.key_of(denied.scope()).map(str::to_owned))
        {
            let (name, scope) = (&self.limits.name, denied.scope().name());
            let (method, path) = (http.method().as_str(), http.uri().path());
            let (function, key) = (shortened(caller.called()), key.as_deref().map(shortened));
            let (retry_after_ms, quota) = (denied.retry_after().map(millis), denied.quota());
            tracing::debug!(
                target: "damper", limit = name, scope, method, path, function, key, retry_after_ms, %quota, suppressed,
                "{denied}"
            );
        }
    }
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use super::*;

    #[test]
    fn allowed_request_allocates_nothing_after_the_first() {
        let telemetry = ServerTelemetry::new("orders-api");
        telemetry.record_allowed();
        let allocated = allocation_counter::measure(|| (0..1_000).for_each(|_| telemetry.record_allowed()));
        assert_eq!(allocated.count_total, 0);
    }
}
