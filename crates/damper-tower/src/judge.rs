//! How a call of any service ended.

use core::error::Error;
use damper_core::gate::{Ending, Verdict};
#[cfg(doc)]
use damper_core::is_refusal;

/// Says how a call ended, by what a service of the response `T` and the error `E` returned.
///
/// Every closure with this argument does, which returns an [`Ending`] or a [`Verdict`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not judge the results of a service whose response is `{T}` and whose error is `{E}`",
    note = "a closure has the form `|result: &Result<{T}, {E}>| -> damper::gate::Ending`",
    note = "by default every error that implements `Error` is judged; for those in boxes: \
    `.classify(|result: &Result<{T}, {E}>| result.as_ref().map_or_else(|error| Ending::of_error(&**error), |_| Ending::Success))`"
)]
pub trait ClassifyResult<T, E> {
    /// Returns the verdict.
    fn verdict(&self, result: &Result<T, E>) -> Verdict;
}

impl<T, E, V, F> ClassifyResult<T, E> for F
where
    F: Fn(&Result<T, E>) -> V,
    V: Into<Verdict>,
{
    #[inline]
    fn verdict(&self, result: &Result<T, E>) -> Verdict {
        self(result).into()
    }
}

/// Takes every `Ok` as a success and every `Err` as [`Ending::of_error`] does.
///
/// An `Err` is a call without an answer, a failure for breakers and a rejection for throttles. [Refusals](is_refusal) of damper's own are
/// not, because a limiter or a bulkhead behind the gate refused the call before it reached the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryErr;

impl<T, E: Error + 'static> ClassifyResult<T, E> for EveryErr {
    #[inline]
    fn verdict(&self, result: &Result<T, E>) -> Verdict {
        Verdict::of_result(result)
    }
}

/// Takes every `Ok` as a success, and every `Err` as a [failure](Ending::Failed) of the service, without a look at the error.
///
/// Limits read results so, because the errors of tower's services are often in boxes: a limiter and a bulkhead learn nothing from results,
/// and an adaptive limit learns from successes.
#[derive(Clone, Copy, Debug, Default)]
pub struct OkOrErr;

impl<T, E> ClassifyResult<T, E> for OkOrErr {
    #[inline]
    fn verdict(&self, result: &Result<T, E>) -> Verdict {
        Verdict::of(if result.is_ok() { Ending::Success } else { Ending::Failed })
    }
}
