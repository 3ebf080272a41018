//! The parts of a server's stack that can say what they would do.

use super::{ExplainedPart, NoPart, PartOutcome};
use crate::Head;
use crate::concurrency::ConcurrencyLayer;
use crate::criticality::{CallClass, CriticalityLayer};
use crate::deadline::DeadlineLayer;
use crate::limit::{Limit, NoWait};
use crate::rate_limit::{MarkingLayer, RateLimitLayer};
use crate::rewrite::Rewrite;
use alloc::format;
use damper_core::gate::{Ask, Gate};
use http::Request;

/// A part of a server's stack that says what it would do with a request.
///
/// Implement it for a layer of your own, so that [`ServerStack::explain`](crate::ServerStack::explain) can ask it.
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

impl Explain for CriticalityLayer {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        self.rewrite(request);
        let class = CallClass::of(&Head::of(request));
        let detail = match class.tenant_name() {
            Some(tenant) => format!("{}, tenant {tenant}", class.criticality()),
            None => format!("{}, without a tenant", class.criticality()),
        };
        Some(ExplainedPart::new(PartOutcome::Passes).with_detail(detail))
    }
}

impl<S> Explain for DeadlineLayer<S> {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        let deadline = self.forecast(&Head::of(request));
        let part = match deadline.check() {
            Err(exceeded) => ExplainedPart::new(PartOutcome::Refuses).with_detail(format!("{exceeded}")),
            Ok(()) if deadline.is_never() => ExplainedPart::new(PartOutcome::Passes).with_detail("without a deadline"),
            Ok(()) => {
                let left = damper_core::internal::Human(deadline.specified());
                ExplainedPart::new(PartOutcome::Passes).with_detail(format!("{left} given"))
            }
        };
        request.extensions_mut().insert(deadline);
        Some(part)
    }
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
