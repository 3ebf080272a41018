//! Why a call was given up.

use crate::time::Human;
use core::fmt;
use core::time::Duration;

/// Why a call gets no further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum GaveUp {
    /// The failure is none that another attempt may mend.
    NotRetryable,
    /// The server asked for no retry.
    Declined,
    /// All attempts are used up.
    Attempts,
    /// The server asked for a longer wait than [is waited for](super::Retry::max_hint).
    Hint {
        /// The wait that the server asked for.
        wait: Duration,
        /// The longest wait that the policy allows.
        longest: Duration,
    },
    /// The deadline has passed, or would have before the next attempt.
    Deadline {
        /// The wait that the server asked for, if the deadline does not leave that.
        hint: Option<Duration>,
    },
    /// The budget allows no retry now.
    Budget,
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRetryable => f.write_str("not retryable"),
            Self::Declined => f.write_str("the server asked for no retry"),
            Self::Attempts => f.write_str("no attempts left"),
            Self::Hint { wait, longest } => {
                write!(f, "the server asked for a wait of {}, the longest is {}", Human(*wait), Human(*longest))
            }
            Self::Deadline { hint: None } => f.write_str("no time left"),
            Self::Deadline { hint: Some(wait) } => {
                write!(f, "the server asked for a wait of {}, which the deadline does not leave", Human(*wait))
            }
            Self::Budget => f.write_str("retry budget exhausted"),
        }
    }
}

impl core::error::Error for GaveUp {}

/// The error of a call that was given up: why, after how many attempts and how much time, and the last attempt's own
/// error, which is its `source`. Without one, the source is the [reason](GaveUp).
///
/// Displayed as `gave up after 3 attempts in 1.2 s: retry budget exhausted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RetryError<E> {
    reason: GaveUp,
    attempts: u32,
    elapsed: Duration,
    error: Option<E>,
}

impl<E> RetryError<E> {
    /// Creates the error of a call that was given up after so many attempts and so much time, for middleware that makes its
    /// attempts itself.
    #[must_use]
    pub const fn new(reason: GaveUp, attempts: u32, elapsed: Duration, error: Option<E>) -> Self {
        Self { reason, attempts, elapsed, error }
    }

    /// Returns why the call was given up.
    #[must_use]
    pub const fn reason(&self) -> GaveUp {
        self.reason
    }

    /// Returns how many attempts were begun; 0 if the deadline had passed before the first.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the time from the beginning of the call until it was given up, waits included.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the last error that an attempt returned; `None` if the deadline passed before there was one.
    #[must_use]
    pub const fn error(&self) -> Option<&E> {
        self.error.as_ref()
    }

    /// Returns the last error that an attempt returned; `None` if the deadline passed before there was one.
    #[must_use]
    pub fn into_error(self) -> Option<E> {
        self.error
    }
}

impl<E> fmt::Display for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, attempts, elapsed, .. } = self;
        let s = if *attempts == 1 { "" } else { "s" };
        write!(f, "gave up after {attempts} attempt{s} in {}: {reason}", Human(*elapsed))
    }
}

impl<E: core::error::Error + 'static> core::error::Error for RetryError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(self.error.as_ref().map_or(&self.reason, |error| error as _))
    }
}
