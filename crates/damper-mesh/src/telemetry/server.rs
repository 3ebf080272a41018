//! Counts and logs the decisions of a service's limits.

use crate::document::shortened;
use crate::scopes::{Caller, ScopesDenied};
use damper_http::internal::{Event, Kind, RefusalDetails, Telemetry};

/// Counts and logs the decisions of a layer's limits, and the calls that its deadlines end.
#[derive(Clone, Debug)]
pub(crate) struct ServerTelemetry {
    pub(crate) deadlines: Telemetry,
    limits: Telemetry,
}

impl ServerTelemetry {
    /// Creates the telemetry of the layer of a service with this name.
    pub(crate) fn new(name: &str) -> Self {
        Self { deadlines: Telemetry::new(Kind::ServerDeadline, name), limits: Telemetry::new(Kind::Limit, name) }
    }

    /// Records that a request passed all of its limits.
    #[inline]
    pub(crate) fn record_allowed(&self) {
        self.limits.count(Event::Allowed);
    }

    /// Records that a limit refused a request.
    #[cold]
    pub(crate) fn record_refused(&self, http: &http::Request<()>, caller: Caller<'_>, denied: &ScopesDenied) {
        let refused = || RefusalDetails {
            method: Some(http.method().as_str()),
            path: Some(http.uri().path()),
            function: Some(shortened(caller.called())),
            scope: Some(denied.scope().name()),
            retry_after: denied.retry_after(),
            quota: Some(denied.quota()),
            ..RefusalDetails::default()
        };
        self.limits.record_refused_key(denied, refused, || caller.key_of(denied.scope()).map(str::to_owned));
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
