//! The listener of the breakers that `Single` and `PerHost` create.

use crate::telemetry::{Kind, Telemetry};
use alloc::boxed::Box;
use core::fmt;
use damper_core::breaker::StateChange;
#[cfg(feature = "metrics")]
use {alloc::borrow::ToOwned, damper_core::breaker::OnStateChange, damper_metrics::TransitionCounter};

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

    /// Reports a change of the breaker of `host` to metrics, logs and the callback.
    pub(super) fn report(&self, change: StateChange, host: &str) {
        #[cfg(feature = "metrics")]
        self.transitions.on_state_change(change);
        self.telemetry.record_change(host, change);
        if let Some(callback) = &self.callback {
            callback(change, host);
        }
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
