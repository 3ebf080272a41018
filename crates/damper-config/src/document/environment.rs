//! Environment variables: `APP__SERVER__HTTP__RATELIMIT__BURST` is `server.http.ratelimit.burst`.

use crate::value::{Member, Origin, Value};

/// Returns the members given by the variables with the prefix.
///
/// Two underscores stand for a dot, because keys contain single ones.
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
