//! The changes of a reload, or the reason why it changed nothing.

use crate::problem::ConfigError;
use crate::section::{Change, Key};
use std::error::Error;
use std::fmt;

/// A key whose value has changed.
#[derive(Clone, Debug)]
pub struct SettingChange {
    pub(super) section: String,
    pub(super) key: Key,
    pub(super) old: String,
    pub(super) new: String,
}

impl SettingChange {
    /// Returns the section: `server.http.ratelimit`.
    #[must_use]
    pub fn section(&self) -> &str {
        &self.section
    }

    /// Returns the key within the section.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the value before, as TOML writes it.
    #[must_use]
    pub fn old(&self) -> &str {
        &self.old
    }

    /// Returns the value after, as TOML writes it.
    #[must_use]
    pub fn new_value(&self) -> &str {
        &self.new
    }
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { section, key, old, new } = self;
        write!(f, "{section}.{} changed from {old} to {new}", key.name())
    }
}

/// Why a reload changed nothing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReloadError {
    /// The settings are wrong.
    Invalid(ConfigError),
    /// A file has no key, and had some when its settings were put in force. It may have been truncated, and the defaults can be far
    /// looser than what it said.
    Emptied {
        /// The name of the file.
        file: String,
    },
    /// These changes take effect with a restart only, or nothing is bound to their sections.
    NeedsRestart(Vec<SettingChange>),
    /// A limit refused its new value.
    Refused {
        /// The section of the limit.
        section: String,
        /// Why, in words.
        why: String,
    },
}

/// One line for each problem or change.
impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => error.fmt(f),
            Self::Emptied { file } => write!(f, "{file}: the file has no key, and had some before"),
            Self::NeedsRestart(changes) => {
                for (index, change) in changes.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "\n" };
                    let why = match change.key.change() {
                        Change::Live => "no limit is bound to this section, so it needs a restart",
                        Change::Restart => "this needs a restart",
                    };
                    write!(f, "{separator}{change}; {why}")?;
                }
                Ok(())
            }
            Self::Refused { section, why } => write!(f, "{section}: {why}"),
        }
    }
}

/// Settings that are wrong are displayed as their own error, so that is no source: a chain says everything once.
impl Error for ReloadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid(error) => error.source(),
            Self::Emptied { .. } | Self::NeedsRestart(_) | Self::Refused { .. } => None,
        }
    }
}
