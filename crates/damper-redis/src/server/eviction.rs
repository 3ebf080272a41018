//! A check that a server evicts no keys.

use super::connection::Connection;
use core::fmt;
use redis::Value;

/// The only policy under which a server keeps all keys until they expire.
const NO_EVICTION: &str = "noeviction";

/// Returns the `maxmemory-policy` of a server that may evict limits.
///
/// In a cluster, one server is asked. Returns `None` for a server whose configuration clients may not read, as hosted ones.
pub(super) async fn policy(connection: &Connection) -> Option<String> {
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg("maxmemory-policy");
    let reply = connection.ask(command).await.ok()?;
    let policy = value_of(&reply)?;
    (policy != NO_EVICTION).then_some(policy)
}

/// Returns the value from a reply with one name and one value, in either protocol.
fn value_of(reply: &Value) -> Option<String> {
    let value = match reply {
        Value::Array(items) => items.get(1)?,
        Value::Map(pairs) => &pairs.first()?.1,
        _ => return None,
    };
    redis::from_redis_value_ref(value).ok()
}

/// Writes why this crate refuses a server with this policy.
pub(super) fn refusal(f: &mut fmt::Formatter<'_>, policy: &str) -> fmt::Result {
    write!(f, "maxmemory-policy {policy} evicts limits; set noeviction, or accept it with accept_eviction()")
}

#[cfg(test)]
mod tests {
    use super::value_of;
    use redis::Value;

    #[test]
    fn policy_is_read_in_both_protocols() {
        let [name, policy] = ["maxmemory-policy", "allkeys-lru"].map(|text| Value::BulkString(text.into()));
        let expected = Some("allkeys-lru".to_owned());
        assert_eq!(value_of(&Value::Array(vec![name.clone(), policy.clone()])), expected);
        assert_eq!(value_of(&Value::Map(vec![(name.clone(), policy)])), expected);
        assert_eq!(value_of(&Value::Array(vec![name])), None);
        assert_eq!(value_of(&Value::Okay), None);
    }
}
