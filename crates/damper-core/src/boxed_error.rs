//! An error in a box that is an error itself.

use alloc::boxed::Box;
use core::error::Error;
use core::fmt;

/// An error in a box that is an error itself, for services whose errors are in boxes.
///
/// A `Box<dyn Error + Send + Sync>` implements no `Error`, so nothing that takes errors takes it: neither the default judges of breakers,
/// throttles, limits, retries and hedges, nor `CallError` as an error. Services have such errors behind tower's `timeout`, `Buffer` and
/// others. Put the errors into this type, by one `map_err` between the services and the layers of damper. The judges then look into the box:
/// they find a refusal, a deadline that passed or an error of the transport there.
///
/// It is displayed as the error in the box, and has its source.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{BoxedError, CircuitBreaker, Retry};
/// use std::error::Error;
///
/// fn fetch() -> Result<String, Box<dyn Error + Send + Sync>> {
///     Err("unreachable".into())
/// }
///
/// let breaker = CircuitBreaker::default();
/// let error = Retry::new(2).call(|_| breaker.call(|| fetch().map_err(BoxedError::from))).unwrap_err();
/// assert_eq!(error.attempts(), 2);
/// # }
/// ```
pub struct BoxedError(Box<dyn Error + Send + Sync>);

impl BoxedError {
    /// Returns the error in the box.
    #[must_use]
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }

    /// Returns the box.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}

impl From<Box<dyn Error + Send + Sync>> for BoxedError {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        Self(error)
    }
}

impl fmt::Display for BoxedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for BoxedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Error for BoxedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
