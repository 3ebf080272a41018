//! Whether rejected calls are made again.

use core::time::Duration;
use damper_core::CallError;
use damper_core::retry::{Budget, GaveUp, RetryError, Unlimited};
use damper_core::throttle::{PaceTooSlow, PacedRetry};

/// The treatment of a rejected call by a [`PacingLayer`](super::PacingLayer): [`Repeating`] or [`PaceOnly`].
///
/// `R` is the service's request.
#[diagnostic::on_unimplemented(
    message = "a rejected `{R}` cannot be made again, because it is not `Clone`",
    note = "`PacingLayer::without_retries` paces requests of any type"
)]
pub trait PacingMode<R> {
    /// The budget of retries.
    type Budget: Budget;

    /// The caller's error, where the service's is `E`.
    type Error<E>;

    /// Whether a call that need not sleep is given up if its deadline has passed.
    #[doc(hidden)]
    const ENDS_EXPIRED: bool;

    /// Returns the policy of a call.
    #[doc(hidden)]
    fn policy(&self) -> PacedRetry<Self::Budget>;

    /// Returns a copy of a request for another attempt, if there can be one.
    #[doc(hidden)]
    fn keep(request: &R) -> Option<R>;

    /// Returns the caller's error.
    #[doc(hidden)]
    fn give_up<E>(error: RetryError<E>) -> Self::Error<E>;
}

/// Makes a rejected call again, until it succeeds or is given up.
#[derive(Clone, Copy, Debug)]
pub struct Repeating<B>(pub(super) PacedRetry<B>);

impl<R: Clone, B: Budget + Clone> PacingMode<R> for Repeating<B> {
    type Budget = B;
    type Error<E> = RetryError<E>;

    const ENDS_EXPIRED: bool = true;

    fn policy(&self) -> PacedRetry<B> {
        self.0.clone()
    }

    fn keep(request: &R) -> Option<R> {
        Some(request.clone())
    }

    fn give_up<E>(error: RetryError<E>) -> RetryError<E> {
        error
    }
}

/// Only paces calls, and returns what was rejected.
#[derive(Clone, Copy, Debug, Default)]
pub struct PaceOnly;

impl<R> PacingMode<R> for PaceOnly {
    type Budget = Unlimited;
    type Error<E> = CallError<E, PaceTooSlow>;

    const ENDS_EXPIRED: bool = false;

    fn policy(&self) -> PacedRetry {
        PacedRetry::new(1).max_time(Duration::MAX)
    }

    fn keep(_: &R) -> Option<R> {
        None
    }

    fn give_up<E>(error: RetryError<E>) -> CallError<E, PaceTooSlow> {
        let (reason, slept) = (error.reason(), error.elapsed());
        match (error.into_error(), reason) {
            (Some(error), _) => CallError::Failed(error),
            (None, GaveUp::Paced(too_slow)) => CallError::Refused(too_slow),
            // The deadline passed after the sleep, before the service was ready.
            (None, _) => CallError::Refused(PaceTooSlow::new(slept, Duration::ZERO)),
        }
    }
}
