//! Why a call was given up.

use crate::time::Human;
#[cfg(feature = "alloc")]
use alloc::boxed::Box;
#[cfg(feature = "alloc")]
use core::convert::Infallible;
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

#[cfg(feature = "alloc")]
impl<E: Into<Box<dyn core::error::Error + Send + Sync>>> RetryError<E> {
    /// In a box, for services whose errors are in boxes already, and so are no errors themselves.
    ///
    /// It is displayed as this one, and has the same source: the last error, as it is in its box, or the
    /// [reason](GaveUp).
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// # extern crate damper_core as damper;
    /// use damper::retry::{Failure, Retry};
    /// use std::error::Error;
    ///
    /// fn fetch() -> Result<u32, Box<dyn Error + Send + Sync>> {
    ///     Err("no number".parse::<u32>().unwrap_err().into())
    /// }
    ///
    /// let retry = Retry::new(1).when(|result: &Result<_, _>| result.is_err().then_some(Failure::TRANSIENT));
    /// let error = retry.call(|_| fetch()).unwrap_err().into_boxed();
    /// println!("{error}"); // gave up after 1 attempt in 0 s: no attempts left
    /// assert!(error.source().is_some_and(|error| error.is::<std::num::ParseIntError>()));
    /// ```
    pub fn into_boxed(self) -> Box<dyn core::error::Error + Send + Sync> {
        let Self { reason, attempts, elapsed, error } = self;
        Box::new(Boxed { gave_up: RetryError { reason, attempts, elapsed, error: None }, error: error.map(Into::into) })
    }
}

/// A [`RetryError`] whose error is in a box, which does not implement `Error`.
#[cfg(feature = "alloc")]
#[derive(Debug)]
struct Boxed {
    gave_up: RetryError<Infallible>,
    error: Option<Box<dyn core::error::Error + Send + Sync>>,
}

#[cfg(feature = "alloc")]
impl fmt::Display for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.gave_up.fmt(f)
    }
}

#[cfg(feature = "alloc")]
impl core::error::Error for Boxed {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(self.error.as_ref().map_or(&self.gave_up.reason, |error| &**error as _))
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
