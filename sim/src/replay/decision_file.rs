//! The file, and the mistakes in it.

use damper::InvalidText;
use damper::decision_log::Decision;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// The decisions of a file, in the order of their times.
///
/// Every line is a [`Decision`], or `lost` and how many decisions were lost before the next line. Blank lines and those that begin with `#`
/// are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionFile {
    /// The decisions.
    pub decisions: Vec<Decision>,
    /// How many more there were.
    pub lost: u64,
}

impl FromStr for DecisionFile {
    type Err = DecisionFileError;

    fn from_str(text: &str) -> Result<Self, DecisionFileError> {
        let mut file = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            let wrong = |cause| DecisionFileError { line: index + 1, cause };
            match line.split_once(' ') {
                _ if line.is_empty() || line.starts_with('#') => {}
                Some(("lost", number)) => {
                    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
                    let lost: Option<u64> = number.parse().ok().filter(|_| is_number);
                    file.lost =
                        file.lost.saturating_add(lost.ok_or_else(|| wrong(LineError::Lost { found: number.into() }))?);
                }
                _ => file.decisions.push(line.parse().map_err(|error| wrong(LineError::Decision(error)))?),
            }
        }
        // Threads that decide at the same time write in any order.
        file.decisions.sort_by_key(|decision| decision.at);
        Ok(file)
    }
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionFileError {
    /// The number of the line, from 1.
    pub line: usize,
    /// The mistake.
    pub cause: LineError,
}

/// The mistake in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineError {
    /// It is no decision.
    Decision(InvalidText),
    /// No number follows `lost`.
    Lost {
        /// The text that follows it.
        found: String,
    },
}

impl fmt::Display for DecisionFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.cause {
            LineError::Decision(error) => error.fmt(f),
            LineError::Lost { found } => {
                write!(f, "lost is followed by {found:?}, it must be a number from 0 to {}", u64::MAX)
            }
        }
    }
}

impl Error for DecisionFileError {}
