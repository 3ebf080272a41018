//! The meaning of an attempt's outcome for the next attempt.

use super::GaveUp;
use crate::breaker::source_of;
use crate::deadline::DeadlineExceeded;
use crate::gate::{Ending, Verdict};
use crate::{Reads, is_refusal};
use core::error::Error;
use core::time::Duration;

/// A failed attempt: whether another one may help, and when the server accepts it.
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
    pub(super) is_unseen: bool,
}

/// How a retry is spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum FailureKind {
    Transient,
    Throttled,
    Fatal,
}

/// The server's hint about a retry.
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

    /// Another attempt may succeed once the server is below its limit again.
    ///
    /// The [backoff](super::Backoff) starts with a longer delay, see [`throttled_base`](super::Retry::throttled_base).
    pub const THROTTLED: Self = Self::of(FailureKind::Throttled);

    /// No other attempt helps, or another one might do harm.
    pub const FATAL: Self = Self::of(FailureKind::Fatal);

    /// Returns whether the server was above its limit: whether this is [`THROTTLED`](Self::THROTTLED), with any hint.
    #[must_use]
    pub const fn is_throttled(&self) -> bool {
        matches!(self.kind, FailureKind::Throttled)
    }

    pub(super) const fn of(kind: FailureKind) -> Self {
        Self { kind, hint: ServerHint::None, is_unprocessed: false, is_unseen: false }
    }

    /// Returns the failure that a call ended with; `None` if there is nothing to repeat.
    ///
    /// A call that the server declined, or failed to carry out, is not repeated. A refusal of a gate in this process is [fatal](Self::FATAL).
    #[must_use]
    pub const fn of_verdict(verdict: &Verdict) -> Option<Self> {
        let failure = match verdict.ending {
            Ending::Success | Ending::Declined | Ending::Failed => return None,
            Ending::Limited => Self::THROTTLED,
            Ending::Unavailable | Ending::BadGateway | Ending::TimedOut | Ending::Broken => Self::TRANSIENT,
            Ending::NotSent => return Some(Self::FATAL),
        };
        let failure = failure.retry_after(verdict.retry_after);
        Some(if verdict.may_be_processed { failure } else { failure.unprocessed() })
    }

    /// Sets the shortest wait that the server asked for, for example by `Retry-After`, or `None`.
    ///
    /// No retry is earlier, and retries of clients with the same wait are spread out after it.
    #[must_use]
    pub const fn retry_after(mut self, wait: Option<Duration>) -> Self {
        if let (Some(wait), false) = (wait, matches!(self.hint, ServerHint::Never)) {
            self.hint = ServerHint::NotBefore(wait);
        }
        self
    }

    /// Sets the exact wait that the server asked for, like gRPC's `grpc-retry-pushback-ms`.
    ///
    /// It has no jitter, and the backoff starts over after it.
    #[must_use]
    pub const fn pushback(mut self, wait: Duration) -> Self {
        if !matches!(self.hint, ServerHint::Never) {
            self.hint = ServerHint::Exactly(wait);
        }
        self
    }

    /// Marks that the server declined a retry, overriding any other hint.
    ///
    /// A [budget](super::Budget) counts the failure like any other.
    #[must_use]
    pub const fn declined(mut self) -> Self {
        self.hint = ServerHint::Never;
        self
    }

    /// Marks that no server can have processed the call.
    ///
    /// It was not sent, or the server refused it unseen (HTTP/2's `REFUSED_STREAM`). The first retry of a call for this
    /// reason takes nothing from the budget. So if no connection can be made, each call may try twice.
    #[must_use]
    pub const fn unprocessed(mut self) -> Self {
        self.is_unprocessed = true;
        self
    }

    /// Marks that the server's application did not see the call, so the next attempt may be immediate.
    ///
    /// Either the stream was refused (HTTP/2's `REFUSED_STREAM`, or a `GOAWAY` before the call), or the request was
    /// returned from a closed connection.
    ///
    /// The failure is also [unprocessed](Self::unprocessed). The first retry of a call for this reason is what gRPC
    /// calls transparent: it has no wait, takes nothing from the budget, and does not count towards
    /// [`max_attempts`](super::Retry::max_attempts). Later ones are like those of any unprocessed call, so a server
    /// that refuses everything gets one more request per call.
    #[must_use]
    pub const fn transparent(mut self) -> Self {
        self.is_unprocessed = true;
        self.is_unseen = true;
        self
    }

    /// Returns after which time another attempt may start, beside this one or after it, if one may.
    ///
    /// A server that is over its limit gets none, unless it says when.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub(super) const fn wait_beside(&self) -> Option<Duration> {
        match (self.kind, self.hint) {
            (FailureKind::Transient, ServerHint::None) => Some(Duration::ZERO),
            (FailureKind::Transient | FailureKind::Throttled, ServerHint::Exactly(wait)) => Some(wait),
            _ => None,
        }
    }

    /// Returns whether a budget counts the failure, because it says something about the server.
    ///
    /// It says nothing if the call itself is at fault.
    #[inline]
    pub(super) const fn counts(&self) -> bool {
        self.may_retry() || matches!(self.hint, ServerHint::Never)
    }

    /// Returns whether another attempt may help at all.
    #[must_use]
    pub const fn may_retry(&self) -> bool {
        !matches!(self.kind, FailureKind::Fatal)
    }

    /// Returns whether no server can have [processed](Self::unprocessed) the call, so a retry is safe.
    #[must_use]
    pub const fn is_unprocessed(&self) -> bool {
        self.is_unprocessed
    }
}

/// Takes every `Ok` as a success, and judges every `Err` by its type.
///
/// It is the default of retries, hedges and `damper::tower`'s gates. A retry treats every error as transient, and damper's own refusals as fatal.
///
/// Breakers, limits, throttles and bulkheads [refuse](crate::is_refusal) a call before it reaches the server, and after
/// a deadline no other attempt is in time. Such errors are found anywhere in an error's chain of sources. So is the
/// reason of an inner [`Retry`](super::Retry) whose deadline passed before any attempt had failed. Its other errors are
/// judged by the last attempt's error, even if a later attempt was in flight when the deadline passed. Do not nest
/// retries, because their attempts multiply, and the outer one may repeat a call that an attempt has carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EveryErr;

impl EveryErr {
    /// Returns the failure of an error.
    ///
    /// # Examples
    ///
    /// In a closure of your own:
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::retry::{EveryErr, Failure, Retry};
    ///
    /// let retry = Retry::new(3).when(|result: &Result<u16, std::io::Error>| match result {
    ///     Ok(500..) => Some(Failure::TRANSIENT),
    ///     Ok(_) => None,
    ///     Err(error) => Some(EveryErr::judge(error)),
    /// });
    /// # let _ = retry;
    /// # }
    /// ```
    #[must_use]
    pub fn judge(error: &(dyn Error + 'static)) -> Failure {
        let is_over = core::iter::successors(Some(error), |error| source_of(*error))
            .any(|error| error.is::<DeadlineExceeded>() || error.is::<GaveUp>());
        if is_over || is_refusal(error) { Failure::FATAL } else { Failure::TRANSIENT }
    }
}

// Otherwise the compiler reports a missing `Error` of the user's type, and not the note of `Reads`.
#[diagnostic::do_not_recommend]
impl<T, E: Error + 'static> Reads<Result<T, E>, Option<Failure>> for EveryErr {
    fn read_from(&self, outcome: &Result<T, E>) -> Option<Failure> {
        outcome.as_ref().err().map(|error| Self::judge(error))
    }
}
