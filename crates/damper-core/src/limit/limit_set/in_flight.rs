//! Bounds on the calls in flight of a set.

use super::LimitSetDenied;
use crate::limit::algorithm::sealed::Sealed;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;

/// A bound on the calls in flight of a [`LimitSet`](super::LimitSet).
///
/// It is a [`Bulkhead`](crate::Bulkhead), a reference to one, an `Arc` of one, or the
/// [queue](crate::concurrency::SetQueue) of a set around any of these. The unit `()` stands for no bound.
///
/// Other crates cannot implement the trait, and its name is not part of the API.
pub trait InFlight: Sealed {
    /// The error of a call that a limit of the set or this bound refused.
    type Refusal: From<LimitSetDenied>;

    /// Returns the refusal of a call that would enter now, if any, and writes nothing.
    #[doc(hidden)]
    fn refusal(&self) -> Option<Self::Refusal>;

    /// Takes a slot.
    #[doc(hidden)]
    fn enter(&self) -> Result<(), Self::Refusal>;

    /// Frees a slot.
    #[doc(hidden)]
    fn leave(&self);

    /// Wakes the first waiting call, after a quota was changed or tokens were refunded.
    #[doc(hidden)]
    fn limits_changed(&self) {}
}

impl Sealed for () {}

/// A set without a bulkhead has the bound `()`, which refuses no call.
impl InFlight for () {
    type Refusal = LimitSetDenied;

    #[inline]
    fn refusal(&self) -> Option<LimitSetDenied> {
        None
    }

    #[inline]
    fn enter(&self) -> Result<(), LimitSetDenied> {
        Ok(())
    }

    #[inline]
    fn leave(&self) {}
}

/// Implements [`InFlight`] for a pointer to a bound.
macro_rules! in_flight_by_pointer {
    ($(#[$attribute:meta])* $pointer:ty) => {
        $(#[$attribute])*
        impl<P: InFlight> Sealed for $pointer {}

        $(#[$attribute])*
        impl<P: InFlight> InFlight for $pointer {
            type Refusal = P::Refusal;

            #[inline]
            fn refusal(&self) -> Option<P::Refusal> {
                (**self).refusal()
            }

            #[inline]
            fn enter(&self) -> Result<(), P::Refusal> {
                (**self).enter()
            }

            #[inline]
            fn leave(&self) {
                (**self).leave();
            }

            fn limits_changed(&self) {
                (**self).limits_changed();
            }
        }
    };
}

in_flight_by_pointer!(&P);
in_flight_by_pointer!(
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    Arc<P>
);
