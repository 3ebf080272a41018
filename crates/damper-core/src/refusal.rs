//! Refusals, among all errors.

use crate::breaker::{CircuitOpen, source_of};
#[cfg(feature = "alloc")]
use crate::concurrency::NotAdmitted;
use crate::concurrency::{BulkheadFull, LimitSetRefusal};
use crate::limit::{Denied, LimitSetDenied};
use crate::throttle::{PaceTooSlow, Throttled};
use core::error::Error;

/// Returns whether an error is a refusal of damper, or has one among its sources.
///
/// The call was not made then, so the error says nothing about the server.
///
/// Refusals are [`CircuitOpen`], [`Denied`], [`LimitSetDenied`], [`LimitSetRefusal`], [`Throttled`], [`PaceTooSlow`], [`BulkheadFull`] and `NotAdmitted`. The default
/// classifiers of breaker layers ignore them, and retries end with them. A classifier of your own can ask this too.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::breaker::Verdict;
/// use damper::{Bulkhead, is_refusal};
///
/// fn verdict<T>(result: &Result<T, std::io::Error>) -> Verdict {
///     match result {
///         Err(error) if is_refusal(error) => Verdict::Ignored,
///         other => Verdict::of(other),
///     }
/// }
///
/// let full = Bulkhead::new(0).try_acquire().unwrap_err();
/// assert_eq!(verdict::<()>(&Err(std::io::Error::other(full))), Verdict::Ignored);
/// # }
/// ```
#[must_use]
pub fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    core::iter::successors(Some(error), |error| source_of(*error)).any(|error| {
        #[cfg(feature = "alloc")]
        if error.is::<NotAdmitted>() {
            return true;
        }
        error.is::<CircuitOpen>()
            || error.is::<Denied>()
            || error.is::<LimitSetDenied>()
            || error.is::<LimitSetRefusal>()
            || error.is::<Throttled>()
            || error.is::<PaceTooSlow>()
            || error.is::<BulkheadFull>()
    })
}
