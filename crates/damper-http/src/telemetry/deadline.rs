//! Counts and logs what deadlines cut off.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

#[cfg(feature = "tracing")]
use super::log_sampler::{LogSampler, Sample, millis};
#[cfg(any(feature = "metrics", feature = "tracing"))]
use alloc::{borrow::ToOwned, string::String, sync::Arc};
#[cfg(feature = "tracing")]
use core::sync::atomic::{AtomicU64, Ordering};
use damper_core::deadline::DeadlineExceeded;
#[cfg(feature = "metrics")]
use damper_metrics::catalogue::{DEADLINE_EXCEEDED, DEADLINE_SKEWED};

/// How far a call had come when its deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineStage {
    /// It arrived at the server.
    Arrival,
    /// It was to be sent by the client.
    Departure,
    /// Its response had not begun.
    Response,
    /// Its response had not ended.
    Body,
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
impl DeadlineStage {
    fn label(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Departure => "departure",
            Self::Response => "response",
            Self::Body => "body",
        }
    }
}

/// Counts and logs what the deadlines of a layer cut off.
///
/// All of it is rare, so that counters are looked up when they are needed.
#[derive(Clone, Debug)]
pub struct DeadlineTelemetry {
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    layer: Arc<DeadlinesOfLayer>,
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
#[derive(Debug)]
struct DeadlinesOfLayer {
    name: String,
    side: &'static str,
    #[cfg(feature = "tracing")]
    skewed: AtomicU64,
    #[cfg(feature = "tracing")]
    exceeded: LogSampler,
}

impl DeadlineTelemetry {
    /// Creates the telemetry of a server's layer of this name.
    #[must_use]
    pub fn of_server(name: &str) -> Self {
        Self::of("server", name)
    }

    /// Creates the telemetry of a client's layer of this name.
    #[must_use]
    pub fn of_client(name: &str) -> Self {
        Self::of("client", name)
    }

    fn of(side: &'static str, name: &str) -> Self {
        Self {
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            layer: Arc::new(DeadlinesOfLayer {
                name: name.to_owned(),
                side,
                #[cfg(feature = "tracing")]
                skewed: AtomicU64::new(0),
                #[cfg(feature = "tracing")]
                exceeded: LogSampler::default(),
            }),
        }
    }

    /// Records that a deadline ended a call at this stage.
    #[cold]
    pub fn record_exceeded(&self, stage: DeadlineStage, exceeded: &DeadlineExceeded) {
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        let (DeadlinesOfLayer { name, side, .. }, stage) = (&*self.layer, stage.label());
        #[cfg(feature = "metrics")]
        metrics::counter!(DEADLINE_EXCEEDED.name(), "deadline" => name.clone(), "side" => *side, "stage" => stage)
            .increment(1);
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG)
            && let Some(Sample { suppressed, .. }) = self.layer.exceeded.sample()
        {
            let (specified_ms, elapsed_ms) = (millis(exceeded.specified()), millis(exceeded.elapsed()));
            tracing::debug!(
                target: "damper", deadline = name, side, stage, specified_ms, elapsed_ms, suppressed, "{exceeded}"
            );
        }
    }

    /// Records that a request was served whose deadline had passed on arrival, because the clocks differ.
    #[cold]
    pub fn record_skewed(&self) {
        #[cfg(feature = "metrics")]
        metrics::counter!(DEADLINE_SKEWED.name(), "deadline" => self.layer.name.clone()).increment(1);
        #[cfg(feature = "tracing")]
        {
            // ORDERING: Relaxed: a count, through which nothing is published.
            let requests = self.layer.skewed.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            // All of them have the same cause: a clock that is wrong.
            if requests.is_power_of_two() {
                let name = &self.layer.name;
                tracing::warn!(target: "damper", deadline = name, requests, "deadlines are served that had passed on arrival: clocks differ");
            }
        }
    }
}
