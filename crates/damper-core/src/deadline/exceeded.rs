//! The error of work that took too long.

use crate::time::Human;
use core::fmt;
use core::time::Duration;

/// The error of work whose [`Deadline`](super::Deadline) has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DeadlineExceeded {
    specified: Duration,
    elapsed: Duration,
}

impl DeadlineExceeded {
    pub(super) fn new(specified: Duration, elapsed: Duration) -> Self {
        Self { specified, elapsed }
    }

    /// Returns the time that the work was given.
    #[must_use]
    pub fn specified(&self) -> Duration {
        self.specified
    }

    /// Returns the time that had passed when it was asked.
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

impl core::error::Error for DeadlineExceeded {}
