//! The limit and the settings that all services of a server's layer share.

use crate::Head;
use crate::completion::MinBudget;
use crate::rate_limit::refusal_body::RefusalBody;
use crate::telemetry::{Kind, Telemetry};
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use damper_core::Reads;
use damper_core::gate::{Exempt, Gate, Shared};

/// The limit and the settings, in one `Arc`, because a service is cloned for each request.
pub(super) struct SharedSettings<L: Gate> {
    pub(super) gate: LimitGate<L>,
    pub(super) settings: ServerSettings<L::Refusal>,
}

/// The gate of a server's layer, which exempt requests pass without a permit.
pub(super) type LimitGate<L> = Exempt<Shared<L>, Exemptions>;

/// The requests that are exempt, if any are.
#[derive(Clone)]
pub struct Exemptions(Option<Arc<Predicate>>);

/// Says whether a request is exempt.
type Predicate = dyn Fn(&Head<'_>) -> bool + Send + Sync;

impl Exemptions {
    /// Exempts the requests for which this predicate is true.
    pub(super) fn of(predicate: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(predicate)))
    }
}

impl fmt::Debug for Exemptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exemptions").field(&self.0.is_some()).finish()
    }
}

impl Reads<Head<'_>, bool> for Exemptions {
    #[inline]
    fn read_from(&self, head: &Head<'_>) -> bool {
        self.0.as_ref().is_some_and(|is_exempt| is_exempt(head))
    }
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

impl<L: Gate> SharedSettings<L> {
    /// Creates the default settings with this limit.
    pub(super) fn new(limit: L) -> Self {
        let settings = ServerSettings {
            retry_after: Duration::from_secs(1),
            body: RefusalBody::Text,
            min_budget: MinBudget::of_gate(),
            stall_limit: None,
            telemetry: Telemetry::new(Kind::ServerConcurrency, "default"),
        };
        Self { gate: Exempt::new(Shared::new(limit), Exemptions(None)), settings }
    }
}

/// Clones share the limit.
impl<L: Gate> Clone for SharedSettings<L> {
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
