//! An admission as a gate, which knows the class, the tenant and the deadline of each call.

use super::{AnswerOf, Ask, Forecast, Gate, Measured, Never};
use crate::Reads;
use crate::concurrency::{Admission, AdmissionPermit, AdmissionRequest, LimitRule, NotAdmitted};
use crate::time::Clock;
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc;

/// Makes a handle of an admission a gate, which decides on requests.
macro_rules! admission_gate {
    ($(#[$attribute:meta])* [$($generics:tt)*] $handle:ty, |$gate:ident, $request:ident| $admit:expr) => {
        $(#[$attribute])*
        impl<$($generics)*> Gate for $handle {
            type Permit = Measured<AdmissionPermit<Self>>;
            type Refusal = NotAdmitted;
            type Wait = Never<Self::Permit, NotAdmitted>;
        }

        $(#[$attribute])*
        impl<$($generics)*> Ask<AdmissionRequest> for $handle {
            #[inline]
            fn ask(&self, request: &AdmissionRequest) -> AnswerOf<Self> {
                let ($gate, $request) = (self, *request);
                $admit.map(Measured::from).into()
            }

            fn forecast(&self, request: &AdmissionRequest) -> Forecast<NotAdmitted> {
                Admission::refusal(self, *request).into()
            }
        }
    };
}

admission_gate!(['a, R: LimitRule, C: Clock] &'a Admission<R, C>, |gate, request| (*gate).try_acquire(request));
admission_gate!(#[cfg(target_has_atomic = "ptr")]
    [R: LimitRule, C: Clock] Arc<Admission<R, C>>, |gate, request| gate.try_acquire_owned(request));

/// An admission whose calls have the class, the tenant and the deadline that `F` says.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::ManualClock;
/// use damper::concurrency::{Admission, AdmissionRequest, Criticality};
/// use damper::gate::{Ask, Classes};
///
/// struct Call { is_batch: bool }
///
/// let admission = Admission::fixed_with_clock(100, ManualClock::new());
/// let gate = Classes::new(&admission, |call: &Call| {
///     AdmissionRequest::new().criticality(if call.is_batch { Criticality::Sheddable } else { Criticality::Critical })
/// });
/// assert!(gate.ask(&Call { is_batch: true }).is_pass());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Classes<G, F> {
    pub(super) gate: G,
    pub(super) class: F,
}

impl<G, F> Classes<G, F> {
    /// Creates a gate that admits each call as `class` says.
    pub const fn new(gate: G, class: F) -> Self {
        Self { gate, class }
    }

    /// Returns the admission.
    pub const fn get_ref(&self) -> &G {
        &self.gate
    }

    /// Returns what says the class of each call.
    pub const fn class_ref(&self) -> &F {
        &self.class
    }

    /// Returns what says the class of each call.
    pub const fn class_mut(&mut self) -> &mut F {
        &mut self.class
    }
}

impl<G: Gate, F> Gate for Classes<G, F> {
    type Permit = G::Permit;
    type Refusal = G::Refusal;
    type Wait = G::Wait;

    super::refuses_as! { gate }
}

impl<Q: ?Sized, G: Ask<AdmissionRequest>, F: Reads<Q, AdmissionRequest>> Ask<Q> for Classes<G, F> {
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        self.gate.ask(&self.class.read_from(call))
    }

    fn forecast(&self, call: &Q) -> Forecast<G::Refusal> {
        self.gate.forecast(&self.class.read_from(call))
    }
}
