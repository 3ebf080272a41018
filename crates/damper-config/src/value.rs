//! Values as they stand in a file or a variable, with their position.

use std::fmt;
use std::sync::Arc;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    source: Arc<str>,
    position: Option<(usize, usize)>,
}

impl Origin {
    pub(crate) fn new(source: &Arc<str>) -> Self {
        Self { source: Arc::clone(source), position: None }
    }

    pub(crate) fn at(&self, position: Option<(usize, usize)>) -> Self {
        Self { source: Arc::clone(&self.source), position }
    }

    pub(crate) fn position(&self) -> Option<(usize, usize)> {
        self.position
    }

    /// Returns the name of the source: a path, an environment variable, or the name that the program gave.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the line, counted from 1, where the source has lines.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.position.map(|(line, _)| line)
    }

    /// Returns the column in characters, counted from 1, where the source has lines.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.position.map(|(_, column)| column)
    }
}

/// `server.toml:12:9`, or the name of the source alone.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        self.position.map_or(Ok(()), |(line, column)| write!(f, ":{line}:{column}"))
    }
}

/// A value that no setting has checked yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Flag(bool),
    /// A number, as it is written.
    Number(String),
    Text(String),
    /// A text whose format does not say what it is: a variable, or a plain scalar of YAML.
    Untyped(String),
    List(Vec<Value>),
    Table(Vec<Member>),
    Null,
    /// A value of a type that no setting has, such as a date.
    Other(String),
}

/// A key of a table with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// The longest value that is repeated in a message, in characters.
const LONGEST_SHOWN: usize = 60;

/// As a message shows it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(text) | Self::Other(text) => f.write_str(&shortened(text)),
            Self::Text(text) | Self::Untyped(text) => write!(f, "{:?}", shortened(text)),
            Self::List(values) => write!(f, "a list of {}", values.len()),
            Self::Table(_) => f.write_str("a table"),
            Self::Null => f.write_str("null"),
        }
    }
}

/// Cuts a value or a name that is too long for a message.
pub(crate) fn shortened(text: &str) -> String {
    cut(text, LONGEST_SHOWN)
}

/// Cuts a text after so many characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Finds line and column of a byte in a text.
pub(crate) fn position_of(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
