//! The error of a request that could not be made.

use super::BoxError;
use core::error::Error;
use core::fmt;
use core::iter::successors;
use damper_core::internal::source_of;

/// The error of a request that an [`HttpClient`](super::HttpClient) could not convert.
///
/// For example, its address was relative.
///
/// Nothing was sent, and another attempt would fail in the same way. So retries and hedges treat it as fatal, and breakers, throttles and
/// adaptive limits ignore it.
///
/// It is displayed as `request could not be made`. Its source is the error of the conversion.
pub struct RequestNotMade {
    source: BoxError,
}

impl RequestNotMade {
    pub(super) fn new(source: BoxError) -> Self {
        Self { source }
    }

    /// Returns the first such error in the chain of an error's sources, the error itself included.
    #[must_use]
    pub fn find_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        successors(Some(error), |&error| source_of(error)).find_map(|error| error.downcast_ref())
    }
}

impl fmt::Display for RequestNotMade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("request could not be made")
    }
}

damper_core::internal::debug_by_display!(RequestNotMade, with sources);

impl Error for RequestNotMade {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
