//! The decision of a limit.

use super::Refusal;
use damper_core::gate::Standing;

/// The answer of a limit to a request: it may pass, or a refusal.
///
/// The first has the standing of the limit if that was asked for.
pub type Answer = Result<Option<Standing>, Refusal>;

/// A decision that is made at once, or one that is not.
///
/// Until a later decision is made, the service holds the request and a clone of the service to call. It holds nothing
/// for a decision that is made at once.
#[derive(Debug)]
pub enum Decision<F> {
    /// The decision is made.
    Now(Answer),
    /// This future makes the decision.
    Later(F),
}

/// The contents of an answer that allows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing: `Ok(None)`.
    None,
    /// The standing of the limit, for headers: `Ok(Some(standing))`.
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
