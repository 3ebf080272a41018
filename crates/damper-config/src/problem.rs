//! The mistakes in settings.

use crate::value::Origin;
use std::error::Error;
use std::fmt;

/// A mistake in the settings: its place, its cause and the allowed values.
#[derive(Clone, PartialEq)]
pub struct Problem {
    pub(crate) origin: Origin,
    pub(crate) key: String,
    pub(crate) cause: ProblemCause,
    pub(crate) instead: Option<String>,
    /// The keys of a conflict whose values were dropped.
    pub(crate) dropped: Vec<&'static str>,
}

/// The mistake.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ProblemCause {
    /// A file cannot be read.
    Unreadable {
        /// The reason, in words.
        why: String,
    },
    /// A text is not valid in its format.
    Syntax {
        /// The reason, in words.
        why: String,
    },
    /// There is no such key.
    Unknown {
        /// The known key that is nearest to it, if one is near.
        nearest: Option<String>,
    },
    /// The value is of another type, or out of its range.
    Invalid {
        /// The value as it was given, shortened if it is long.
        value: String,
        /// The values that are allowed.
        expected: String,
        /// The reason why it is not allowed, if there is more to say.
        why: Option<String>,
    },
    /// A source gives the key twice.
    Repeated,
    /// The values of several keys do not fit each other.
    Conflict {
        /// The values, each with its place.
        values: String,
        /// The values that are allowed.
        expected: String,
    },
}

impl Problem {
    pub(crate) fn new(origin: Origin, key: impl Into<String>, cause: ProblemCause) -> Self {
        Self { origin, key: key.into(), cause, instead: None, dropped: Vec::new() }
    }

    /// Returns the name of its source: a path, an environment variable, or the name that the program gave.
    #[must_use]
    pub fn source_name(&self) -> &str {
        self.origin.source()
    }

    /// Returns its line, counted from 1, where the source has lines.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.origin.position().map(|(line, _)| line)
    }

    /// Returns its column in characters, counted from 1, where the source has lines.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.origin.position().map(|(_, column)| column)
    }

    /// Returns the full name of the key, or the section of several keys.
    ///
    /// It is empty if the mistake concerns a whole file.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the cause.
    #[must_use]
    pub fn cause(&self) -> &ProblemCause {
        &self.cause
    }

    /// Returns the value used instead, after [`Sources::normalized`](crate::Sources::normalized).
    #[must_use]
    pub fn instead(&self) -> Option<&str> {
        self.instead.as_deref()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, key, cause, instead, dropped: _ } = self;
        write!(f, "{origin}: ")?;
        match cause {
            ProblemCause::Unreadable { why } | ProblemCause::Syntax { why } => f.write_str(why)?,
            // It may be meant for another part of the program.
            ProblemCause::Unknown { nearest: None } => {
                write!(f, "{key} is no known key; one of your program's own is for Sources::foreign")?;
            }
            ProblemCause::Unknown { nearest: Some(nearest) } => {
                write!(f, "{key} is no known key, did you mean {nearest}?")?;
            }
            ProblemCause::Invalid { value, expected, why } => {
                write!(f, "{key} is {value}, it must be {expected}")?;
                if let Some(why) = why {
                    write!(f, " ({why})")?;
                }
            }
            ProblemCause::Repeated => write!(f, "{key} is given twice")?,
            ProblemCause::Conflict { values, expected } => write!(f, "{key}: {expected}; {values}")?,
        }
        instead.as_ref().map_or(Ok(()), |instead| write!(f, "; {instead}"))
    }
}

damper_core::internal::debug_by_display!(Problem);

impl Error for Problem {}

/// All mistakes in the settings of a program.
#[derive(Clone, PartialEq)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    pub(crate) fn new(problems: Vec<Problem>) -> Self {
        Self { problems }
    }

    /// Returns the mistakes, in the order of the sources.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// The most problems that one message lists.
const MOST_SHOWN: usize = 50;

/// One line for each of the first 50 problems.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().take(MOST_SHOWN).enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        match self.problems.len().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

damper_core::internal::debug_by_display!(ConfigError);

impl Error for ConfigError {}
