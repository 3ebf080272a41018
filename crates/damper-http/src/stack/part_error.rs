//! Converts the errors of the parts into the stack's error.

use super::{BoxError, StackError, StackPart, StackProtocol};
use damper_core::CallError;
use damper_core::gate::Refusal;
use damper_core::internal::boxed_refusal;
use damper_core::retry::{GaveUp, RetryError};
#[cfg(feature = "tonic")]
use {alloc::boxed::Box, tonic_types::StatusExt};

/// An error of a layer in a [client's stack](super::client_stack), around a service whose error is [`StackError`].
///
/// It is implemented for the errors of damper's layers and for boxed errors, so your own layer may return `Box<dyn Error + Send + Sync>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot become the error of a client's stack",
    note = "inside of a client's stack the error of every service is `damper::http::StackError`, and a layer passes it on, \
    wraps it in a `CallError` or a `RetryError`, or puts it into a `Box<dyn Error + Send + Sync>`"
)]
#[cfg(feature = "tower")]
pub trait PartError {
    /// Returns the error of the stack, for the layer at the place of `part`.
    #[doc(hidden)]
    fn into_stack_error<P: StackProtocol>(self, part: StackPart) -> StackError;
}

/// Returns the error of a call that a part ended, in the form of the protocol.
#[cold]
fn ended<P: StackProtocol>(part: StackPart, error: impl Into<BoxError>) -> StackError {
    StackError::new(part, P::ended(part, error.into()))
}

/// Serves layers that end no calls themselves, such as a hedge.
impl PartError for StackError {
    fn into_stack_error<P: StackProtocol>(self, _: StackPart) -> StackError {
        self
    }
}

/// Serves layers that refuse calls.
impl<R: Refusal> PartError for CallError<StackError, R> {
    fn into_stack_error<P: StackProtocol>(self, part: StackPart) -> StackError {
        match self {
            Self::Refused(refusal) => {
                let wait = refusal.retry_after();
                ended::<P>(part, boxed_refusal(refusal)).or_retry_after(wait)
            }
            Self::Failed(error) => error,
        }
    }
}

/// Converts the error of the retries.
///
/// An error that is not retried is the call's own: an inner part refused the call, or the request may not be sent again. Otherwise the
/// retries gave the call up.
impl PartError for RetryError<StackError> {
    fn into_stack_error<P: StackProtocol>(self, part: StackPart) -> StackError {
        let (reason, attempts, elapsed) = (self.reason(), self.attempts(), self.elapsed());
        let asked_for = match reason {
            GaveUp::Hint { wait, .. } => Some(wait),
            GaveUp::Deadline { hint } => hint,
            _ => None,
        };
        let (error, previous) = self.into_errors();
        let error = match (reason, error) {
            (GaveUp::NotRetryable, Some(error)) => error,
            (_, error) => {
                let gave_up = RetryError::new(reason, attempts, elapsed, error);
                let error = ended::<P>(part, gave_up);
                match asked_for {
                    Some(wait) => error.with_retry_after(wait),
                    // The last error may be a refusal that gives a wait.
                    None => error,
                }
            }
        };
        error.with_attempts(attempts, previous)
    }
}

/// Serves a layer of deadlines, which boxes the service's errors, and your own layers.
impl PartError for BoxError {
    fn into_stack_error<P: StackProtocol>(self, part: StackPart) -> StackError {
        let is_new = StackError::find_in(&*self).is_none();
        StackError::of_boxed(part, if is_new { P::ended(part, self) } else { self })
    }
}

/// Serves breakers and retries of gRPC.
#[cfg(feature = "tonic")]
impl PartError for tonic::Status {
    fn into_stack_error<P: StackProtocol>(self, part: StackPart) -> StackError {
        let wait = self.get_details_retry_info().and_then(|info| info.retry_delay);
        StackError::of_boxed(part, Box::new(self)).or_retry_after(wait)
    }
}
