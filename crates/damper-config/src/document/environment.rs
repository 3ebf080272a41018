//! Environment variables: `APP__SERVER__HTTP__RATELIMIT__BURST` is `server.http.ratelimit.burst`.

use crate::value::{Member, Origin, Value};

/// Returns the members that variables with the prefix name. Two underscores stand for a dot, as keys have single ones.
pub(crate) fn environment(prefix: &str, variables: impl IntoIterator<Item = (String, String)>) -> Vec<Member> {
    let prefix = format!("{prefix}__");
    let members = variables.into_iter().filter_map(|(name, value)| {
        let key = name.strip_prefix(&prefix)?.to_ascii_lowercase().replace("__", ".");
        let origin = Origin::new(&format!("environment variable {name}").into());
        Some(Member { key, value: Value::Untyped(value), origin })
    });
    let mut members: Vec<_> = members.collect();
    // The operating system has no order of variables.
    members.sort_by(|one, other| one.origin.source().cmp(other.origin.source()));
    members
}
