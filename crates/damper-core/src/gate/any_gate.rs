//! A gate whose type is not known before the program runs.

use super::{AnswerOf, Ask, Forecast, Gate, Permit, Refusal, RefusalKind, Standing, Verdict};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::error::Error;
use core::fmt;
use core::pin::Pin;
use core::time::Duration;

/// Any gate that decides on calls of the type `Q`, as one type.
///
/// It is for configuration and for plug-ins. Each call allocates its permit, and each refusal and each wait is allocated too. Clones share the
/// gate.
///
/// `Q` is one type, so a call that borrows cannot be asked about: layers of HTTP, which ask about a `Head`, take no `AnyGate`. There an
/// [`Either`](super::Either) is a choice at run time.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::gate::{AnyGate, Ask};
/// use damper::{Bulkhead, ManualClock, Quota, RateLimiter};
/// use std::sync::Arc;
///
/// let gates: [AnyGate<str>; 2] = [
///     AnyGate::new(Arc::new(Bulkhead::with_clock(10, ManualClock::new()))),
///     AnyGate::new(Arc::new(RateLimiter::with_clock(Quota::per_second(10), ManualClock::new()))),
/// ];
/// assert!(gates.iter().all(|gate| gate.ask("/").is_pass()));
/// ```
pub struct AnyGate<Q: ?Sized>(Arc<dyn DynGate<Q> + Send + Sync>);

impl<Q: ?Sized> AnyGate<Q> {
    /// Puts `gate` behind a pointer.
    pub fn new<G>(gate: G) -> Self
    where
        G: Ask<Q> + Send + Sync + 'static,
        G::Permit: Send + 'static,
        G::Wait: Send + 'static,
    {
        Self(Arc::new(gate))
    }
}

impl<Q: ?Sized> Gate for AnyGate<Q> {
    type Permit = AnyPermit;
    type Refusal = AnyRefusal;
    type Wait = Pin<Box<dyn Future<Output = Result<AnyPermit, AnyRefusal>> + Send>>;

    fn refusal(&self) -> Option<AnyRefusal> {
        self.0.refusal()
    }

    fn refused_unasked(&self, refusal: &AnyRefusal) {
        self.0.refused_unasked(refusal);
    }
}

impl<Q: ?Sized> Ask<Q> for AnyGate<Q> {
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        self.0.ask(call)
    }

    fn forecast(&self, call: &Q) -> Forecast<AnyRefusal> {
        self.0.forecast(call)
    }
}

trait DynGate<Q: ?Sized> {
    fn ask(&self, call: &Q) -> AnswerOf<AnyGate<Q>>;
    fn forecast(&self, call: &Q) -> Forecast<AnyRefusal>;
    fn refusal(&self) -> Option<AnyRefusal>;
    fn refused_unasked(&self, refusal: &AnyRefusal);
}

impl<Q: ?Sized, G> DynGate<Q> for G
where
    G: Ask<Q>,
    G::Permit: Send + 'static,
    G::Wait: Send + 'static,
{
    fn ask(&self, call: &Q) -> AnswerOf<AnyGate<Q>> {
        Ask::ask(self, call).map(
            AnyPermit::new,
            |wait| Box::pin(async move { wait.await.map(AnyPermit::new).map_err(AnyRefusal::new) }) as _,
            AnyRefusal::new,
        )
    }

    fn forecast(&self, call: &Q) -> Forecast<AnyRefusal> {
        Ask::forecast(self, call).map(AnyRefusal::new)
    }

    fn refusal(&self) -> Option<AnyRefusal> {
        Gate::refusal(self).map(AnyRefusal::new)
    }

    fn refused_unasked(&self, refusal: &AnyRefusal) {
        if let Some(refusal) = refusal.0.as_any().downcast_ref() {
            Gate::refused_unasked(self, refusal);
        }
    }
}

/// The permit of an [`AnyGate`].
pub struct AnyPermit(Box<dyn DynPermit + Send>);

impl AnyPermit {
    fn new(permit: impl Permit + Send + 'static) -> Self {
        Self(Box::new(Some(permit)))
    }
}

impl Permit for AnyPermit {
    fn answered(&mut self, verdict: &Verdict) {
        self.0.answered(verdict);
    }

    fn first_data(&mut self) {
        self.0.first_data();
    }

    fn end(mut self, verdict: &Verdict) {
        self.0.end(verdict);
    }

    fn panicked(mut self) {
        self.0.panicked();
    }

    fn usual_latency(&self) -> Option<Duration> {
        self.0.usual_latency()
    }

    fn was_asked(&self) -> bool {
        self.0.was_asked()
    }
}

/// A permit that ends behind a pointer: it takes itself out of the `Option`.
trait DynPermit {
    fn answered(&mut self, verdict: &Verdict);
    fn first_data(&mut self);
    fn end(&mut self, verdict: &Verdict);
    fn panicked(&mut self);
    fn usual_latency(&self) -> Option<Duration>;
    fn was_asked(&self) -> bool;
}

impl<P: Permit> DynPermit for Option<P> {
    fn answered(&mut self, verdict: &Verdict) {
        Permit::answered(self, verdict);
    }

    fn first_data(&mut self) {
        Permit::first_data(self);
    }

    fn end(&mut self, verdict: &Verdict) {
        Permit::end(self.take(), verdict);
    }

    fn panicked(&mut self) {
        Permit::panicked(self.take());
    }

    fn usual_latency(&self) -> Option<Duration> {
        Permit::usual_latency(self)
    }

    fn was_asked(&self) -> bool {
        Permit::was_asked(self)
    }
}

/// The refusal of any gate: that of an [`AnyGate`], or one in a box.
///
/// Its message is that of the gate's refusal. [`source`](Error::source) is that refusal.
#[derive(Clone)]
pub struct AnyRefusal(Arc<dyn DynRefusal + Send + Sync>);

impl AnyRefusal {
    pub(super) fn new(refusal: impl Refusal) -> Self {
        Self(Arc::new(refusal))
    }
}

impl Refusal for AnyRefusal {
    fn kind(&self) -> RefusalKind {
        self.0.kind()
    }

    fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after()
    }

    fn standing(&self) -> Option<Standing> {
        self.0.standing()
    }

    fn label(&self) -> &'static str {
        self.0.label()
    }
}

impl fmt::Display for AnyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

crate::internal::debug_by_display!(AnyRefusal);

impl Error for AnyRefusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.as_error())
    }
}

/// A [`Refusal`] without `Clone`.
trait DynRefusal: fmt::Display {
    fn kind(&self) -> RefusalKind;
    fn retry_after(&self) -> Option<Duration>;
    fn standing(&self) -> Option<Standing>;
    fn label(&self) -> &'static str;
    fn as_error(&self) -> &(dyn Error + 'static);
    fn as_any(&self) -> &dyn Any;
}

impl<R: Refusal> DynRefusal for R {
    fn kind(&self) -> RefusalKind {
        Refusal::kind(self)
    }

    fn retry_after(&self) -> Option<Duration> {
        Refusal::retry_after(self)
    }

    fn standing(&self) -> Option<Standing> {
        Refusal::standing(self)
    }

    fn label(&self) -> &'static str {
        Refusal::label(self)
    }

    fn as_error(&self) -> &(dyn Error + 'static) {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<Q: ?Sized> Clone for AnyGate<Q> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Q: ?Sized> fmt::Debug for AnyGate<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyGate").finish_non_exhaustive()
    }
}

impl fmt::Debug for AnyPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyPermit").finish_non_exhaustive()
    }
}
