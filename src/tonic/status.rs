//! Refusals as statuses, so that a handler can answer them with `?`.
//!
//! | refusal | status | `RetryInfo` |
//! |---|---|---|
//! | [`Denied`], [`LayerDenied`], [`Limited`] | `RESOURCE_EXHAUSTED` | the wait; absent if no wait helps |
//! | [`CircuitOpen`], which is the source of the status | `UNAVAILABLE` | the time until the next probe, or a second |
//! | [`CallError`] | as its `CircuitOpen`, or as the error of the call | |

use crate::breaker::{CallError, CircuitOpen};
use crate::http::Limited;
use crate::limit::{Denied, LayerDenied};
use alloc::string::ToString;
use alloc::sync::Arc;
use core::fmt::Display;
use core::time::Duration;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// What somebody waits for a probe to end of which nobody knows how long it takes.
const PROBE: Duration = Duration::from_secs(1);

/// `RESOURCE_EXHAUSTED`, with how long to wait.
impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        status(Code::ResourceExhausted, &denied, denied.retry_after())
    }
}

/// `RESOURCE_EXHAUSTED`, with how long to wait.
impl From<LayerDenied> for Status {
    fn from(refused: LayerDenied) -> Self {
        refused.denied().into()
    }
}

/// `RESOURCE_EXHAUSTED`, with how long to wait.
impl From<Limited> for Status {
    fn from(limited: Limited) -> Self {
        status(Code::ResourceExhausted, &limited, limited.retry_after)
    }
}

/// `UNAVAILABLE`, with how long to wait; the refusal is its source.
///
/// # Examples
///
/// ```
/// use damper::{CircuitBreaker, CircuitOpen};
/// use tonic::{Code, Status};
///
/// static DATABASE: CircuitBreaker = CircuitBreaker::new(damper::BreakerConfig::DEFAULT);
///
/// fn handler() -> Result<(), Status> {
///     let permit = DATABASE.try_acquire()?;
///     permit.success();
///     Ok(())
/// }
///
/// DATABASE.force_open();
/// let status = handler().unwrap_err();
/// assert_eq!(status.code(), Code::Unavailable);
/// assert!(CircuitOpen::find_in(&status).is_some());
/// ```
impl From<CircuitOpen> for Status {
    fn from(open: CircuitOpen) -> Self {
        let mut status = status(Code::Unavailable, &open, Some(open.retry_after().unwrap_or(PROBE)));
        status.set_source(Arc::new(open));
        status
    }
}

/// `UNAVAILABLE` for a call that was refused, else what becomes of its error.
impl<E: Into<Status>> From<CallError<E>> for Status {
    fn from(error: CallError<E>) -> Self {
        match error {
            CallError::Open(open) => open.into(),
            CallError::Failed(error) => error.into(),
        }
    }
}

fn status(code: Code, refusal: &impl Display, retry_after: Option<Duration>) -> Status {
    let message = refusal.to_string();
    uncached(match retry_after {
        Some(wait) => Status::with_error_details(code, message, ErrorDetails::with_retry_info(Some(wait))),
        None => Status::new(code, message),
    })
}

/// The same status with `Cache-Control: no-store`: to HTTP it is a `200 OK`, which a cache might keep.
pub(crate) fn uncached(mut status: Status) -> Status {
    status.metadata_mut().insert("cache-control", MetadataValue::from_static("no-store"));
    status
}
