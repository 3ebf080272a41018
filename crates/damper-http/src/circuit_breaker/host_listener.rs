//! The listeners of the breakers that a layer creates.

use crate::telemetry::{BreakerTelemetry, StateGauge};
use alloc::sync::Arc;
use core::fmt;
use damper_core::breaker::{OnStateChange, StateChange};

/// A callback for state changes, with the host of the breaker.
pub(super) type StateChangeCallback = Arc<dyn Fn(StateChange, &str) + Send + Sync>;

/// What all breakers of a layer report to.
pub(super) struct LayerListener {
    callback: Option<StateChangeCallback>,
    pub(super) telemetry: BreakerTelemetry,
}

impl LayerListener {
    /// Creates the listener of a layer with the default name and without a callback.
    pub(super) fn unnamed() -> Self {
        Self { callback: None, telemetry: BreakerTelemetry::new("default") }
    }

    /// Returns a listener with this callback.
    pub(super) fn with_callback(&self, callback: StateChangeCallback) -> Self {
        Self { callback: Some(callback), telemetry: BreakerTelemetry::new(self.telemetry.name()) }
    }

    /// Returns a listener with another name.
    pub(super) fn named(&self, name: &str) -> Self {
        Self { callback: self.callback.clone(), telemetry: BreakerTelemetry::new(name) }
    }
}

impl fmt::Debug for LayerListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerListener").field("name", &self.telemetry.name()).finish_non_exhaustive()
    }
}

/// Reports the state changes of a breaker, with its host, to logs, metrics and the callback of its layer.
#[derive(Debug)]
pub struct HostListener {
    host: Arc<str>,
    layer: Arc<LayerListener>,
    gauge: StateGauge,
}

impl HostListener {
    pub(super) fn new(host: &str, layer: &Arc<LayerListener>) -> Self {
        Self { host: host.into(), layer: Arc::clone(layer), gauge: StateGauge::default() }
    }
}

impl OnStateChange for HostListener {
    fn on_state_change(&self, change: StateChange) {
        self.layer.telemetry.record_change(&self.host, change, &self.gauge);
        if let Some(callback) = &self.layer.callback {
            callback(change, &self.host);
        }
    }
}

impl Drop for HostListener {
    fn drop(&mut self) {
        self.gauge.take_back(self.layer.telemetry.name());
    }
}
