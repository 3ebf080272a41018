//! Values as a file or a variable gives them, with their position.

use std::fmt;
use std::sync::Arc;

/// The place where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    source: Arc<str>,
    position: Option<Position>,
}

/// Line and column, counted from 1.
pub(crate) type Position = (usize, usize);

impl Origin {
    pub(crate) fn new(source: &Arc<str>) -> Self {
        Self { source: Arc::clone(source), position: None }
    }

    pub(crate) fn at(&self, position: Option<Position>) -> Self {
        Self { source: Arc::clone(&self.source), position }
    }

    pub(crate) fn position(&self) -> Option<Position> {
        self.position
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
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
    /// A text of unknown type: from a variable, or a plain scalar of YAML.
    Untyped(String),
    List(Vec<Element>),
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

/// A value of a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Element {
    pub(crate) value: Value,
    pub(crate) position: Option<Position>,
}

/// The longest value that is repeated in a message, in characters.
const LONGEST_SHOWN: usize = 60;

/// The most values of a list that are repeated in a message.
const MOST_SHOWN: usize = 4;

/// Formats the value for a message.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(text) | Self::Other(text) => f.write_str(&shortened(text)),
            Self::Text(text) | Self::Untyped(text) => write!(f, "{:?}", shortened(text)),
            Self::List(elements) => {
                let shown: Vec<_> = elements.iter().take(MOST_SHOWN).map(|element| element.value.to_string()).collect();
                let more = if elements.len() > MOST_SHOWN { ", …" } else { "" };
                write!(f, "[{}{more}]", shown.join(", "))
            }
            Self::Table(_) => f.write_str("a table"),
            Self::Null => f.write_str("null"),
        }
    }
}

/// Cuts a value that is too long for a message.
fn shortened(text: &str) -> String {
    cut(text, LONGEST_SHOWN)
}

/// Writes the path of a key for a message.
///
/// A long path is cut at the start, because the mistake is mostly in the last part.
pub(crate) fn shortened_path(path: &str) -> String {
    let escaped = path.escape_debug().to_string();
    let shown = match escaped.char_indices().nth_back(LONGEST_SHOWN - 1) {
        Some((start @ 1.., _)) => format!("…{}", &escaped[start..]),
        _ => escaped,
    };
    // A path with an empty part is quoted, such as the key "".
    if path.split('.').any(str::is_empty) { format!("{shown:?}") } else { shown }
}

/// Cuts a text after `most` characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A text with an index of its lines.
pub(crate) struct Lines<'a> {
    text: &'a str,
    /// The byte after each line break.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Self { text, starts: text.match_indices('\n').map(|(newline, _)| newline + 1).collect() }
    }

    /// Returns the byte at which a part of the text begins.
    pub(crate) fn byte_of(&self, part: &str) -> usize {
        part.as_ptr().addr().saturating_sub(self.text.as_ptr().addr())
    }

    /// Returns the position of a byte.
    pub(crate) fn position_of(&self, byte: usize) -> Position {
        let lines_before = self.starts.partition_point(|start| *start <= byte);
        let start = lines_before.checked_sub(1).and_then(|line| self.starts.get(line)).copied().unwrap_or(0);
        let column = self.text.get(start..byte).map_or(0, |before| before.chars().count());
        (lines_before + 1, column + 1)
    }
}
