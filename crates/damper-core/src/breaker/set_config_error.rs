//! Why a configuration was not changed.

use core::fmt;

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
