//! Who is told of the changes of a breaker that a layer made.

use crate::telemetry::{BreakerTelemetry, StateGauge};
use alloc::sync::Arc;
use core::fmt;
use damper_core::breaker::{OnStateChange, StateChange};

/// A function that is told of changes, and of which host's breaker.
pub(super) type Hook = Arc<dyn Fn(StateChange, &str) + Send + Sync>;

/// Who is told of the breakers of a layer.
pub(super) struct Listeners {
    hook: Option<Hook>,
    pub(super) telemetry: BreakerTelemetry,
}

impl Listeners {
    /// Nobody, of the layer with the default name.
    pub(super) fn none() -> Self {
        Self { hook: None, telemetry: BreakerTelemetry::new("default") }
    }

    /// The same, and this function.
    pub(super) fn and(&self, hook: Hook) -> Self {
        Self { hook: Some(hook), telemetry: BreakerTelemetry::new(self.telemetry.name()) }
    }

    /// The same, of a layer with another name.
    pub(super) fn named(&self, name: &str) -> Self {
        Self { hook: self.hook.clone(), telemetry: BreakerTelemetry::new(name) }
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners").field("name", &self.telemetry.name()).finish_non_exhaustive()
    }
}

/// Tells of the changes of a breaker, with the host that it stands before.
#[derive(Debug)]
pub struct HostListener {
    host: Arc<str>,
    listeners: Arc<Listeners>,
    gauge: StateGauge,
}

impl HostListener {
    pub(super) fn new(host: &str, listeners: &Arc<Listeners>) -> Self {
        Self { host: host.into(), listeners: Arc::clone(listeners), gauge: StateGauge::default() }
    }
}

impl OnStateChange for HostListener {
    fn on_state_change(&self, change: StateChange) {
        self.listeners.telemetry.changed(&self.host, change, &self.gauge);
        if let Some(hook) = &self.listeners.hook {
            hook(change, &self.host);
        }
    }
}

impl Drop for HostListener {
    fn drop(&mut self) {
        self.gauge.take_back(self.listeners.telemetry.name());
    }
}
