//! The error of a page's settings and tokens.

use super::token::{LONGEST, SHORTEST};
use alloc::string::String;
use core::fmt;
use damper_core::OutOfRange;

/// Why there can be no such page, or no such token for its controls.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LivePageError {
    /// The path does not begin with a slash, or has a character that is not allowed.
    Path {
        /// The path.
        path: String,
    },
    /// The interval or the patience is too short or too long.
    OutOfRange(OutOfRange),
    /// A host that the page is [open to](crate::LivePage::open_to) is no bare name or address.
    Host {
        /// The host.
        host: String,
    },
    /// Two limits, two breakers, two controls or two stacks have the same name.
    Repeated {
        /// The name.
        name: String,
    },
    /// A token has too few or too many bytes.
    TokenLength {
        /// How many bytes it has.
        bytes: usize,
    },
    /// A token has a character that headers do not carry unchanged.
    TokenCharacter {
        /// The position of its first byte.
        at: usize,
    },
    /// The system has no source of randomness for a token.
    NoRandomness,
}

impl fmt::Display for LivePageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { path } => write!(
                f,
                "the live page's path {path:?} has to begin with a slash and may have ASCII letters, digits and /-_.~ only"
            ),
            Self::OutOfRange(error) => write!(f, "the live page's {error}"),
            Self::Host { host } => write!(
                f,
                "the live page cannot be open to {host:?}, it must be a name or an address without scheme, port and path"
            ),
            Self::Repeated { name } => {
                write!(f, "the live page has {name:?} twice, so no control and no explanation can name it")
            }
            Self::TokenLength { bytes } => write!(f, "a token of {bytes} bytes, {SHORTEST} to {LONGEST} are allowed"),
            Self::TokenCharacter { at } => write!(
                f,
                "the token's byte {at} is no visible character of ASCII, nor a space between two; only these are allowed"
            ),
            Self::NoRandomness => f.write_str("the system has no source of randomness for a token"),
        }
    }
}

damper_core::internal::debug_by_display!(LivePageError);

impl core::error::Error for LivePageError {}
