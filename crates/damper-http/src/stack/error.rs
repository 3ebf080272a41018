//! The error of a client's stack.

use super::{BoxError, StackPart};
use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use core::iter::successors;
use core::time::Duration;
use damper_core::breaker::CircuitOpen;
use damper_core::concurrency::NotAdmitted;
use damper_core::internal::source_of;
use damper_core::is_refusal;
use damper_core::limit::{Denied, LimitSetDenied};
use damper_core::throttle::Throttled;

/// Why a call through a [client's stack](super::client_stack) did not succeed: [which part](Self::part) ended it, and
/// [how long](Self::retry_after) to wait.
///
/// It is displayed as the error that ended the call, which is its source. So `CircuitOpen::find_in(&error)` and its sisters
/// find the typed refusal, and the transport's own error can be downcast. A printed chain says everything once if it begins
/// with [`source`](Error::source), not with this error.
///
/// | [`part`](Self::part) | displayed as |
/// |---|---|
/// | `Deadline` | deadline of 2 s exceeded, 2 s elapsed |
/// | `Breaker` | circuit open, next probe in 28 s |
/// | `Retry` | gave up after 3 attempts in 1.2 s: retry budget exhausted |
/// | `Throttle` | throttled, 87 % of the calls are not sent |
/// | `Limit` | rate limit exceeded, retry in 1.2 s |
/// | `Concurrency` | bulkhead full, limit 64 |
/// | `AttemptTimeout` | attempt timed out after 500 ms |
/// | `Transport` | the transport's error |
///
/// If a retried call is refused, `part` names the part that refused it. The error is one pointer, to an error in a box.
///
/// With gRPC, a refusal is a [status](super::StackProtocol::ended) with the refusal as its source. A generated client makes
/// a status of this error, in which [`find_in`](Self::find_in) finds it.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
/// use damper::CircuitOpen;
/// use damper::http::{StackError, StackPart};
///
/// fn report(error: &StackError) {
///     match error.part() {
///         StackPart::Transport => println!("failed: {error}"),
///         part => println!("{part}: {error}"), // breaker: circuit open, next probe in 28 s
///     }
///     if let Some(wait) = error.retry_after() {
///         println!("come back in {wait:?}");
///     }
///     assert_eq!(error.part() == StackPart::Breaker, CircuitOpen::find_in(error).is_some());
/// }
/// ```
#[derive(Debug)]
pub struct StackError(Box<Ended>);

#[derive(Debug)]
struct Ended {
    part: StackPart,
    retry_after: Option<Duration>,
    attempts: Option<u32>,
    error: BoxError,
}

impl StackError {
    /// Creates the error of a call that `part` ended, which may be made again after the wait that `error` names.
    pub(super) fn new(part: StackPart, error: BoxError) -> Self {
        let retry_after = wait_of(&*error);
        Self(Box::new(Ended { part, retry_after, attempts: None, error }))
    }

    /// Makes the error of the stack of an error in a box, which may be or have one already.
    pub(super) fn of_boxed(part: StackPart, error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => *error,
            Err(error) => {
                match Self::find_in(&*error).map(|Self(ended)| (ended.part, ended.retry_after, ended.attempts)) {
                    Some((part, retry_after, attempts)) => Self(Box::new(Ended { part, retry_after, attempts, error })),
                    None => Self::new(part, error),
                }
            }
        }
    }

    pub(super) fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    pub(super) fn with_attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = Some(attempts);
        self
    }

    /// Returns which part of the stack ended the call.
    #[must_use]
    pub fn part(&self) -> StackPart {
        self.0.part
    }

    /// Returns how long to wait before the next call, where the part knows: the time until the next probe of an open breaker
    /// or of the throttle, until the limit has a token or the gate a slot, or that the server asked for when the retries gave up.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns how many attempts were begun, if the stack has retries and the call reached them.
    ///
    /// An attempt that the throttle or a limit refused counts.
    #[must_use]
    pub fn attempts(&self) -> Option<u32> {
        self.0.attempts
    }

    /// Returns whether the last attempt was refused by a part of the stack before it was sent, so that this error says
    /// nothing about the server: [`is_refusal`](damper_core::is_refusal).
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        is_refusal(self)
    }

    /// Returns the first one in the chain of an error's sources, the error itself included.
    #[must_use]
    pub fn find_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        successors(Some(error), |&error| source_of(error)).find_map(|error| error.downcast_ref())
    }
}

/// Returns the wait that a refusal in the chain of an error's sources names.
pub(crate) fn wait_of(error: &(dyn Error + 'static)) -> Option<Duration> {
    successors(Some(error), |&error| source_of(error)).find_map(|error| {
        if let Some(open) = error.downcast_ref::<CircuitOpen>() {
            return open.retry_after();
        }
        if let Some(denied) = error.downcast_ref::<Denied>() {
            return denied.retry_after();
        }
        if let Some(throttled) = error.downcast_ref::<Throttled>() {
            return Some(throttled.retry_after());
        }
        if let Some(refused) = error.downcast_ref::<NotAdmitted>() {
            return refused.retry_after();
        }
        error.downcast_ref::<LimitSetDenied>()?.denied().retry_after()
    })
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A status is displayed with the description of its code.
        #[cfg(feature = "tonic")]
        if let Some(status) = self.0.error.downcast_ref::<tonic::Status>().filter(|status| !status.message().is_empty())
        {
            return f.write_str(status.message());
        }
        self.0.error.fmt(f)
    }
}

impl Error for StackError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0.error)
    }
}
