//! Why a paced call was not made.

use crate::breaker::source_of;
use crate::time::Human;
use core::fmt;
use core::time::Duration;

/// The refusal of a paced call whose sleep would outlast its deadline.
///
/// The call was not made.
///
/// Displayed as `pacing sleep of 12 s exceeds the 2 s until the deadline`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PaceTooSlow {
    sleep: Duration,
    left: Duration,
}

impl PaceTooSlow {
    /// Creates the refusal of a call whose sleep is longer than the time left until its deadline.
    #[must_use]
    pub const fn new(sleep: Duration, left: Duration) -> Self {
        Self { sleep, left }
    }

    /// Returns the sleep after which the call could have been made.
    #[must_use]
    pub const fn retry_after(&self) -> Duration {
        self.sleep
    }

    /// Returns the time that was left until the deadline.
    #[must_use]
    pub const fn left(&self) -> Duration {
        self.left
    }

    /// Returns the first `PaceTooSlow` in an error's chain of sources, the error itself included.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::throttle::PaceTooSlow;
    ///
    /// let too_slow = PaceTooSlow::new(Duration::from_secs(12), Duration::from_secs(2));
    /// let error = std::io::Error::other(too_slow);
    /// assert_eq!(PaceTooSlow::find_in(&error), Some(&too_slow));
    /// assert_eq!(error.to_string(), "pacing sleep of 12 s exceeds the 2 s until the deadline");
    /// # }
    /// ```
    #[must_use]
    pub fn find_in<'a>(error: &'a (dyn core::error::Error + 'static)) -> Option<&'a Self> {
        core::iter::successors(Some(error), |error| source_of(*error)).find_map(|error| error.downcast_ref())
    }
}

impl fmt::Display for PaceTooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pacing sleep of {} exceeds the {} until the deadline", Human(self.sleep), Human(self.left))
    }
}

crate::internal::debug_by_display!(PaceTooSlow);

impl core::error::Error for PaceTooSlow {}
