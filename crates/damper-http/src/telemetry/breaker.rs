//! Counts and logs what breakers do.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

use alloc::borrow::ToOwned;
use alloc::string::String;
use damper_core::breaker::{CircuitOpen, State, StateChange};

#[cfg(feature = "metrics")]
use {
    core::sync::atomic::{AtomicI32, Ordering},
    metrics::{Counter, counter, gauge},
    std::sync::OnceLock,
};

/// Counts and logs what the breakers of a layer do.
#[derive(Debug)]
pub(crate) struct BreakerTelemetry {
    name: String,
    /// Looked up at their first use, because until then no recorder may be installed.
    #[cfg(feature = "metrics")]
    counters: OnceLock<BreakerCounters>,
}

#[cfg(feature = "metrics")]
#[derive(Debug)]
struct BreakerCounters {
    allowed: Counter,
    refused: Counter,
    probes: Counter,
    evictions: Counter,
    kept_evictions: Counter,
}

impl BreakerTelemetry {
    /// Creates the telemetry of the layer of this name.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            #[cfg(feature = "metrics")]
            counters: OnceLock::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[cfg(feature = "metrics")]
    fn counters(&self) -> &BreakerCounters {
        self.counters.get_or_init(|| {
            let of = |name: &'static str| counter!(name, "breaker" => self.name.clone());
            BreakerCounters {
                allowed: of("damper_breaker_allowed_total"),
                refused: of("damper_breaker_refused_total"),
                probes: of("damper_breaker_probes_total"),
                evictions: of("damper_breaker_evictions_total"),
                kept_evictions: of("damper_breaker_kept_evictions_total"),
            }
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
        tracing::debug!(target: "damper", breaker = self.name, "{open}");
    }

    /// Records the evictions of hosts so far, and those among them of breakers that were worth keeping.
    pub(crate) fn record_evictions(&self, hosts: impl FnOnce() -> u64, kept: impl FnOnce() -> u64) {
        #[cfg(feature = "metrics")]
        {
            self.counters().evictions.absolute(hosts());
            self.counters().kept_evictions.absolute(kept());
        }
    }

    /// Records a state change.
    pub(crate) fn record_change(&self, host: &str, change: StateChange, gauge: &StateGauge) {
        #[cfg(feature = "metrics")]
        {
            gauge.add(&self.name, change.from(), -1);
            gauge.add(&self.name, change.to(), 1);
        }
        #[cfg(feature = "tracing")]
        {
            let (from, to, why) = (change.from(), change.to(), change.cause());
            tracing::info!(target: "damper", breaker = self.name, host, %from, %to, %why, "circuit changed its state");
        }
    }
}

/// The part of one breaker in the gauges of each state but closed.
#[derive(Debug, Default)]
pub(crate) struct StateGauge {
    #[cfg(feature = "metrics")]
    added: [AtomicI32; STATES.len()],
}

#[cfg(feature = "metrics")]
const STATES: [(State, &str); 5] = [
    (State::HalfOpen, "half_open"),
    (State::Open, "open"),
    (State::ForcedOpen, "forced_open"),
    (State::ForcedClosed, "forced_closed"),
    (State::Disabled, "disabled"),
];

#[cfg(feature = "metrics")]
impl StateGauge {
    fn add(&self, breaker: &str, state: State, number: i32) {
        let places = self.added.iter().zip(STATES);
        for (added, (_, label)) in places.filter(|(_, (of, _))| *of == state) {
            // ORDERING: Relaxed: the count is read only in `take_back`, which has exclusive access.
            added.fetch_add(number, Ordering::Relaxed);
            gauge!("damper_breaker_state", "breaker" => breaker.to_owned(), "state" => label)
                .increment(f64::from(number));
        }
    }
}

impl StateGauge {
    /// Subtracts what the breaker has added, because it is dropped.
    pub(crate) fn take_back(&mut self, breaker: &str) {
        #[cfg(feature = "metrics")]
        for (index, (state, _)) in STATES.into_iter().enumerate() {
            let added = *self.added[index].get_mut();
            if added != 0 {
                self.add(breaker, state, -added);
            }
        }
    }
}
