//! The limit and the settings that all services of a server's layer share.

use super::Exempting;
use crate::completion::MinBudget;
use crate::rate_limit::refusal_body::RefusalBody;
use crate::telemetry::{Kind, Telemetry};
use alloc::sync::Arc;
use core::time::Duration;
use damper_core::gate::Gate;

/// The limit and the settings, in one `Arc`, because a service is cloned for each request.
pub(super) struct Shared<L: Gate> {
    pub(super) gate: Exempting<L>,
    pub(super) settings: ServerSettings<L::Refusal>,
}

/// The settings that all services of a layer share.
pub(super) struct ServerSettings<R> {
    pub(super) retry_after: Duration,
    pub(super) body: RefusalBody<R>,
    /// The time a call must be given before its end by the deadline is a sign of overload.
    pub(super) min_budget: MinBudget,
    /// The longest time for which a frame of a response may wait for its reader, if there is one.
    pub(super) stall_limit: Option<Duration>,
    pub(super) telemetry: Telemetry,
}

impl<L: Gate> Shared<L> {
    /// Creates the default settings with this limit.
    pub(super) fn new(limit: L) -> Self {
        let settings = ServerSettings {
            retry_after: Duration::from_secs(1),
            body: RefusalBody::Text,
            min_budget: MinBudget::of_gate(),
            stall_limit: None,
            telemetry: Telemetry::new(Kind::ServerConcurrency, "default"),
        };
        Self { gate: Exempting { limit: Arc::new(limit), is_exempt: None }, settings }
    }
}

/// Clones share the limit.
impl<L: Gate> Clone for Shared<L> {
    fn clone(&self) -> Self {
        Self { gate: self.gate.clone(), settings: self.settings.clone() }
    }
}

impl<R> Clone for ServerSettings<R> {
    fn clone(&self) -> Self {
        let Self { retry_after, body, min_budget, stall_limit, telemetry } = self;
        Self {
            retry_after: *retry_after,
            body: body.clone(),
            min_budget: min_budget.clone(),
            stall_limit: *stall_limit,
            telemetry: telemetry.clone(),
        }
    }
}
