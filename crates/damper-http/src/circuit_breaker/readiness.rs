//! Whether the service behind a breaker may be called.
//!
//! An open breaker refuses calls at once, so it must not wait for a service that is not ready. This is the order:
//!
//! | `poll_ready` finds | it | then `call` |
//! |---|---|---|
//! | a breaker that would let the call pass | polls the service | asks the breaker, and calls the service if that lets it pass |
//! | a breaker that would refuse the call | returns ready, without polling the service | refuses the call |
//! | breakers that are chosen by the request, such as one per host | polls the service | asks the request's breaker |
//!
//! - A service that is ready and is then not called stays ready: it keeps its reservation for the next call, whose
//!   `poll_ready` polls it again, as tower's contract allows. While the breaker is open it is not polled again.
//! - A service that was not polled is not called, even if the breaker would let the call pass by then (the cooldown
//!   ended in between). That call is refused with a `retry_after` of zero, and takes no permit.
//! - A clone has no readiness.

use super::Breakers;
use crate::Head;
use core::task::Poll;
use damper_core::breaker::{CircuitOpen, Permit};
use damper_core::internal::open_for_no_time;

/// The known readiness of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Readiness {
    /// Unknown since its last call.
    #[default]
    Unknown,
    /// The service is ready, and holds its reservation for a call.
    Ready,
    /// The service was not polled, because the breaker would refuse the call.
    Skipped,
}

impl Readiness {
    /// Polls the service's readiness by `poll`, unless the breaker would refuse the call anyway.
    #[inline]
    pub(super) fn poll<E>(
        &mut self,
        breakers: &impl Breakers,
        poll: impl FnOnce() -> Poll<Result<(), E>>,
    ) -> Poll<Result<(), E>> {
        if breakers.refusal().is_some() {
            if *self != Self::Ready {
                *self = Self::Skipped;
            }
            return Poll::Ready(Ok(()));
        }
        let polled = poll();
        *self = if matches!(polled, Poll::Ready(Ok(()))) { Self::Ready } else { Self::Unknown };
        polled
    }

    /// Acquires the permit for this request's call, which uses up the readiness.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`], from the breaker or because the service was not polled for readiness.
    #[inline]
    pub(super) fn try_acquire<B: Breakers>(
        &mut self,
        breakers: &B,
        head: &Head<'_>,
    ) -> Result<Permit<B::Breaker>, CircuitOpen> {
        if *self == Self::Skipped {
            return Err(self.refuse(breakers));
        }
        let permit = breakers.try_acquire(head);
        if permit.is_ok() {
            *self = Self::Unknown;
        }
        permit
    }

    /// Refuses the call of a service that was not polled for readiness.
    #[cold]
    fn refuse(&mut self, breakers: &impl Breakers) -> CircuitOpen {
        *self = Self::Unknown;
        let open = breakers.refusal().unwrap_or_else(open_for_no_time);
        breakers.record_refusal(&open);
        open
    }
}
