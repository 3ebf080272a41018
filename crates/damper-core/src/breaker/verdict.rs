//! What a call says about what was called.

use core::time::Duration;

/// What a call says about what was called.
///
/// A failure is what waiting may cure: no connection, a timeout, an answer of 5xx. What the caller did wrong (an
/// answer of 404, a value that does not parse) is none, and neither is 429: that callee is alive, and says itself
/// how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Verdict {
    /// It works. A probe that took as long as a [slow call](super::BreakerConfigBuilder::slow_rate) counts as failed
    /// all the same.
    Success,
    /// It failed.
    Failure,
    /// It failed, and asked to be left alone for so long.
    RetryAfter(Duration),
    /// Nothing: as if the call had not been made.
    Ignored,
}

impl Verdict {
    /// `Ok` is a success, `Err` a failure.
    #[must_use]
    pub fn of<T, E>(result: &Result<T, E>) -> Self {
        Self::failure_if(result.is_err())
    }

    /// A failure, or else a success.
    #[must_use]
    pub fn failure_if(failed: bool) -> Self {
        if failed { Self::Failure } else { Self::Success }
    }
}
