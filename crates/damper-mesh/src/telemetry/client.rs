//! Counts and logs the pacing, the retries and the deadlines of a client's calls.
#![cfg_attr(not(feature = "metrics"), allow(unused_variables, clippy::unused_self))]

use crate::client::ClientError;
use damper_core::deadline::DeadlineExceeded;
use damper_core::limit::Denied;
use damper_core::retry::GaveUp;
use damper_http::internal::{DeadlineStage, Event, Kind, RefusalDetails, Telemetry};
use std::time::Duration;
#[cfg(feature = "metrics")]
use {
    damper_metrics::catalogue::{RETRY_NOT_MADE, RETRY_REQUESTS},
    metrics::{Counter, counter},
    std::sync::OnceLock,
};

/// Counts and logs the pacing, the retries and the deadlines of a client's calls.
#[derive(Debug)]
pub(crate) struct ClientTelemetry {
    pacing: Telemetry,
    deadlines: Telemetry,
    /// Looked up at its first use, because until then no recorder may be installed.
    #[cfg(feature = "metrics")]
    retried: OnceLock<Counter>,
}

impl ClientTelemetry {
    /// Creates the telemetry of the client of this name.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            pacing: Telemetry::new(Kind::Pacing, name),
            deadlines: Telemetry::new(Kind::ClientDeadline, name),
            #[cfg(feature = "metrics")]
            retried: OnceLock::new(),
        }
    }

    /// Returns the name of the client.
    #[cfg(feature = "metrics")]
    pub(crate) fn name(&self) -> &str {
        self.pacing.name()
    }

    /// Records a call whose first attempt is made after this sleep.
    #[inline]
    pub(crate) fn record_paced(&self, slept: Duration) {
        if slept.is_zero() {
            self.pacing.count(Event::Allowed);
        } else {
            self.pacing.record_slept(slept);
        }
    }

    /// Records a call that is not sent because of the service's limits, and returns its error.
    #[cold]
    pub(crate) fn refused(&self, denied: Denied) -> ClientError {
        let error = ClientError::Paced(denied);
        self.pacing.record_refused(&error, || RefusalDetails {
            retry_after: Some(denied.retry_after().unwrap_or_default()),
            ..RefusalDetails::default()
        });
        error
    }

    /// Records a call that its deadline ended, and returns its error.
    #[cold]
    pub(crate) fn exceeded(&self, stage: DeadlineStage, exceeded: DeadlineExceeded) -> ClientError {
        self.deadlines.record_exceeded(stage, &exceeded);
        ClientError::DeadlineExceeded(exceeded)
    }

    /// Records an attempt that the service's limits refused, and the sleep before the next one, if any.
    #[cold]
    pub(crate) fn record_rejected(&self, sleep: Option<Duration>) {
        self.pacing.record_rejected(sleep);
    }

    /// Records that a request is sent again.
    #[cold]
    pub(crate) fn record_retried(&self) {
        #[cfg(feature = "metrics")]
        self.retried.get_or_init(|| counter!(RETRY_REQUESTS.name(), "retry" => self.name().to_owned())).increment(1);
    }

    /// Records that a failed request is not sent again, unless its failure excludes a retry.
    #[cold]
    pub(crate) fn record_gave_up(&self, gave_up: &GaveUp) {
        #[cfg(feature = "metrics")]
        {
            let reason = match gave_up {
                GaveUp::Attempts => "attempts",
                GaveUp::Budget => "budget",
                GaveUp::Deadline { .. } => "deadline",
                GaveUp::Paced(_) => "pacing",
                // Waits that the service names are cut to the longest one, so none is too long.
                _ => return,
            };
            counter!(RETRY_NOT_MADE.name(), "retry" => self.name().to_owned(), "reason" => reason).increment(1);
        }
    }
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use super::*;

    #[test]
    fn unslept_call_allocates_nothing_after_the_first() {
        let telemetry = ClientTelemetry::new("orders");
        telemetry.record_paced(Duration::ZERO);
        let calls = || (0..1_000).for_each(|_| telemetry.record_paced(Duration::ZERO));
        assert_eq!(allocation_counter::measure(calls).count_total, 0);
    }
}
