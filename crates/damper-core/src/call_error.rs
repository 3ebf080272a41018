//! Why a call did not succeed.

use crate::breaker::CircuitOpen;
#[cfg(doc)]
use crate::gate::NotSent;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use crate::gate::{Refusal, boxed_refusal};
use crate::gate::{is_refusal, source_of_refusal};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::boxed::Box;
use core::fmt;

/// Why a call did not succeed: it was refused and not made, or it was made and failed.
///
/// `R` is the refusal: [`CircuitOpen`] of a [`CircuitBreaker`](crate::CircuitBreaker), [`BulkheadFull`](crate::BulkheadFull) of a
/// [`Bulkhead`](crate::Bulkhead) or an [`AdaptiveLimit`](crate::AdaptiveLimit).
///
/// Displayed, it says which of the two it was; its `source()` says why, and is the refusal or the call's own error. So
/// a chain of sources, as `{:#}` of `anyhow` prints it, says everything once (`call refused: circuit open, next probe in 28 s`),
/// and the refusal is found in it, whatever the error is wrapped in. The refusal of a gate of your own is in the message, and the source is
/// [`NotSent`], so that gates around it know that the call was not made. Its `Debug` adds that of the source, so that `?` in
/// `main` prints both.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// let breaker = damper::CircuitBreaker::default();
/// breaker.force_open();
/// let error = breaker.call(|| "42".parse::<u32>()).unwrap_err();
/// assert_eq!(error.to_string(), "call refused");
/// assert_eq!(error.refusal().unwrap().to_string(), "circuit forced open");
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CallError<E, R = CircuitOpen> {
    /// The call was not made.
    Refused(R),
    /// The call was made and returned this error.
    Failed(E),
}

impl<E, R> CallError<E, R> {
    /// Returns whether the call was refused, and so not made.
    #[must_use]
    pub const fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Returns the refusal, if the call was not made.
    #[must_use]
    pub const fn refusal(&self) -> Option<&R> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Failed(_) => None,
        }
    }

    /// Returns the error that the call returned, if it was made.
    #[must_use]
    pub fn into_failed(self) -> Option<E> {
        match self {
            Self::Refused(_) => None,
            Self::Failed(error) => Some(error),
        }
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<E, R> CallError<E, R>
where
    E: Into<Box<dyn core::error::Error + Send + Sync>>,
    R: Refusal,
{
    /// Puts the refusal or the error of the call into a box.
    ///
    /// The refusal of a gate of your own is in an [`AnyRefusal`](crate::gate::AnyRefusal) there, by which [`is_refusal`](crate::is_refusal)
    /// knows it. It is for services whose errors are in boxes already, and so are no errors themselves.
    pub fn into_boxed(self) -> Box<dyn core::error::Error + Send + Sync> {
        match self {
            Self::Refused(refusal) => boxed_refusal(refusal),
            Self::Failed(error) => error.into(),
        }
    }
}

impl<E, R: core::error::Error + 'static> fmt::Display for CallError<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) if is_refusal(refusal) => f.write_str("call refused"),
            Self::Refused(refusal) => write!(f, "call refused: {refusal}"),
            Self::Failed(_) => f.write_str("call failed"),
        }
    }
}

impl<E: fmt::Debug, R: fmt::Debug> fmt::Debug for CallError<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "call refused: {refusal:?}"),
            Self::Failed(error) => write!(f, "call failed: {error:?}"),
        }
    }
}

impl<E: core::error::Error + 'static, R: core::error::Error + 'static> core::error::Error for CallError<E, R> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Refused(refusal) => Some(source_of_refusal(refusal)),
            Self::Failed(error) => Some(error),
        }
    }
}

impl<E, R> From<R> for CallError<E, R> {
    fn from(refusal: R) -> Self {
        Self::Refused(refusal)
    }
}
