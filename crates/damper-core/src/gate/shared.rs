//! A gate that calls share by a pointer.

use super::{AnswerOf, Ask, Forecast, Gate};
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

/// A gate in an `Arc`, which clones of this handle share.
///
/// The primitives of damper are gates in an `Arc` themselves. This is for gates that cannot be cloned, such as a
/// [`Shadowed`](crate::shadow::Shadowed), or one of yours.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::gate::{Ask, Shared};
/// use damper::shadow::Shadowed;
/// use damper::{Bulkhead, ManualClock};
/// use std::sync::Arc;
///
/// let pool = |slots| Arc::new(Bulkhead::with_clock(slots, ManualClock::new()));
/// let gate = Shared::new(Shadowed::new(pool(64), pool(1)));
/// let of_a_service = gate.clone();
/// let _first = of_a_service.ask("a call");
/// assert!(of_a_service.ask("another call").is_pass());
/// assert_eq!(gate.report().only_by_candidate, 1);
/// ```
pub struct Shared<G>(Arc<G>);

impl<G> Shared<G> {
    /// Shares this gate.
    pub fn new(gate: G) -> Self {
        Self(Arc::new(gate))
    }
}

impl<G> Deref for Shared<G> {
    type Target = G;

    #[inline]
    fn deref(&self) -> &G {
        &self.0
    }
}

impl<G: Gate> Gate for Shared<G> {
    type Permit = G::Permit;
    type Refusal = G::Refusal;
    type Wait = G::Wait;

    super::refuses_as! { 0 }
}

impl<Q: ?Sized, G: Ask<Q>> Ask<Q> for Shared<G> {
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        self.0.ask(call)
    }

    fn forecast(&self, call: &Q) -> Forecast<G::Refusal> {
        self.0.forecast(call)
    }
}

impl<G> Clone for Shared<G> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<G: fmt::Debug> fmt::Debug for Shared<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
