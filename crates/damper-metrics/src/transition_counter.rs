//! Counts the state changes of a breaker.

use crate::catalogue::BREAKER_TRANSITIONS;
use crate::sources::state_label;
use damper_core::breaker::{OnStateChange, StateChange};
use metrics::counter;
use std::borrow::Cow;

/// A listener that counts the state changes of a breaker, with the labels `from` and `to`.
///
/// A scrape sees only the state of its own moment. This sees each change.
///
/// # Examples
///
/// ```
/// use damper_core::{BreakerConfig, CircuitBreaker};
/// use damper_metrics::TransitionCounter;
///
/// let breaker = CircuitBreaker::new(BreakerConfig::default()).with_listener(TransitionCounter::new("payments"));
/// breaker.trip(); // damper_breaker_transitions_total{breaker="payments",from="closed",to="open"} 1
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitionCounter {
    name: Cow<'static, str>,
}

impl TransitionCounter {
    /// Creates a listener that counts under this name.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into() }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl OnStateChange for TransitionCounter {
    fn on_state_change(&self, change: StateChange) {
        let (from, to) = (state_label(change.from()), state_label(change.to()));
        counter!(BREAKER_TRANSITIONS.name(), "breaker" => self.name.clone(), "from" => from, "to" => to).increment(1);
    }
}
