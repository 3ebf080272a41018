//! Why a call did not succeed.

use crate::clock::Human;
use core::fmt;
use core::time::Duration;

/// The refusal of a breaker: the call was not made.
///
/// Displayed as a sentence: `circuit open, next probe in 28 s`, or `circuit half-open, probe in progress`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitOpen {
    pub(super) retry_after: Option<Duration>,
}

impl CircuitOpen {
    /// The time until the next probe may pass, rounded up to microseconds; `None` while probes are out, whose outcome decides.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for CircuitOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after {
            Some(wait) => write!(f, "circuit open, next probe in {}", Human(wait)),
            None => f.write_str("circuit half-open, probe in progress"),
        }
    }
}

impl core::error::Error for CircuitOpen {}

/// Why a call through a breaker did not succeed: it was refused, or made and failed.
///
/// Either reason is the `source()` of this error, so that [`CircuitOpen`] is found in any chain of sources; displayed, it says only
/// which of the two it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError<E> {
    /// The breaker refused the call.
    Open(CircuitOpen),
    /// The call was made and returned this error.
    Failed(E),
}

impl<E> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open(_) => "call refused",
            Self::Failed(_) => "call failed",
        })
    }
}

impl<E: core::error::Error + 'static> core::error::Error for CallError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Open(open) => Some(open),
            Self::Failed(error) => Some(error),
        }
    }
}

impl<E> From<CircuitOpen> for CallError<E> {
    fn from(open: CircuitOpen) -> Self {
        Self::Open(open)
    }
}
