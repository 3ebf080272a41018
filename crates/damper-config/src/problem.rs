//! The mistakes in settings.

use crate::value::Origin;
use std::error::Error;
use std::fmt;

/// One thing that is wrong: where, what, and what is allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub(crate) origin: Origin,
    pub(crate) key: String,
    pub(crate) cause: ProblemCause,
    pub(crate) instead: Option<String>,
    /// The keys of a conflict that were taken back.
    pub(crate) dropped: Vec<&'static str>,
}

/// The mistake.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ProblemCause {
    /// A file cannot be read.
    Unreadable {
        /// Why, in words.
        why: String,
    },
    /// A text is not of its format.
    Syntax {
        /// Why, in words.
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
        /// Why it is not what is allowed, if there is more to say.
        why: Option<String>,
    },
    /// A source gives the key twice.
    Repeated,
    /// The values of several keys do not fit each other.
    Conflict {
        /// The values that are allowed.
        expected: String,
    },
}

impl Problem {
    pub(crate) fn new(origin: Origin, key: impl Into<String>, cause: ProblemCause) -> Self {
        Self { origin, key: key.into(), cause, instead: None, dropped: Vec::new() }
    }

    /// Returns where it is.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the whole name of the key, or of the section of several keys; empty if it is a whole file.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn cause(&self) -> &ProblemCause {
        &self.cause
    }

    /// Returns what is used instead of the value, after [`Sources::normalized`](crate::Sources::normalized).
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
            ProblemCause::Unknown { nearest: None } => write!(f, "{key} is no known key")?,
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
            ProblemCause::Conflict { expected } => write!(f, "{key}: {expected}")?,
        }
        instead.as_ref().map_or(Ok(()), |instead| write!(f, "; {instead}"))
    }
}

impl Error for Problem {}

/// All that is wrong with the settings of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    pub(crate) fn new(problems: Vec<Problem>) -> Self {
        Self { problems }
    }

    /// Returns what is wrong, in the order of the sources.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// One line for each problem.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl Error for ConfigError {}
