//! The refusal of a client's layer, and the errors of calls through that layer.

use damper_core::breaker::{CallError, CircuitOpen};
use damper_core::throttle::{ThrottleError, Throttled};

/// The refusal of a client's layer, with the error type of calls through that layer: such a call was refused, or it was made
/// and failed.
///
/// So a [`Completion`](super::Completion) serves every layer. Implement it for the refusal of a layer of your own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the refusal of a client's layer",
    note = "`CircuitOpen` and `Throttled` are; implement `damper::http::CallRefusal` for that of your own layer"
)]
pub trait CallRefusal: Sized {
    /// The error of a call, where `E` is the error of the service.
    type CallError<E>;

    /// Returns the error of a call that was refused.
    fn refused<E>(self) -> Self::CallError<E>;

    /// Returns the error of a call whose service returned this error.
    fn failed<E>(error: E) -> Self::CallError<E>;

    /// Returns what a call's error was made of: the error of the service.
    ///
    /// # Errors
    ///
    /// The refusal, if the call was refused.
    fn split<E>(error: Self::CallError<E>) -> Result<E, Self>;
}

/// Of a circuit breaker.
impl CallRefusal for CircuitOpen {
    type CallError<E> = CallError<E>;

    #[inline]
    fn refused<E>(self) -> CallError<E> {
        CallError::Open(self)
    }

    #[inline]
    fn failed<E>(error: E) -> CallError<E> {
        CallError::Failed(error)
    }

    #[inline]
    fn split<E>(error: CallError<E>) -> Result<E, Self> {
        match error {
            CallError::Open(open) => Err(open),
            CallError::Failed(error) => Ok(error),
        }
    }
}

/// Of a throttle.
impl CallRefusal for Throttled {
    type CallError<E> = ThrottleError<E>;

    #[inline]
    fn refused<E>(self) -> ThrottleError<E> {
        ThrottleError::Throttled(self)
    }

    #[inline]
    fn failed<E>(error: E) -> ThrottleError<E> {
        ThrottleError::Failed(error)
    }

    #[inline]
    fn split<E>(error: ThrottleError<E>) -> Result<E, Self> {
        match error {
            ThrottleError::Throttled(throttled) => Err(throttled),
            ThrottleError::Failed(error) => Ok(error),
        }
    }
}
