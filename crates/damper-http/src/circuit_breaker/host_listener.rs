//! The listeners of the breakers that `Single` and `PerHost` create.

use crate::telemetry::{Kind, Telemetry};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use damper_core::breaker::{OnStateChange, StateChange};
#[cfg(feature = "metrics")]
use {alloc::borrow::ToOwned, damper_metrics::TransitionCounter};

/// A callback for state changes, with the host of the breaker.
type StateChangeCallback = Box<dyn Fn(StateChange, &str) + Send + Sync>;

/// The metrics and logs that all breakers of one name report to.
pub(super) struct LayerListener {
    callback: Option<StateChangeCallback>,
    pub(super) telemetry: Telemetry,
    #[cfg(feature = "metrics")]
    transitions: TransitionCounter,
}

impl LayerListener {
    /// Creates a listener with the default name and without a callback.
    pub(super) fn unnamed() -> Self {
        Self::of(None, "default")
    }

    /// Returns the listener with this callback.
    pub(super) fn with_callback(self, callback: impl Fn(StateChange, &str) + Send + Sync + 'static) -> Self {
        Self { callback: Some(Box::new(callback)), ..self }
    }

    /// Returns the listener with this name.
    pub(super) fn named(self, name: &str) -> Self {
        Self::of(self.callback, name)
    }

    fn of(callback: Option<StateChangeCallback>, name: &str) -> Self {
        Self {
            callback,
            telemetry: Telemetry::new(Kind::Breaker, name),
            #[cfg(feature = "metrics")]
            transitions: TransitionCounter::new(name.to_owned()),
        }
    }
}

impl fmt::Debug for LayerListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerListener").field("telemetry", &self.telemetry).finish_non_exhaustive()
    }
}

/// Reports the state changes of a breaker, with its host, to logs, metrics and the callback.
#[derive(Debug)]
pub struct HostListener {
    host: Arc<str>,
    layer: Arc<LayerListener>,
}

impl HostListener {
    pub(super) fn new(host: &str, layer: &Arc<LayerListener>) -> Self {
        Self { host: host.into(), layer: Arc::clone(layer) }
    }
}

impl OnStateChange for HostListener {
    fn on_state_change(&self, change: StateChange) {
        #[cfg(feature = "metrics")]
        self.layer.transitions.on_state_change(change);
        self.layer.telemetry.record_change(&self.host, change);
        if let Some(callback) = &self.layer.callback {
            callback(change, &self.host);
        }
    }
}
