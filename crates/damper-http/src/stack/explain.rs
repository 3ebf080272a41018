//! The parts of stacks that can say what they would do.

use super::part::{GatePart, LayerPart};
use super::{AttemptTimeoutLayer, ExplainedPart, NoPart, PartOutcome};
#[cfg(feature = "tokio")]
use super::{DeadlinePart, PacingPart};
use crate::circuit_breaker::CircuitBreakerLayer;
use crate::concurrency::{ClientConcurrencyLayer, ConcurrencyLayer};
use crate::criticality::{CallClass, ClientCriticalityLayer, CriticalityLayer};
use crate::deadline::{ClientDeadlineLayer, DeadlineLayer};
use crate::limit::{Limit, NoWait};
use crate::pacing::PacingLayer;
use crate::rate_limit::{MarkingLayer, RateLimitLayer};
use crate::rewrite::{OptionalRewrite, Rewrite};
use crate::throttle::ThrottleLayer;
use crate::{ClientGate, Head};
use alloc::format;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::{Ask, Gate};
use damper_core::internal::{Human, exceeded};
use damper_tower::GateLayer;
use damper_tower::internal::Stand;
use http::Request;

/// A part of a stack that says what it would do with a request.
///
/// Implement it for a layer of your own, so that [`ServerStack::explain`](crate::ServerStack::explain) and
/// [`ClientStack::explain`](crate::ClientStack::explain) can ask it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot say what it would do with a request",
    note = "implement `damper::http::Explain` for a layer of your own"
)]
pub trait Explain {
    /// Returns what this part would do now with a request of this head; `None` if there is no part.
    ///
    /// It takes and counts nothing. It changes the head as the part would change it for the parts inside.
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart>;
}

impl Explain for NoPart {
    fn explain(&self, _: &mut Request<()>) -> Option<ExplainedPart> {
        None
    }
}

impl<L: Explain> Explain for OptionalRewrite<L> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        self.get()?.explain(request)
    }
}

impl Explain for CriticalityLayer {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        self.rewrite(request);
        Some(explain_class(&CallClass::of(&Head::of(request))))
    }
}

impl Explain for ClientCriticalityLayer {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        self.rewrite(request);
        let class = self.class_of(request.extensions());
        let unnamed = || ExplainedPart::new(PartOutcome::Passes).with_detail("no class is sent");
        Some(class.as_ref().map_or_else(unnamed, explain_class))
    }
}

fn explain_class(class: &CallClass) -> ExplainedPart {
    let detail = match class.tenant_name() {
        Some(tenant) => format!("{}, tenant {tenant}", class.criticality()),
        None => format!("{}, without a tenant", class.criticality()),
    };
    ExplainedPart::new(PartOutcome::Passes).with_detail(detail)
}

impl<S> Explain for DeadlineLayer<S> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        let deadline = self.forecast(&Head::of(request));
        Some(explain_deadline(deadline, Duration::ZERO, request))
    }
}

impl<S> Explain for ClientDeadlineLayer<S> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        let (deadline, margin) = self.forecast(&Head::of(request));
        Some(explain_deadline(deadline, margin, request))
    }
}

/// Explains a deadline of which a margin is withheld, and gives it to the request.
fn explain_deadline(deadline: Deadline, margin: Duration, request: &mut Request<()>) -> ExplainedPart {
    request.extensions_mut().insert(deadline);
    if deadline.is_never() {
        return ExplainedPart::new(PartOutcome::Passes).with_detail("without a deadline");
    }
    if deadline.remaining() <= margin {
        return ExplainedPart::new(PartOutcome::Refuses).with_detail(format!("{}", exceeded(&deadline)));
    }
    ExplainedPart::new(PartOutcome::Passes).with_detail(format!("{} given", Human(deadline.specified())))
}

impl<L: Limit> Explain for RateLimitLayer<L> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        let head = Head::of(request).with_peer(self.peer.as_ref());
        Some(ExplainedPart::by_gate(&self.settings.forecast(&head)).named(self.settings.name()))
    }
}

impl<L: Limit<Future = NoWait>> Explain for MarkingLayer<L> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        Some(self.forecast_and_mark(request))
    }
}

impl<L: Gate + for<'a> Ask<Head<'a>>, V> Explain for ConcurrencyLayer<L, V> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        Some(ExplainedPart::by_gate(&self.forecast(&Head::of(request))))
    }
}

impl<L: Explain> Explain for LayerPart<L> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        self.0.explain(request)
    }
}

impl<L: Explain> Explain for GatePart<L> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        self.0.explain(request)
    }
}

#[cfg(feature = "tokio")]
impl<Z> Explain for DeadlinePart<Z> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        self.0.explain(request)
    }
}

#[cfg(feature = "tokio")]
impl<L: Explain> Explain for PacingPart<L> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        self.0.explain(request)
    }
}

impl<G: for<'a> Ask<Head<'a>>, W, O> Explain for ClientGate<G, W, O> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        Some(ExplainedPart::by_gate(&self.gate.forecast(&Head::of(request))))
    }
}

impl<X: Stand<Gate: for<'a> Ask<Head<'a>>>> Explain for GateLayer<X> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        Some(ExplainedPart::by_gate(&self.gate().forecast(&Head::of(request))))
    }
}

/// Explains a layer by its gate.
macro_rules! explain_by_gate {
    ($($layer:ident),*) => {$(
        impl<G: for<'a> Ask<Head<'a>>, V> Explain for $layer<G, V> {
            fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
                self.side().explain(request)
            }
        }
    )*};
}

explain_by_gate!(CircuitBreakerLayer, ThrottleLayer, ClientConcurrencyLayer);

/// Its pacer decides at the call how long it sleeps.
impl<T, H, M> Explain for PacingLayer<T, H, M> {
    fn explain(&self, _: &mut Request<()>) -> Option<ExplainedPart> {
        Some(ExplainedPart::new(PartOutcome::Unknown).with_detail("the pacer decides at the call"))
    }
}

impl<Z> Explain for AttemptTimeoutLayer<Z> {
    fn explain(&self, _: &mut Request<()>) -> Option<ExplainedPart> {
        let detail = format!("{} given", Human(self.timeout()));
        Some(ExplainedPart::new(PartOutcome::Passes).with_detail(detail))
    }
}
