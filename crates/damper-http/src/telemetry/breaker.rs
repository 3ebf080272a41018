//! Counts and logs what breakers do.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

#[cfg(feature = "tracing")]
use super::log_sampler::{LogSampler, Sample, millis};
use alloc::borrow::ToOwned;
use alloc::string::String;
use damper_core::breaker::{CircuitOpen, State, StateChange};

#[cfg(feature = "metrics")]
use {
    damper_core::breaker::OnStateChange,
    damper_metrics::catalogue::{BREAKER_ALLOWED, BREAKER_PROBES, BREAKER_REFUSED},
    damper_metrics::{Metric, TransitionCounter},
    metrics::{Counter, counter},
    std::sync::OnceLock,
};

/// Counts and logs what the breakers of a layer do.
#[derive(Debug)]
pub(crate) struct BreakerTelemetry {
    name: String,
    /// Looked up at their first use, because until then no recorder may be installed.
    #[cfg(feature = "metrics")]
    counters: OnceLock<BreakerCounters>,
    #[cfg(feature = "metrics")]
    transitions: TransitionCounter,
    #[cfg(feature = "tracing")]
    refusals: LogSampler,
}

#[cfg(feature = "metrics")]
#[derive(Debug)]
struct BreakerCounters {
    allowed: Counter,
    refused: Counter,
    probes: Counter,
}

impl BreakerTelemetry {
    /// Creates the telemetry of the layer of this name.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            #[cfg(feature = "metrics")]
            counters: OnceLock::new(),
            #[cfg(feature = "metrics")]
            transitions: TransitionCounter::new(name.to_owned()),
            #[cfg(feature = "tracing")]
            refusals: LogSampler::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[cfg(feature = "metrics")]
    fn counters(&self) -> &BreakerCounters {
        self.counters.get_or_init(|| {
            let of = |metric: Metric| counter!(metric.name(), "breaker" => self.name.clone());
            BreakerCounters { allowed: of(BREAKER_ALLOWED), refused: of(BREAKER_REFUSED), probes: of(BREAKER_PROBES) }
        })
    }

    /// Records a call and whether it passed. A call that passes is a probe if the `state` is half-open.
    #[inline]
    pub(crate) fn record_call<T>(&self, permit: &Result<T, CircuitOpen>, state: impl FnOnce() -> State) {
        match permit {
            Ok(_) => {
                #[cfg(feature = "metrics")]
                {
                    self.counters().allowed.increment(1);
                    self.counters().probes.increment(u64::from(state() == State::HalfOpen));
                }
            }
            Err(open) => self.record_refusal(open),
        }
    }

    /// Records a refused call.
    #[inline]
    pub(crate) fn record_refusal(&self, open: &CircuitOpen) {
        #[cfg(feature = "metrics")]
        self.counters().refused.increment(1);
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG)
            && let Some(Sample { suppressed, .. }) = self.refusals.sample()
        {
            let retry_after_ms = open.retry_after().map(millis);
            tracing::debug!(target: "damper", breaker = self.name, retry_after_ms, suppressed, "{open}");
        }
    }

    /// Records a state change.
    pub(crate) fn record_change(&self, host: &str, change: StateChange) {
        #[cfg(feature = "metrics")]
        self.transitions.on_state_change(change);
        #[cfg(feature = "tracing")]
        {
            let (from, to, why) = (change.from(), change.to(), change.cause());
            tracing::info!(target: "damper", breaker = self.name, host, %from, %to, %why, "circuit changed its state");
        }
    }
}
