//! The verdict on the result of a call.

use core::error::Error;
use damper_core::breaker::Verdict;
use damper_core::gate::{self, Ending};
#[cfg(doc)]
use damper_core::is_refusal;

/// Returns the verdict on what a service of the response `T` and the error `E` returned.
///
/// Every closure with this argument implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not judge the results of a service whose response is `{T}` and whose error is `{E}`",
    note = "a closure has the form `|result: &Result<{T}, {E}>| -> damper::breaker::Verdict`",
    note = "by default every error that implements `Error` is judged; for those in boxes: \
    `.classify(|result: &Result<{T}, {E}>| result.as_ref().map_or_else(|error| EveryErr::judge(&**error), |_| Verdict::Success))`"
)]
pub trait ClassifyResult<T, E> {
    /// Returns the verdict.
    fn verdict(&self, result: &Result<T, E>) -> Verdict;
}

impl<T, E, F: Fn(&Result<T, E>) -> Verdict> ClassifyResult<T, E> for F {
    #[inline]
    fn verdict(&self, result: &Result<T, E>) -> Verdict {
        self(result)
    }
}

/// Counts every `Err` as a failure and every `Ok` as a success, but ignores [refusals](is_refusal) of damper's own.
///
/// A limiter or a bulkhead behind a breaker or a throttle refuses a call before it reaches the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryErr;

impl EveryErr {
    /// Returns the verdict on an error.
    ///
    /// # Examples
    ///
    /// For a service whose errors are in boxes, as those of tower's timeouts are:
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
    /// use damper::breaker::Verdict;
    /// use damper::tower::{BreakerLayer, EveryErr};
    /// use damper::{BreakerConfig, CircuitBreaker};
    /// use std::error::Error;
    ///
    /// static DATABASE: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
    ///
    /// let layer = BreakerLayer::new(&DATABASE).classify(|result: &Result<u32, Box<dyn Error + Send + Sync>>| match result {
    ///     Ok(_) => Verdict::Success,
    ///     Err(error) => EveryErr::judge(&**error),
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn judge(error: &(dyn Error + 'static)) -> Verdict {
        Verdict::from(&gate::Verdict::of(Ending::of_error(error)))
    }
}

impl<T, E: Error + 'static> ClassifyResult<T, E> for EveryErr {
    #[inline]
    fn verdict(&self, result: &Result<T, E>) -> Verdict {
        match result {
            Ok(_) => Verdict::Success,
            Err(error) => Self::judge(error),
        }
    }
}
