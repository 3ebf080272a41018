//! The error of a call through a limiter.

use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use damper_core::limit::Denied;

/// Why a call through a [`LimitLayer`](super::LimitLayer) did not succeed: the limiter refused it, or it was made and
/// failed.
///
/// Displayed, it says which of the two it was; why is its `source()`. So damper's retries find the [`Denied`] and make no
/// other attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedError<E> {
    /// The limiter refused the call, or had no tokens for it in time.
    Denied(Denied),
    /// The call was made and returned this error.
    Failed(E),
}

impl<E> LimitedError<E> {
    /// Returns the limiter's refusal, if the call was not made.
    #[must_use]
    pub const fn denied(&self) -> Option<&Denied> {
        match self {
            Self::Denied(denied) => Some(denied),
            Self::Failed(_) => None,
        }
    }

    /// Returns the error that the call returned, if it was made.
    #[must_use]
    pub fn into_failed(self) -> Option<E> {
        match self {
            Self::Denied(_) => None,
            Self::Failed(error) => Some(error),
        }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> LimitedError<E> {
    /// In a box, for services whose errors are in boxes already, and so are no errors themselves: the refusal, or the
    /// error of the call as it is.
    pub fn into_boxed(self) -> Box<dyn Error + Send + Sync> {
        match self {
            Self::Denied(denied) => Box::new(denied),
            Self::Failed(error) => error.into(),
        }
    }
}

impl<E> fmt::Display for LimitedError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Denied(_) => "call refused by the rate limit",
            Self::Failed(_) => "call failed",
        })
    }
}

impl<E: Error + 'static> Error for LimitedError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Denied(denied) => Some(denied),
            Self::Failed(error) => Some(error),
        }
    }
}

impl<E> From<Denied> for LimitedError<E> {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}
