//! How a call of any service ended.

use core::error::Error;
#[cfg(feature = "tokio")]
use core::iter::successors;
use damper_core::gate::{Ending, Verdict};
#[cfg(feature = "tokio")]
use damper_core::internal::source_of;
#[cfg(doc)]
use damper_core::is_refusal;
use damper_core::retry::EveryErr;

/// Says how a call ended, by what a service of the response `T` and the error `E` returned.
///
/// Every closure with this argument does, which returns an [`Ending`] or a [`Verdict`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not judge the results of a service whose response is `{T}` and whose error is `{E}`",
    note = "a closure has the form `|result: &Result<{T}, {E}>| -> damper::gate::Ending`",
    note = "by default every error that implements `Error` is judged; for those in boxes, put \
    `.map_err(damper::BoxedError::from)` between the layer and the service"
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
/// With the feature `tokio`, the error of tower's timeout is [`TimedOut`](Ending::TimedOut) too.
///
/// An `Err` is a call without an answer, a failure for breakers and a rejection for throttles. [Refusals](is_refusal) of damper's own are
/// not, because a limiter or a bulkhead behind the gate refused the call before it reached the server.
impl<T, E: Error + 'static> ClassifyResult<T, E> for EveryErr {
    #[inline]
    fn verdict(&self, result: &Result<T, E>) -> Verdict {
        Verdict::of(result.as_ref().map_or_else(|error| ending_of_error(error), |_| Ending::Success))
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

/// Returns the ending of an error as [`Ending::of_error`] does, and of tower's timeout.
#[doc(hidden)]
#[must_use]
pub fn ending_of_error(error: &(dyn Error + 'static)) -> Ending {
    let ending = Ending::of_error(error);
    #[cfg(feature = "tokio")]
    if ending == Ending::Broken
        && successors(Some(error), |&error| source_of(error)).any(<dyn Error>::is::<tower::timeout::error::Elapsed>)
    {
        return Ending::TimedOut;
    }
    ending
}
