//! Why a document could not be read.

use super::object::Object;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::fmt;

/// Why a document could not be read.
///
/// Displayed as `call.function: invalid type: integer 5, expected a string`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The text is not JSON, or a member has the wrong form.
    Document {
        /// The member, as in `errors[0].details`, or empty for the whole document.
        member: String,
        /// The mistake in the member.
        reason: String,
    },
    /// The document has another protocol or another version of Mesh.
    Protocol {
        /// The name of the other protocol.
        name: String,
        /// The version of the other protocol.
        version: String,
    },
}

/// The most characters that an error repeats of a foreign text.
const MOST_SHOWN: usize = 64;

/// The most characters of serde's messages, which repeat foreign texts in full.
const LONGEST_REASON: usize = 200;

/// Returns the beginning of a foreign text.
pub(crate) fn shortened(text: &str) -> String {
    beginning(text, MOST_SHOWN)
}

fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

impl ReadError {
    fn of(member: &str, error: &serde_json::Error) -> Self {
        // A truncated text has no member to name.
        let is_whole = member == "." || member == "?";
        Self::Document {
            member: if is_whole { String::new() } else { shortened(member) },
            reason: beginning(&error.to_string(), LONGEST_REASON),
        }
    }
}

/// Reads a document, and rejects trailing characters.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ReadError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let Object(document) = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| ReadError::of(&error.path().to_string(), error.inner()))?;
    json.end().map_err(|error| ReadError::of("", &error))?;
    Ok(document)
}

/// Reads the part of a document at `member`.
pub(crate) fn read_part<T: DeserializeOwned>(member: &str, value: &serde_json::Value) -> Result<T, ReadError> {
    let part = serde_path_to_error::deserialize(value).map(|Object(part)| part);
    part.map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { member.to_owned() } else { format!("{member}.{path}") };
        ReadError::of(&path, error.inner())
    })
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document { member, reason } if member.is_empty() => f.write_str(reason),
            Self::Document { member, reason } => write!(f, "{member}: {reason}"),
            Self::Protocol { name, version } => {
                write!(f, "protocol is {name:?} {version:?}, it must be \"mesh\" \"0.1.0\"")
            }
        }
    }
}

damper_core::internal::debug_by_display!(ReadError);

impl Error for ReadError {}
