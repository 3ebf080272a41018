//! Refusals as statuses, for handlers of yours.

use crate::grpc::find_status;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::error::Error;
use core::iter::successors;
use core::time::Duration;
use damper_core::breaker::{CallError, CircuitOpen};
use damper_core::concurrency::{BulkheadFull, LimitSetRefusal, NotAdmitted};
use damper_core::deadline::DeadlineExceeded;
use damper_core::internal::source_of;
use damper_core::is_refusal;
use damper_core::limit::{Denied, LimitSetDenied};
use damper_core::retry::{GaveUp, RetryError};
use damper_core::throttle::{PaceTooSlow, Throttled};
use damper_http::Limited;
use damper_http::internal::{reason_of, status};
use tonic::{Code, Status};

/// The wait for a probe or a call to end, whose duration is unknown.
pub(crate) const A_SECOND: Duration = Duration::from_secs(1);

/// Returns the status of a call's error.
///
/// It is the one that a generated client would make of it, except that a refusal by a layer of damper is not `UNKNOWN`.
pub(crate) fn status_of(error: Box<dyn Error + Send + Sync>) -> Status {
    if find_status(&*error).is_some() {
        return Status::from_error(error);
    }
    let chain = successors(Some(&*error as &(dyn Error + 'static)), |&error| source_of(error));
    // The innermost error of which this is true is the refusal itself.
    let Some(refusal) = chain.take_while(|&error| is_refusal(error)).last() else {
        return Status::try_from_error(error).unwrap_or_else(|error| {
            // The sentence of a stack's error names only the part.
            let message = error.downcast_ref().map_or_else(|| error.to_string(), reason_of);
            unknown_status(error, message)
        });
    };
    let is_over_rate = refusal.is::<Denied>()
        || refusal.is::<LimitSetDenied>()
        || matches!(refusal.downcast_ref(), Some(LimitSetRefusal::Limit(_)));
    let code = match refusal {
        _ if is_over_rate => Code::ResourceExhausted,
        _ if refusal.is::<PaceTooSlow>() => Code::DeadlineExceeded,
        _ => Code::Unavailable,
    };
    let mut status = Status::new(code, refusal.to_string());
    status.set_source(Arc::from(error));
    status
}

/// Returns the status of an error that tonic does not know.
pub(crate) fn unknown_status(error: Box<dyn Error + Send + Sync>, message: String) -> Status {
    let mut status = Status::unknown(message);
    status.set_source(Arc::from(error));
    status
}

/// Returns the sentence of a call that was given up, with its reason.
///
/// The reason is the source of an error that has none of an attempt.
pub(crate) fn gave_up_message<E>(error: &RetryError<E>) -> String {
    match (error.error(), error.reason()) {
        (Some(_), _) => error.to_string(),
        (None, GaveUp::Paced(too_slow)) => format!("{error}: {too_slow}"),
        (None, reason) => format!("{error}: {reason}"),
    }
}

/// Turns a refusal into a status, so that a handler can answer with it.
///
/// | refusal | status | `RetryInfo` |
/// |---|---|---|
/// | [`LimitSetRefusal`] | as the limit's [`LimitSetDenied`], or as the [`BulkheadFull`]; a queue's is `UNAVAILABLE` | a second for a queue |
/// | [`Denied`], [`LimitSetDenied`], [`Limited`] | `RESOURCE_EXHAUSTED` | the wait; absent if no wait helps |
/// | [`CircuitOpen`], which is the source of the status | `UNAVAILABLE` | the time until the next probe, or a second |
/// | [`BulkheadFull`], which is the source of the status | `UNAVAILABLE` | a second |
/// | [`NotAdmitted`], which is the source of the status | `UNAVAILABLE` | the gate's estimate, or a second |
/// | [`Throttled`], which is the source of the status | `UNAVAILABLE` | the time until the next probe, at most a second |
/// | [`PaceTooSlow`], which is the source of the status | `DEADLINE_EXCEEDED` | the sleep |
/// | [`DeadlineExceeded`], which is the source of the status | `DEADLINE_EXCEEDED` | |
/// | [`RetryError`], by its deadline | `DEADLINE_EXCEEDED`, with the reason as its source | |
/// | [`RetryError`], else | as the last error, or as the refusal in it | |
/// | [`CallError`] | as its refusal, or as the error of the call | |
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub use damper_http as http; pub extern crate damper_tonic as tonic; }
/// use damper::tonic::IntoStatus;
/// use damper::{CircuitBreaker, CircuitOpen};
/// use tonic::{Code, Status};
///
/// static DATABASE: CircuitBreaker = CircuitBreaker::new(damper::BreakerConfig::DEFAULT);
///
/// fn handler() -> Result<(), Status> {
///     let permit = DATABASE.try_acquire().map_err(IntoStatus::into_status)?;
///     permit.success();
///     Ok(())
/// }
///
/// DATABASE.force_open();
/// let status = handler().unwrap_err();
/// assert_eq!(status.code(), Code::Unavailable);
/// assert!(CircuitOpen::find_in(&status).is_some());
/// ```
pub trait IntoStatus {
    /// Returns the status to answer with.
    fn into_status(self) -> Status;
}

impl IntoStatus for Denied {
    fn into_status(self) -> Status {
        status(Code::ResourceExhausted, &self, self.retry_after())
    }
}

impl IntoStatus for LimitSetDenied {
    fn into_status(self) -> Status {
        self.denied().into_status()
    }
}

impl IntoStatus for LimitSetRefusal {
    fn into_status(self) -> Status {
        match self {
            Self::Limit(denied) => denied.into_status(),
            Self::InFlight(full) => full.into_status(),
            Self::Queue(_) => status(Code::Unavailable, &self, Some(A_SECOND)),
        }
    }
}

impl IntoStatus for Limited {
    fn into_status(self) -> Status {
        status(Code::ResourceExhausted, &self, self.retry_after())
    }
}

impl IntoStatus for CircuitOpen {
    fn into_status(self) -> Status {
        let mut status = status(Code::Unavailable, &self, Some(self.retry_after().unwrap_or(A_SECOND)));
        status.set_source(Arc::new(self));
        status
    }
}

impl IntoStatus for BulkheadFull {
    fn into_status(self) -> Status {
        let mut status = status(Code::Unavailable, &self, Some(A_SECOND));
        status.set_source(Arc::new(self));
        status
    }
}

impl IntoStatus for NotAdmitted {
    fn into_status(self) -> Status {
        let mut status = status(Code::Unavailable, &self, Some(self.retry_after().unwrap_or(A_SECOND)));
        status.set_source(Arc::new(self));
        status
    }
}

impl IntoStatus for Throttled {
    fn into_status(self) -> Status {
        let mut status = status(Code::Unavailable, &self, Some(self.retry_after()));
        status.set_source(Arc::new(self));
        status
    }
}

impl IntoStatus for PaceTooSlow {
    fn into_status(self) -> Status {
        let mut status = status(Code::DeadlineExceeded, &self, Some(self.retry_after()));
        status.set_source(Arc::new(self));
        status
    }
}

impl IntoStatus for DeadlineExceeded {
    fn into_status(self) -> Status {
        let mut status = status(Code::DeadlineExceeded, &self, None);
        status.set_source(Arc::new(self));
        status
    }
}

impl<E: Into<Status>, R: IntoStatus> IntoStatus for CallError<E, R> {
    fn into_status(self) -> Status {
        match self {
            Self::Refused(refusal) => refusal.into_status(),
            Self::Failed(error) => error.into(),
        }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> IntoStatus for RetryError<E> {
    fn into_status(self) -> Status {
        let (reason, message) = (self.reason(), gave_up_message(&self));
        match (reason, self.into_error()) {
            // Of an earlier attempt.
            (GaveUp::Deadline { .. }, _) | (_, None) => {
                let mut status = Status::deadline_exceeded(message);
                status.set_source(Arc::new(reason));
                status
            }
            (_, Some(error)) => status_of(error.into()),
        }
    }
}
