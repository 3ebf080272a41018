//! An error in a response.

use crate::client::ClientError;
use crate::deadline::{DeadlineReport, SpecifiedDeadline};
use crate::document::{MeshDuration, RateLimited};
use damper_core::deadline::DeadlineExceeded;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// An error in a response.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// use damper::mesh::MeshError;
///
/// let error = MeshError::new("ORDER_NOT_FOUND", "Order 456 does not exist");
/// assert!(!error.retryable);
/// assert_eq!(error.to_string(), "ORDER_NOT_FOUND: Order 456 does not exist");
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MeshError {
    /// The kind of error, for programs.
    pub code: Cow<'static, str>,
    /// The message, for people.
    pub message: String,
    /// Whether the same call may succeed later.
    #[serde(default)]
    pub retryable: bool,
    /// The details that belong to the code, or null.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
}

impl MeshError {
    /// The code of a refusal by a limit.
    pub const RATE_LIMITED: &str = "RATE_LIMITED";

    /// The code of a call whose deadline has passed.
    pub const DEADLINE_EXCEEDED: &str = "DEADLINE_EXCEEDED";

    /// The code of a request that could not be read or was not sent by POST.
    pub const INVALID_REQUEST: &str = "INVALID_REQUEST";

    /// The code of a refusal by a downstream service.
    pub const DOWNSTREAM_RATE_LIMITED: &str = "DOWNSTREAM_RATE_LIMITED";

    /// The code of a downstream call without a response.
    pub const DOWNSTREAM_FAILED: &str = "DOWNSTREAM_FAILED";

    /// Creates an error without details that another attempt does not help.
    #[must_use]
    pub fn new(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), retryable: false, details: Value::Null }
    }

    /// Marks that the same call may succeed later.
    #[must_use]
    pub fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }

    /// Sets the details.
    #[must_use]
    pub fn details(self, details: Value) -> Self {
        Self { details, ..self }
    }

    /// Converts an error of a downstream service into one of this service.
    ///
    /// `RATE_LIMITED` becomes [`DOWNSTREAM_RATE_LIMITED`](Self::DOWNSTREAM_RATE_LIMITED), which is not retryable.
    /// Otherwise clients would apply it to this service's limits: they would slow down all calls and repeat retries
    /// that this service already made.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
    /// use damper::mesh::{MeshError, Response};
    /// use serde_json::Value;
    ///
    /// fn stock(answer: Response) -> Result<Value, MeshError> {
    ///     answer.into_result().map_err(MeshError::from_downstream)
    /// }
    ///
    /// let refused = Response::error(None, MeshError::new("RATE_LIMITED", "Rate limit exceeded").retryable());
    /// assert_eq!(stock(refused).unwrap_err().code, "DOWNSTREAM_RATE_LIMITED");
    /// ```
    #[must_use]
    pub fn from_downstream(error: Self) -> Self {
        if error.code != Self::RATE_LIMITED {
            return error;
        }
        Self { code: Cow::Borrowed(Self::DOWNSTREAM_RATE_LIMITED), retryable: false, ..error }
    }

    /// Returns a member of the details, if it can be read.
    pub(crate) fn detail<T: DeserializeOwned>(&self, member: &str) -> Option<T> {
        T::deserialize(self.details.get(member)?).ok()
    }

    /// Creates the error of a call whose specified deadline passed after this time.
    #[must_use]
    pub fn deadline_exceeded(deadline: &SpecifiedDeadline, elapsed: MeshDuration) -> Self {
        let details = serde_json::json!({ "deadline": deadline, "elapsed": elapsed });
        Self::new(Self::DEADLINE_EXCEEDED, "Request deadline exceeded").retryable().details(details)
    }
}

impl From<RateLimited> for MeshError {
    fn from(limited: RateLimited) -> Self {
        let message = match &limited.function {
            Some(function) => format!("Rate limit exceeded for {function}"),
            None => "Rate limit exceeded".to_owned(),
        };
        // If no wait helps, neither does another attempt.
        let retryable = limited.retry_after.is_some_and(|wait| wait != MeshDuration::NEVER);
        Self { code: Cow::Borrowed(Self::RATE_LIMITED), message, retryable, details: super::details_of(&limited) }
    }
}

impl From<&DeadlineReport> for MeshError {
    fn from(report: &DeadlineReport) -> Self {
        Self::deadline_exceeded(&report.specified, report.elapsed)
    }
}

/// Converts a failed downstream call, without disclosing addresses.
///
/// `DEADLINE_EXCEEDED` is kept. Other errors are `DOWNSTREAM_RATE_LIMITED` or `DOWNSTREAM_FAILED`.
impl From<ClientError> for MeshError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::DeadlineExceeded(exceeded) => exceeded.into(),
            ClientError::Paced(_) => Self::new(Self::DOWNSTREAM_RATE_LIMITED, error.to_string()),
            _ => Self::new(Self::DOWNSTREAM_FAILED, error.to_string()),
        }
    }
}

impl From<DeadlineExceeded> for MeshError {
    fn from(exceeded: DeadlineExceeded) -> Self {
        let specified = SpecifiedDeadline::after(exceeded.specified());
        Self::deadline_exceeded(&specified, MeshDuration::rounded_up(exceeded.elapsed()))
    }
}

impl fmt::Display for MeshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

damper_core::internal::debug_by_display!(MeshError);

impl Error for MeshError {}
