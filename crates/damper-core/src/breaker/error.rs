//! Why a breaker refused a call, or kept its configuration.

use crate::time::Human;
use core::fmt;
use core::time::Duration;

/// The refusal of a breaker: the call was not made.
///
/// Displayed as a sentence: `circuit open, next probe in 28 s`, `circuit half-open, probe in progress`,
/// `circuit returning, twice as many calls pass in 5 s` or `circuit forced open`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CircuitOpen(OpenReason);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenReason {
    /// The wait in microseconds. Converted to a duration only on request, because that takes a division.
    For(u64),
    Probing,
    /// The wait in microseconds until twice as many calls pass, or all.
    Returning(u64),
    Forced,
}

impl CircuitOpen {
    pub(crate) const PROBING: Self = Self(OpenReason::Probing);
    pub(crate) const FORCED: Self = Self(OpenReason::Forced);

    pub(crate) const fn for_micros(micros: u64) -> Self {
        Self(OpenReason::For(micros))
    }

    pub(crate) const fn returning(micros: u64) -> Self {
        Self(OpenReason::Returning(micros))
    }

    /// The time until the next probe may pass, rounded up to microseconds.
    ///
    /// While the breaker is [returning](super::State::Returning), it is the time until twice the share of the calls passes, or all of
    /// them. A call may pass earlier, and may be refused then too.
    ///
    /// `None` while the outcome of probes in flight decides, and where the breaker was forced open.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.0 {
            OpenReason::For(micros) | OpenReason::Returning(micros) => Some(Duration::from_micros(micros)),
            OpenReason::Probing | OpenReason::Forced => None,
        }
    }

    /// Returns the first `CircuitOpen` in an error's chain of sources, the error itself included.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{CallError, CircuitBreaker, CircuitOpen};
    ///
    /// let breaker = CircuitBreaker::default();
    /// breaker.force_open();
    /// let error = std::io::Error::other(breaker.call(|| Err::<(), _>(core::fmt::Error)).unwrap_err());
    /// assert!(CircuitOpen::find_in(&error).is_some());
    /// let refused = breaker.try_acquire().unwrap_err();
    /// assert!(CircuitOpen::find_in(&std::io::Error::other(refused)).is_some());
    /// # }
    /// ```
    #[must_use]
    pub fn find_in<'a>(error: &'a (dyn core::error::Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = source_of(error);
        }
        None
    }
}

/// Returns the source of an error.
pub(crate) fn source_of<'a>(
    error: &'a (dyn core::error::Error + 'static),
) -> Option<&'a (dyn core::error::Error + 'static)> {
    // The source of an I/O error is that of the error that it wraps, which would be skipped.
    #[cfg(feature = "std")]
    if let Some(wrapped) = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        return Some(wrapped);
    }
    // The error in the box is the source, because the wrapper's own source skips it.
    #[cfg(feature = "alloc")]
    if let Some(boxed) = error.downcast_ref::<crate::BoxedError>() {
        return Some(boxed.get_ref());
    }
    error.source()
}

impl fmt::Display for CircuitOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            OpenReason::For(micros) => {
                write!(f, "circuit open, next probe in {}", Human(Duration::from_micros(micros)))
            }
            OpenReason::Probing => f.write_str("circuit half-open, probe in progress"),
            OpenReason::Returning(micros) => {
                write!(f, "circuit returning, twice as many calls pass in {}", Human(Duration::from_micros(micros)))
            }
            OpenReason::Forced => f.write_str("circuit forced open"),
        }
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for CircuitOpen {
    #[allow(clippy::match_same_arms, reason = "texts that differ are alike once they are interned")]
    fn format(&self, f: defmt::Formatter<'_>) {
        match self.0 {
            OpenReason::For(micros) => {
                defmt::write!(f, "circuit open, next probe in {=u64:us}", micros);
            }
            OpenReason::Probing => defmt::write!(f, "circuit half-open, probe in progress"),
            OpenReason::Returning(micros) => {
                defmt::write!(f, "circuit returning, twice as many calls pass in {=u64:us}", micros);
            }
            OpenReason::Forced => defmt::write!(f, "circuit forced open"),
        }
    }
}

crate::internal::debug_by_display!(CircuitOpen);

impl core::error::Error for CircuitOpen {}

/// Why a breaker keeps its configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SetConfigError {
    /// Another thread is changing the configuration at this moment. Retry later.
    Busy,
}

impl fmt::Display for SetConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("another thread is changing the configuration"),
        }
    }
}

crate::internal::debug_by_display!(SetConfigError);

impl core::error::Error for SetConfigError {}
