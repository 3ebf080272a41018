//! Why a call was not admitted.

use crate::breaker::source_of;
use crate::concurrency::RefusalCause;
use crate::time::Human;
use core::fmt;
use core::time::Duration;

/// The refusal of an [`Admission`](super::Admission): the call was not made.
///
/// Displayed as a sentence with the cause: `not admitted, limit 64 reached, queue full, retry in 120 ms`.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::concurrency::{Admission, AdmissionRequest, NotAdmitted, RefusalCause};
///
/// let gate = Admission::fixed(1);
/// let _permit = gate.try_acquire(AdmissionRequest::new())?;
/// let refused = gate.try_acquire(AdmissionRequest::new()).unwrap_err();
/// assert_eq!(refused.cause(), RefusalCause::NoSlot);
/// assert_eq!(refused.to_string(), "not admitted, limit 1 reached");
/// # }
/// # Ok::<(), damper::concurrency::NotAdmitted>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg(feature = "alloc")]
pub struct NotAdmitted {
    cause: RefusalCause,
    limit: u32,
    retry_after: Option<Duration>,
}

impl NotAdmitted {
    pub(super) const fn new(cause: RefusalCause, limit: u32, retry_after: Option<Duration>) -> Self {
        Self { cause, limit, retry_after }
    }

    /// Returns why the call was not admitted.
    #[must_use]
    pub const fn cause(&self) -> RefusalCause {
        self.cause
    }

    /// Returns the limit that was in force, in calls in flight.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the time in which the calls queued now will be served, at most a minute.
    ///
    /// It is the least time after which another call has a chance. `None` before the gate has seen a call end, and for a call
    /// that was too late: its own deadline leaves no time to retry.
    ///
    /// It is an estimate, by the median of recent service times. Under a lasting overload a low class may be refused again.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the first `NotAdmitted` in an error's chain of sources, the error itself included.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::concurrency::{Admission, AdmissionRequest, NotAdmitted};
    ///
    /// let refused = Admission::fixed(0).try_acquire(AdmissionRequest::new()).unwrap_err();
    /// let error = std::io::Error::other(refused);
    /// assert_eq!(NotAdmitted::find_in(&error), Some(&refused));
    /// # }
    /// ```
    #[must_use]
    pub fn find_in<'a>(error: &'a (dyn core::error::Error + 'static)) -> Option<&'a Self> {
        core::iter::successors(Some(error), |error| source_of(*error)).find_map(|error| error.downcast_ref())
    }
}

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        match self.cause {
            RefusalCause::Late => f.write_str("not admitted, too little time is left before its deadline")?,
            RefusalCause::NoSlot | RefusalCause::NoQueue | RefusalCause::QueueFull if limit == 0 => {
                f.write_str("not admitted, the limit is 0")?;
            }
            RefusalCause::NoSlot | RefusalCause::NoQueue | RefusalCause::StoreFull => {
                write!(f, "not admitted, limit {limit} reached")?;
            }
            RefusalCause::QueueFull => write!(f, "not admitted, limit {limit} reached, queue full")?,
            RefusalCause::TimedOut => write!(f, "not admitted, limit {limit} reached, no slot in time")?,
            RefusalCause::Displaced => write!(f, "not admitted, limit {limit} reached, displaced from the queue")?,
        }
        match self.retry_after {
            Some(wait) => write!(f, ", retry in {}", Human(wait)),
            None => Ok(()),
        }
    }
}

crate::internal::debug_by_display!(NotAdmitted);

impl core::error::Error for NotAdmitted {}
