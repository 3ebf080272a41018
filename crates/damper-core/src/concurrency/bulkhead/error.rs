//! Why a bulkhead gave no permit.

use crate::breaker::source_of;
use crate::concurrency::RefusalCause;
use core::fmt;

/// The refusal of a bulkhead or an adaptive limit: the call was not made.
///
/// Displayed as a sentence with the cause: `too many calls in flight, limit 64, queue full`.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{Bulkhead, BulkheadFull};
/// use damper::concurrency::RefusalCause;
///
/// let pool = Bulkhead::new(1);
/// let _permit = pool.try_acquire()?;
/// let full = pool.try_acquire().unwrap_err();
/// assert_eq!((full.limit(), full.cause()), (1, RefusalCause::NoSlot));
/// assert_eq!(full.to_string(), "too many calls in flight, limit 1");
/// # }
/// # Ok::<(), damper::BulkheadFull>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BulkheadFull {
    limit: u32,
    cause: RefusalCause,
}

impl BulkheadFull {
    pub(crate) const fn new(limit: u32, cause: RefusalCause) -> Self {
        Self { limit, cause }
    }

    /// Returns the limit that was in force, in calls in flight.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns why the call got no permit.
    #[must_use]
    pub const fn cause(&self) -> RefusalCause {
        self.cause
    }

    /// Returns the first `BulkheadFull` in an error's chain of sources, the error itself included.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{Bulkhead, BulkheadFull};
    ///
    /// let full = Bulkhead::new(0).try_acquire().unwrap_err();
    /// let error = std::io::Error::other(full);
    /// assert_eq!(BulkheadFull::find_in(&error), Some(&full));
    /// # }
    /// ```
    #[must_use]
    pub fn find_in<'a>(error: &'a (dyn core::error::Error + 'static)) -> Option<&'a Self> {
        core::iter::successors(Some(error), |error| source_of(*error)).find_map(|error| error.downcast_ref())
    }
}

impl fmt::Display for BulkheadFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        match self.cause {
            RefusalCause::NoSlot => write!(f, "too many calls in flight, limit {limit}"),
            RefusalCause::NoQueue => write!(f, "too many calls in flight, limit {limit}, no queue to wait in"),
            RefusalCause::QueueFull => write!(f, "too many calls in flight, limit {limit}, queue full"),
            RefusalCause::TimedOut => write!(f, "too many calls in flight, limit {limit}, no slot in time"),
            RefusalCause::Displaced => write!(f, "too many calls in flight, limit {limit}, displaced by a newer call"),
            RefusalCause::Late => f.write_str("too little time is left for the call"),
            RefusalCause::StoreFull => f.write_str("no room for another key, those that were looked at are in use"),
        }
    }
}

crate::internal::debug_by_display!(BulkheadFull);

impl core::error::Error for BulkheadFull {}
