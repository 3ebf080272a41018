//! The formats. Each parser returns a table of members with positions.

// | file | what |
// |---|---|
// | `mod` | `Format`: which parser reads a file; environment variables |
// | `toml` | TOML, by the crate `toml` |
// | `json` | JSON, by `serde_json` |
// | `yaml` | YAML, by `saphyr-parser` |
// | `foreign` | values that another serde crate has read |

mod foreign;
mod json;
mod toml;
mod yaml;

use crate::value::{Member, Origin, Position, Value};
use std::path::Path;

/// Tables that are nested deeper are refused. No key has more than five parts.
const DEEPEST: usize = 16;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// TOML 1.0.
    Toml,
    /// JSON.
    Json,
    /// YAML 1.2: one document without aliases.
    Yaml,
}

impl Format {
    /// Returns the format that the extension of a path names: `toml`, `json`, `yaml` or `yml`.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        [("toml", Self::Toml), ("json", Self::Json), ("yaml", Self::Yaml), ("yml", Self::Yaml)]
            .into_iter()
            .find_map(|(name, format)| extension.eq_ignore_ascii_case(name).then_some(format))
    }

    /// Parses a text into the members of its table.
    pub(crate) fn parse(self, text: &str, origin: &Origin) -> Result<Vec<Member>, SyntaxError> {
        // Editors on Windows write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Toml => toml::parse(text, origin),
            Self::Json => json::parse(text, origin),
            Self::Yaml => yaml::parse(text, origin),
        }
    }
}

/// The reason why a text is not valid in its format.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) origin: Origin,
    pub(crate) why: String,
}

impl SyntaxError {
    fn new(origin: &Origin, position: Option<Position>, why: impl Into<String>) -> Self {
        Self { origin: origin.at(position), why: why.into() }
    }

    fn too_deep(origin: &Origin, position: Option<Position>) -> Self {
        Self::new(origin, position, format!("nested more than {DEEPEST} deep"))
    }

    fn not_a_table(origin: &Origin, found: &Value) -> Self {
        Self::new(origin, Some((1, 1)), format!("expected a table of settings, found {found}"))
    }
}

/// Returns the members given by the variables with the prefix.
///
/// Two underscores stand for a dot, because keys contain single ones: `APP__SERVER__HTTP__RATELIMIT__BURST` is
/// `server.http.ratelimit.burst`.
///
/// A variable with other underscores is skipped, because programs have variables of their own with the same prefix. If it is a known key
/// apart from its punctuation, it is reported as a mistake.
pub(crate) fn environment(
    prefix: &str,
    variables: impl IntoIterator<Item = (String, String)>,
    is_known: impl Fn(&str) -> bool,
) -> Vec<Member> {
    let members = variables.into_iter().filter_map(|(name, value)| {
        let rest = name.strip_prefix(prefix)?.strip_prefix('_')?;
        let key = match rest.strip_prefix('_') {
            Some(path) => path.to_ascii_lowercase().replace("__", "."),
            None if is_known(&letters(rest)) => rest.to_ascii_lowercase(),
            None => return None,
        };
        let origin = Origin::new(&format!("environment variable {name}").into());
        Some(Member { key, value: Value::Untyped(value), origin })
    });
    let mut members: Vec<_> = members.collect();
    // The operating system returns variables in no particular order.
    members.sort_by(|one, other| one.origin.source().cmp(other.origin.source()));
    members
}

/// Returns a name in lower case and without punctuation, so that spellings of a key compare equal.
pub(crate) fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect()
}
