//! The error of a call through a bulkhead.

use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use damper_core::concurrency::BulkheadFull;

/// Why a call through a [`BulkheadLayer`](super::BulkheadLayer) did not succeed: the bulkhead refused it, or it was made and
/// failed.
///
/// Displayed, it says which of the two it was; why is its `source()`. So damper's retries find the [`BulkheadFull`] and make
/// no other attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkheadError<E> {
    /// The bulkhead refused the call, or had no permit for it in time.
    Refused(BulkheadFull),
    /// The call was made and returned this error.
    Failed(E),
}

impl<E> BulkheadError<E> {
    /// Returns the refusal, if the call was not made.
    #[must_use]
    pub const fn refusal(&self) -> Option<&BulkheadFull> {
        match self {
            Self::Refused(full) => Some(full),
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

impl<E: Into<Box<dyn Error + Send + Sync>>> BulkheadError<E> {
    /// In a box, for services whose errors are in boxes already, and so are no errors themselves: the refusal, or the
    /// error of the call as it is.
    pub fn into_boxed(self) -> Box<dyn Error + Send + Sync> {
        match self {
            Self::Refused(full) => Box::new(full),
            Self::Failed(error) => error.into(),
        }
    }
}

impl<E> fmt::Display for BulkheadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused(_) => "call refused by the bulkhead",
            Self::Failed(_) => "call failed",
        })
    }
}

impl<E: Error + 'static> Error for BulkheadError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(full) => Some(full),
            Self::Failed(error) => Some(error),
        }
    }
}

impl<E> From<BulkheadFull> for BulkheadError<E> {
    fn from(full: BulkheadFull) -> Self {
        Self::Refused(full)
    }
}
