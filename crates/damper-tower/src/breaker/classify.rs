//! The verdict on the result of a call.

use damper_core::breaker::Verdict;

/// Returns the verdict on what a service of the response `T` and the error `E` returned.
///
/// Every closure with this argument implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not judge the results of a service whose response is `{T}` and whose error is `{E}`",
    note = "a closure has the form `|result: &Result<{T}, {E}>| -> damper::Verdict`"
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

/// Counts every `Err` as a failure and every `Ok` as a success.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryErr;

impl<T, E> ClassifyResult<T, E> for EveryErr {
    #[inline]
    fn verdict(&self, result: &Result<T, E>) -> Verdict {
        Verdict::of(result)
    }
}
