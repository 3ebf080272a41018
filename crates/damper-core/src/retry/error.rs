//! Why a call was given up.

use crate::throttle::PaceTooSlow;
use crate::time::Human;
#[cfg(feature = "alloc")]
use alloc::boxed::Box;
#[cfg(feature = "alloc")]
use core::convert::Infallible;
use core::fmt;
use core::time::Duration;

/// Why a call gets no further attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum GaveUp {
    /// Another attempt cannot mend the failure.
    NotRetryable,
    /// The server declined a retry.
    Declined,
    /// All attempts are used up.
    Attempts,
    /// The server asked for a wait longer than [the maximum](super::Retry::max_hint).
    Hint {
        /// The wait that the server asked for.
        wait: Duration,
        /// The longest wait that the policy allows.
        longest: Duration,
    },
    /// The deadline has passed, or would have passed before the next attempt.
    Deadline {
        /// The wait that the server asked for, if it exceeds the deadline.
        hint: Option<Duration>,
    },
    /// The budget allows no retry now.
    Budget,
    /// The sleep before the first attempt would outlast the deadline.
    Paced(PaceTooSlow),
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
                write!(f, "the server asked for a wait of {}, which exceeds the deadline", Human(*wait))
            }
            Self::Budget => f.write_str("retry budget exhausted"),
            // The source names the wait.
            Self::Paced(_) => f.write_str("no time for the pacing"),
        }
    }
}

crate::internal::debug_by_display!(GaveUp, with sources);

impl core::error::Error for GaveUp {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Paced(too_slow) => Some(too_slow),
            _ => None,
        }
    }
}

/// The error of a call that was given up.
///
/// It has the reason, the number of attempts, the time, and the last attempt's own error, which is its `source`.
/// Without such an error, the source is the [reason](GaveUp).
///
/// Displayed as `gave up after 3 attempts in 1.2 s: retry budget exhausted`. Without an attempt's error the reason is
/// omitted, so that a chain of sources repeats nothing. Its `Debug` adds that of the last error, so that `?` in `main` prints
/// all of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RetryError<E> {
    reason: GaveUp,
    attempts: u32,
    elapsed: Duration,
    error: Option<E>,
    previous: Option<E>,
}

impl<E> RetryError<E> {
    /// Creates the error of a call that was given up after these attempts and this time.
    ///
    /// It is for middleware that makes its attempts itself.
    #[must_use]
    pub const fn new(reason: GaveUp, attempts: u32, elapsed: Duration, error: Option<E>) -> Self {
        Self { reason, attempts, elapsed, error, previous: None }
    }

    /// Adds the error of the attempt before the last one, see [`previous_error`](Self::previous_error).
    #[must_use]
    pub fn with_previous_error(mut self, previous: Option<E>) -> Self {
        self.previous = previous;
        self
    }

    /// Returns why the call was given up.
    #[must_use]
    pub const fn reason(&self) -> GaveUp {
        self.reason
    }

    /// Returns how many attempts were begun, or 0 if the deadline had passed before the first.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the time from the start of the call until it was given up, including waits.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the last error of an attempt, or `None` if the deadline passed before there was one.
    #[must_use]
    pub const fn error(&self) -> Option<&E> {
        self.error.as_ref()
    }

    /// Returns the last error of an attempt, or `None` if the deadline passed before there was one.
    #[must_use]
    pub fn into_error(self) -> Option<E> {
        self.error
    }

    /// Returns the error of the attempt before the one of [`error`](Self::error).
    ///
    /// It is `None` if no earlier attempt returned an error.
    ///
    /// It is set only if the call ended with an attempt's own error. If the deadline passed during or before an
    /// attempt, [`error`](Self::error) is the last one that an attempt returned, and this is `None`.
    ///
    /// If a limit of this process refuses the last attempt, this is the server's failure.
    #[must_use]
    pub const fn previous_error(&self) -> Option<&E> {
        self.previous.as_ref()
    }

    /// Returns the [last error](Self::error) and the [previous one](Self::previous_error).
    #[must_use]
    pub fn into_errors(self) -> (Option<E>, Option<E>) {
        (self.error, self.previous)
    }
}

#[cfg(feature = "alloc")]
impl<E: Into<Box<dyn core::error::Error + Send + Sync>>> RetryError<E> {
    /// Converts the error for services with boxed errors, which do not implement `Error` themselves.
    ///
    /// It is displayed like this one, and has the same source: the last error, from its box, or the [reason](GaveUp).
    /// The [previous error](Self::previous_error) is dropped. Take it with [`into_errors`](Self::into_errors) first.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
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
    /// # }
    /// ```
    pub fn into_boxed(self) -> Box<dyn core::error::Error + Send + Sync> {
        let Self { reason, attempts, elapsed, error, .. } = self;
        Box::new(Boxed { gave_up: RetryError::new(reason, attempts, elapsed, None), error: error.map(Into::into) })
    }
}

/// A [`RetryError`] whose error is boxed, and so does not implement `Error`.
#[cfg(feature = "alloc")]
struct Boxed {
    gave_up: RetryError<Infallible>,
    error: Option<Box<dyn core::error::Error + Send + Sync>>,
}

#[cfg(feature = "alloc")]
impl fmt::Display for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.gave_up.write(f, self.error.is_some())
    }
}

#[cfg(feature = "alloc")]
crate::internal::debug_by_display!(Boxed, with sources);

#[cfg(feature = "alloc")]
impl core::error::Error for Boxed {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(self.error.as_ref().map_or(&self.gave_up.reason, |error| &**error as _))
    }
}

impl<E> RetryError<E> {
    /// Writes the message, with the reason unless that is the source.
    fn write(&self, f: &mut fmt::Formatter<'_>, with_reason: bool) -> fmt::Result {
        let Self { reason, attempts, elapsed, .. } = self;
        let s = if *attempts == 1 { "" } else { "s" };
        write!(f, "gave up after {attempts} attempt{s} in {}", Human(*elapsed))?;
        match reason {
            _ if !with_reason => Ok(()),
            // The reason is not in the chain of an attempt's error.
            GaveUp::Paced(too_slow) => write!(f, ": {too_slow}"),
            reason => write!(f, ": {reason}"),
        }
    }
}

impl<E> fmt::Display for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, self.error.is_some())
    }
}

impl<E: fmt::Debug> fmt::Debug for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            // Not every error has a message, but each that `main` returns has a `Debug`.
            Some(error) => write!(f, "{self}: {error:?}"),
            None => write!(f, "{self}: {:?}", self.reason),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for RetryError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(self.error.as_ref().map_or(&self.reason, |error| error as _))
    }
}
