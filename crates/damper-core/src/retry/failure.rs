//! What the outcome of an attempt says about another one.

use super::GaveUp;
use crate::breaker::source_of;
use crate::deadline::DeadlineExceeded;
use crate::is_refusal;
use core::error::Error;
use core::time::Duration;

/// What a failed attempt says about another one: whether it may help, and when the server wants it.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::retry::Failure;
///
/// # let (status, retry_after) = (429, Some(Duration::from_secs(2)));
/// let failure = match status {
///     429 => Some(Failure::THROTTLED),
///     503 => Some(Failure::TRANSIENT),
///     500.. => Some(Failure::FATAL),
///     _ => None, // a success
/// };
/// let failure = failure.map(|failure| failure.retry_after(retry_after));
/// # assert_eq!(failure, Some(Failure::THROTTLED.retry_after(Some(Duration::from_secs(2)))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Failure {
    pub(super) kind: FailureKind,
    pub(super) hint: ServerHint,
    pub(super) is_unprocessed: bool,
}

/// How a retry is spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum FailureKind {
    Transient,
    Throttled,
    Fatal,
}

/// What the server said about a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum ServerHint {
    None,
    NotBefore(Duration),
    Exactly(Duration),
    Never,
}

impl Failure {
    /// Another attempt may succeed: the server was not reached, or not ready.
    pub const TRANSIENT: Self = Self::of(FailureKind::Transient);

    /// Another attempt may succeed once the server takes more: it was over a limit. The [backoff](super::Backoff) begins
    /// with a longer delay, see [`throttled_base`](super::Retry::throttled_base).
    pub const THROTTLED: Self = Self::of(FailureKind::Throttled);

    /// No other attempt helps, or another one might do harm.
    pub const FATAL: Self = Self::of(FailureKind::Fatal);

    const fn of(kind: FailureKind) -> Self {
        Self { kind, hint: ServerHint::None, is_unprocessed: false }
    }

    /// Adds the shortest wait that the server asked for, by a `Retry-After` say; `None` if it did not.
    ///
    /// No retry comes earlier, and retries that were told the same time are spread out after it.
    #[must_use]
    pub const fn retry_after(mut self, wait: Option<Duration>) -> Self {
        if let (Some(wait), false) = (wait, matches!(self.hint, ServerHint::Never)) {
            self.hint = ServerHint::NotBefore(wait);
        }
        self
    }

    /// Adds the exact wait that the server asked for, as gRPC's `grpc-retry-pushback-ms` does. It has no jitter, and the
    /// backoff starts over after it.
    #[must_use]
    pub const fn pushback(mut self, wait: Duration) -> Self {
        if !matches!(self.hint, ServerHint::Never) {
            self.hint = ServerHint::Exactly(wait);
        }
        self
    }

    /// Adds that the server asked for no retry, whatever else it said. For a [budget](super::Budget) it is a failure like any
    /// other.
    #[must_use]
    pub const fn declined(mut self) -> Self {
        self.hint = ServerHint::Never;
        self
    }

    /// Adds that no server can have processed the call: it did not leave, or was refused unseen (HTTP/2's
    /// `REFUSED_STREAM`). The first retry of a call for this reason takes nothing from the budget: where no connection can be
    /// made, each call may try twice.
    #[must_use]
    pub const fn unprocessed(mut self) -> Self {
        self.is_unprocessed = true;
        self
    }

    /// Whether another attempt may start beside or after this one without any wait.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub(super) const fn may_start_at_once(&self) -> bool {
        matches!((self.kind, self.hint), (FailureKind::Transient, ServerHint::None))
    }

    /// Returns whether another attempt may help at all.
    #[must_use]
    pub const fn may_retry(&self) -> bool {
        !matches!(self.kind, FailureKind::Fatal)
    }

    /// Returns whether no server can have [processed](Self::unprocessed) the call, so that another attempt cannot do harm.
    #[must_use]
    pub const fn is_unprocessed(&self) -> bool {
        self.is_unprocessed
    }
}

/// Says what the outcome of an attempt means: `None` for a success, or else which failure it is.
///
/// Every closure with this argument is one, see [`Retry::when`](super::Retry::when).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which outcomes of type `Result<{T}, {E}>` to retry",
    note = "errors that implement `Error` are retried; for others name what to retry: \
    `.when(|result| result.is_err().then_some(Failure::TRANSIENT))`"
)]
pub trait Retryable<T, E> {
    /// Returns which failure an outcome is; `None` for a success.
    fn failure(&self, outcome: &Result<T, E>) -> Option<Failure>;
}

impl<T, E, F: Fn(&Result<T, E>) -> Option<Failure>> Retryable<T, E> for F {
    fn failure(&self, outcome: &Result<T, E>) -> Option<Failure> {
        self(outcome)
    }
}

/// Takes every error for transient, but refusals of damper's own for fatal: the default.
///
/// Breakers, limits, throttles and bulkheads [refuse](crate::is_refusal) a call before it reaches the server, and after a
/// deadline no other attempt is in time. Such errors are found in the chain of an error's sources. So is an inner [`Retry`](super::Retry) whose
/// deadline passed; its other errors are transient. Do not nest retries: the attempts of both multiply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AnyError;

impl AnyError {
    /// Returns which failure an error is.
    ///
    /// # Examples
    ///
    /// For a closure of one's own:
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// # extern crate damper_core as damper;
    /// use damper::retry::{AnyError, Failure, Retry};
    ///
    /// let retry = Retry::new(3).when(|result: &Result<u16, std::io::Error>| match result {
    ///     Ok(500..) => Some(Failure::TRANSIENT),
    ///     Ok(_) => None,
    ///     Err(error) => Some(AnyError::judge(error)),
    /// });
    /// # let _ = retry;
    /// ```
    #[must_use]
    pub fn judge(error: &(dyn Error + 'static)) -> Failure {
        let is_over = core::iter::successors(Some(error), |error| source_of(*error))
            .any(|error| error.is::<DeadlineExceeded>() || error.is::<GaveUp>());
        if is_over || is_refusal(error) { Failure::FATAL } else { Failure::TRANSIENT }
    }
}

impl<T, E: Error + 'static> Retryable<T, E> for AnyError {
    fn failure(&self, outcome: &Result<T, E>) -> Option<Failure> {
        outcome.as_ref().err().map(|error| Self::judge(error))
    }
}
