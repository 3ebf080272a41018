//! Whether the service behind a breaker may be called.
//!
//! An open breaker refuses calls at once, so its caller must not wait for a service that is not ready. This is the order:
//!
//! | `poll_ready` finds | it | then `call` |
//! |---|---|---|
//! | a breaker that would let the call pass | polls the service | asks the breaker, and calls the service if that lets it pass |
//! | a breaker that would refuse the call | returns ready, without polling the service | refuses the call |
//! | breakers that are chosen by the request, such as one per host | polls the service | asks the request's breaker |
//!
//! - A service that is ready and is then not called stays ready: it keeps its reservation for the next call, whose
//!   `poll_ready` polls it again, as tower's contract allows. While the breaker is open it is not polled again.
//! - A service that was not polled is not called, even if the breaker would let the call pass by then (because the
//!   cooldown has ended since). That call is refused with a `retry_after` of zero, and takes no permit.
//! - A clone has no readiness.

use super::{BreakerRef, CircuitOpen, Permit};
use core::task::Poll;

/// The known readiness of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// Unknown since its last call.
    #[default]
    Unknown,
    /// The service is ready, and holds its reservation for a call.
    Ready,
    /// The service was not polled, because the breaker would refuse the call.
    Skipped,
}

impl Readiness {
    /// Polls the service's readiness by `poll`, unless every call would get `refusal` now.
    ///
    /// # Errors
    ///
    /// The error of the service's readiness.
    #[inline]
    pub fn poll<E>(
        &mut self,
        refusal: Option<CircuitOpen>,
        poll: impl FnOnce() -> Poll<Result<(), E>>,
    ) -> Poll<Result<(), E>> {
        if refusal.is_some() {
            if *self != Self::Ready {
                *self = Self::Skipped;
            }
            return Poll::Ready(Ok(()));
        }
        let polled = poll();
        *self = if matches!(polled, Poll::Ready(Ok(()))) { Self::Ready } else { Self::Unknown };
        polled
    }

    /// Acquires the permit for a call by `acquire` and uses up the readiness.
    ///
    /// For a service that was not polled it returns the refusal `skipped`.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`], from `acquire` or `skipped`.
    #[inline]
    pub fn try_acquire<B: BreakerRef>(
        &mut self,
        acquire: impl FnOnce() -> Result<Permit<B>, CircuitOpen>,
        skipped: impl FnOnce() -> CircuitOpen,
    ) -> Result<Permit<B>, CircuitOpen> {
        if *self == Self::Skipped {
            *self = Self::Unknown;
            return Err(skipped());
        }
        let permit = acquire();
        if permit.is_ok() {
            *self = Self::Unknown;
        }
        permit
    }
}
