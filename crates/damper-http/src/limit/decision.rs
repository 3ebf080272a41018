//! The decision of a limit.

use super::Refusal;
use damper_core::gate::{self, Never, Standing};

/// The answer of a limit to a request: it may pass, or a refusal.
///
/// The first has the standing of the limit if that was asked for.
pub type Answer = Result<Option<Standing>, Refusal>;

/// The decision of a limit: the request may pass, is refused, or waits for a future that decides.
///
/// While a request waits, the service holds it and a clone of the service to call.
pub type Decision<F> = gate::Answer<Option<Standing>, F, Refusal>;

/// The future of a limit at which no request waits.
pub type NoWait = Never<Option<Standing>, Refusal>;

/// The contents of an answer that allows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing: `None`.
    None,
    /// The standing of the limit, for headers: `Some(standing)`.
    Standing,
}

impl Detail {
    /// Calls `standing` and returns its result if that is asked for.
    #[inline]
    #[must_use]
    pub fn then(self, standing: impl FnOnce() -> Standing) -> Option<Standing> {
        match self {
            Self::None => None,
            Self::Standing => Some(standing()),
        }
    }
}
