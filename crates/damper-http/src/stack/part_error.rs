//! Converts the errors of the parts into the stack's error.

use super::{BoxError, StackError, StackPart, StackProtocol};
use damper_core::CallError;
use damper_core::gate::Refusal;
use damper_core::internal::boxed_refusal;
use damper_core::retry::{GaveUp, RetryError};

/// A protocol of a [client's stack](super::client_stack) that takes errors of the type `E` from layers.
///
/// The layers stand around a service with a [`StackError`].
///
/// Every protocol takes the errors of damper's layers and boxed errors, so your own layer may return `Box<dyn Error + Send + Sync>`.
#[diagnostic::on_unimplemented(
    message = "`{E}` cannot become the error of a client's stack",
    note = "inside of a client's stack the error of every service is `damper::http::StackError`, and a layer passes it on, \
    wraps it in a `CallError` or a `RetryError`, or puts it into a `Box<dyn Error + Send + Sync>`",
    note = "a stack whose layers have a `tonic::Status` is one of `.protocol(damper::tonic::Grpc::new())`"
)]
pub trait PartErrors<E>: StackProtocol {
    /// Returns the error of the stack, for the layer at the place of `part`.
    #[doc(hidden)]
    fn part_error(part: StackPart, error: E) -> StackError;
}

/// Returns the error of a call that a part ended, in the form of the protocol.
#[cold]
fn ended<P: StackProtocol>(part: StackPart, error: impl Into<BoxError>) -> StackError {
    StackError::new::<P>(part, P::ended(part, error.into()))
}

/// Serves layers that end no calls themselves, such as a hedge.
impl<P: StackProtocol> PartErrors<StackError> for P {
    fn part_error(_: StackPart, error: StackError) -> StackError {
        error
    }
}

/// Serves layers that refuse calls.
impl<P: StackProtocol, R: Refusal> PartErrors<CallError<StackError, R>> for P {
    fn part_error(part: StackPart, error: CallError<StackError, R>) -> StackError {
        match error {
            CallError::Refused(refusal) => {
                let wait = refusal.retry_after();
                ended::<P>(part, boxed_refusal(refusal)).or_retry_after(wait)
            }
            CallError::Failed(error) => error,
        }
    }
}

/// Converts the error of the retries.
///
/// An error that is not retried is the call's own: an inner part refused the call, or the request may not be sent again. Otherwise the
/// retries gave the call up.
impl<P: StackProtocol> PartErrors<RetryError<StackError>> for P {
    fn part_error(part: StackPart, error: RetryError<StackError>) -> StackError {
        let (reason, attempts, elapsed) = (error.reason(), error.attempts(), error.elapsed());
        let asked_for = match reason {
            GaveUp::Hint { wait, .. } => Some(wait),
            GaveUp::Deadline { hint } => hint,
            _ => None,
        };
        let (error, previous) = error.into_errors();
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
impl<P: StackProtocol> PartErrors<BoxError> for P {
    fn part_error(part: StackPart, error: BoxError) -> StackError {
        let is_new = StackError::find_in(&*error).is_none();
        StackError::of_boxed::<P>(part, if is_new { P::ended(part, error) } else { error })
    }
}
