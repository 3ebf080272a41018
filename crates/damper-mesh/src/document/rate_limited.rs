//! The details of a refusal.

use super::read_error::read_part;
use super::{MeshDuration, MeshError, ReadError, Scope};
use damper_core::limit::{Denied, Usage};
use damper_http::Limited;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::time::Duration;

/// The details of the error `RATE_LIMITED`.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// use damper::mesh::{MeshError, RateLimited};
/// use damper::{ManualClock, Quota, RateLimiter};
///
/// let limiter = RateLimiter::with_clock(Quota::per_minute(1), ManualClock::new());
/// limiter.check()?;
/// let denied = limiter.check().unwrap_err();
/// let error = MeshError::from(RateLimited::by(&denied, &limiter.peek()));
/// assert_eq!(error.to_string(), "RATE_LIMITED: Rate limit exceeded");
/// assert_eq!(RateLimited::of(&error)?.and_then(|limited| limited.retry_after), RateLimited::by(&denied, &limiter.peek()).retry_after);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RateLimited {
    /// The tokens allowed in the window. For a token bucket it is the burst.
    pub limit: u64,
    /// The tokens used, which are the whole limit.
    pub used: u64,
    /// The window. For a token bucket it is the time in which the burst refills.
    pub window: MeshDuration,
    /// The shortest wait after which the call could pass.
    ///
    /// If no wait helps, damper writes [`MeshDuration::NEVER`] and makes the error not retryable. Mesh itself only has
    /// refusals that end, and always allows a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<MeshDuration>,
    /// The scope, or `None` for an unknown scope.
    #[serde(default, deserialize_with = "known_scope", skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The function, for a function limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

impl RateLimited {
    /// Creates the details of a limiter's refusal from its usage.
    #[must_use]
    pub fn by(denied: &Denied, usage: &Usage) -> Self {
        Self::new(usage.limit(), usage.window(), denied.retry_after())
    }

    /// Creates the details of a refusal by a layer of `damper::http`.
    #[must_use]
    pub fn by_layer(limited: &Limited) -> Self {
        let quota = limited.standing().quota;
        Self::new(quota.burst_size(), quota.refill_window(), limited.retry_after())
    }

    fn new(limit: u32, window: Option<Duration>, retry_after: Option<Duration>) -> Self {
        Self {
            limit: limit.into(),
            used: limit.into(),
            window: window.map_or(MeshDuration::NEVER, MeshDuration::rounded_up),
            retry_after: Some(retry_after.map_or(MeshDuration::NEVER, MeshDuration::wait)),
            scope: None,
            function: None,
        }
    }

    /// Names the scope of the limit.
    #[must_use]
    pub fn scope(self, scope: Scope) -> Self {
        Self { scope: Some(scope), ..self }
    }

    /// Names the function whose limit refused.
    #[must_use]
    pub fn function(self, function: impl Into<String>) -> Self {
        Self { scope: Some(Scope::Function), function: Some(function.into()), ..self }
    }

    /// Reads the details of an error, or returns `None` for an error with another code.
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed.
    pub fn of(error: &MeshError) -> Result<Option<Self>, ReadError> {
        if error.code != MeshError::RATE_LIMITED {
            return Ok(None);
        }
        read_part("details", &error.details).map(Some)
    }
}

/// Reads a scope, or `None` for a scope of a later version of Mesh.
fn known_scope<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Scope>, D::Error> {
    let scope = Option::<String>::deserialize(deserializer)?;
    Ok(scope.and_then(|scope| Scope::deserialize(Value::from(scope)).ok()))
}

/// The details as a JSON value.
pub(crate) fn details_of(limited: &RateLimited) -> Value {
    // Numbers and texts are always JSON values.
    serde_json::to_value(limited).unwrap_or_default()
}
