//! The error of work that took too long.

use crate::breaker::source_of;
use crate::time::Human;
use core::fmt;
use core::time::Duration;

/// The error of work whose [`Deadline`](super::Deadline) has passed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DeadlineExceeded {
    specified: Duration,
    elapsed: Duration,
}

impl DeadlineExceeded {
    pub(crate) fn new(specified: Duration, elapsed: Duration) -> Self {
        Self { specified, elapsed }
    }

    /// Returns the first `DeadlineExceeded` in an error's chain of sources, including the error itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::{Deadline, DeadlineExceeded};
    ///
    /// let exceeded = Deadline::after(Duration::ZERO).check().unwrap_err();
    /// let error = std::io::Error::other(exceeded);
    /// assert_eq!(DeadlineExceeded::find_in(&error), Some(&exceeded));
    /// # }
    /// ```
    #[must_use]
    pub fn find_in<'a>(error: &'a (dyn core::error::Error + 'static)) -> Option<&'a Self> {
        core::iter::successors(Some(error), |error| source_of(*error)).find_map(|error| error.downcast_ref())
    }

    /// Returns the time that the work was given.
    #[must_use]
    pub fn specified(&self) -> Duration {
        self.specified
    }

    /// Returns the time that had elapsed at the check.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

impl fmt::Display for DeadlineExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadline of {} exceeded, {} elapsed", Human(self.specified), Human(self.elapsed))
    }
}

crate::internal::debug_by_display!(DeadlineExceeded);

impl core::error::Error for DeadlineExceeded {}
