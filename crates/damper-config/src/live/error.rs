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
    pub(super) is_bound: bool,
}

impl SettingChange {
    /// Returns whether the last part of the section's path is `section`, such as `ratelimit`.
    ///
    /// It is for targets that are bound to several sections.
    #[must_use]
    pub fn is_in(&self, section: &str) -> bool {
        self.section.rsplit('.').next() == Some(section)
    }

    /// Returns the section: `server.http.ratelimit`.
    #[must_use]
    pub fn section(&self) -> &str {
        &self.section
    }

    /// Returns the name of the key within the section: `quota`.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.name
    }

    /// Returns whether the key is live. A change of another one needs a restart.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.key.change == Change::Live
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
        let Self { section, key, old, new, is_bound: _ } = self;
        write!(f, "{section}.{} changed from {old} to {new}", key.name)
    }
}

/// The reason why a reload changed nothing.
#[derive(Clone)]
#[non_exhaustive]
pub enum ReloadError {
    /// The settings are wrong.
    Invalid(ConfigError),
    /// A file has no keys, but had some when its settings were put in force.
    ///
    /// It may have been truncated, and the defaults can be far looser than the settings it had.
    Emptied {
        /// The name of the file.
        file: String,
    },
    /// These changes take effect only with a restart.
    ///
    /// Either the key is never applied live, or nothing is bound to its section, or the bound target does not take the change.
    NeedsRestart(Vec<SettingChange>),
    /// A function passed to [`Reloader::bind`](crate::Reloader::bind) returns no section of the settings.
    NotASection,
    /// A limit refused its new value.
    Refused {
        /// The section of the limit.
        section: String,
        /// The reason, in words.
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
                    let why = match (change.key.change, change.is_bound) {
                        (Change::Live, false) => "nothing is bound to this section, so it needs a restart",
                        (Change::Live, true) => "what is bound to this section does not take it, so it needs a restart",
                        (Change::Restart, _) => "this needs a restart",
                    };
                    write!(f, "{separator}{change}; {why}")?;
                }
                Ok(())
            }
            Self::NotASection => f.write_str("a function that was given to bind returns no section of the settings"),
            Self::Refused { section, why } => write!(f, "{section}: {why}"),
        }
    }
}

damper_core::internal::debug_by_display!(ReloadError);

/// Has no source: invalid settings are displayed in full already, and a chain would repeat them.
impl Error for ReloadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid(error) => error.source(),
            Self::Emptied { .. } | Self::NeedsRestart(_) | Self::NotASection | Self::Refused { .. } => None,
        }
    }
}
