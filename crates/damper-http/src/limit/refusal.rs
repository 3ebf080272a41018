//! Why a request may not pass.

use super::Standing;
use crate::MissingPeer;
use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use core::time::Duration;
use damper_core::internal::Human;
use damper_core::limit::Denied;
use damper_core::quota::Quota;

/// Why a request may not pass.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// It is over the limit.
    Limited(Limited),
    /// Nothing can be decided on it.
    Failed(LimitError),
}

impl From<Limited> for Refusal {
    fn from(limited: Limited) -> Self {
        Self::Limited(limited)
    }
}

impl From<MissingPeer> for Refusal {
    fn from(error: MissingPeer) -> Self {
        Self::Failed(error.into())
    }
}

/// A request is over the limit. Displayed as a sentence: `rate limit exceeded, retry in 1.2 s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limited {
    /// The shortest wait after which it could pass; `None` if no wait helps.
    pub retry_after: Option<Duration>,
    /// How the limit stands.
    pub standing: Standing,
}

impl Limited {
    /// Could pass after so long a wait; `None` if no wait helps.
    #[must_use]
    pub fn new(retry_after: Option<Duration>, standing: Standing) -> Self {
        Self { retry_after, standing }
    }

    /// Denied by a limiter of this quota.
    #[must_use]
    pub fn by(denied: Denied, quota: Quota) -> Self {
        Self::new(denied.retry_after(), Standing::new(quota, denied.remaining(), denied.resets_in()))
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after {
            Some(wait) => write!(f, "rate limit exceeded, retry in {}", Human(wait)),
            None => f.write_str("rate limit exceeded, and no wait helps"),
        }
    }
}

/// A limit could not decide on a request, which is answered with `500 Internal Server Error`.
///
/// The client learns no more than that. The reason is the error's `source`: it goes to the layer's
/// [`on_error`](crate::RateLimitLayer::on_error), and to metrics and logs as the docs of [`damper::http`](crate) say.
#[derive(Debug)]
#[non_exhaustive]
pub enum LimitError {
    /// It does not say where it is from.
    MissingPeer(MissingPeer),
    /// Something else.
    Other(Box<dyn Error + Send + Sync>),
}

impl LimitError {
    /// For an error of yours.
    pub fn other(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }
}

impl From<MissingPeer> for LimitError {
    fn from(error: MissingPeer) -> Self {
        Self::MissingPeer(error)
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rate limit could not decide")
    }
}

impl Error for LimitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::MissingPeer(error) => Some(error),
            Self::Other(error) => Some(&**error),
        }
    }
}
