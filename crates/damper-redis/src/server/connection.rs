//! One connection, and calls of scripts on it.

use core::fmt;
use futures_util::{StreamExt, TryStreamExt, stream};
use redis::aio::MultiplexedConnection;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, ToRedisArgs, Value};

/// A connection to a server, or to the servers of a cluster. Clones share it.
#[derive(Clone)]
pub(crate) enum Connection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// A script as a server knows it.
#[derive(Debug)]
pub(crate) struct Script {
    source: &'static str,
    digest: String,
}

impl Script {
    /// Creates a script from its source.
    pub(crate) fn new(source: &'static str) -> Self {
        Self { source, digest: redis::Script::new(source).get_hash().to_owned() }
    }
}

/// The form in which a call names a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScriptName {
    /// Names it by its digest.
    ByDigest,
    /// Names it by its source. The server then stores the script.
    BySource,
}

/// The server of a cluster to which a call goes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Destination {
    Owner,
    Moved(String, u16),
    Ask(String, u16),
}

/// The most attempts of a call. A missing script and the redirections of a healthy cluster take fewer.
const STEPS: u32 = 6;

/// The markers that are set at once, so that a connection buffers less than 64 KiB.
const SETS_AT_ONCE: usize = 256;

impl Connection {
    /// Calls a script.
    ///
    /// The call is sent again only if the server has not run it, because it does not know the script or another server owns the keys.
    pub(crate) async fn call(
        &self,
        script: &Script,
        keys: &[String],
        arguments: &[impl ToRedisArgs],
    ) -> RedisResult<Value> {
        let (mut name, mut destination) = (ScriptName::ByDigest, Destination::Owner);
        for _ in 0..STEPS {
            let command = command(script, name, keys, arguments);
            let error = match self.send(command, &destination, keys).await.and_then(Value::extract_error) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            match (error.kind(), redirection(&error)) {
                (ErrorKind::Server(ServerErrorKind::NoScript), _) if name == ScriptName::ByDigest => {
                    name = ScriptName::BySource;
                }
                (ErrorKind::Server(ServerErrorKind::Moved), Some((host, port))) => {
                    destination = Destination::Moved(host, port);
                }
                (ErrorKind::Server(ServerErrorKind::Ask), Some((host, port))) => {
                    destination = Destination::Ask(host, port);
                }
                _ => return Err(error),
            }
        }
        Err(RedisError::from((ErrorKind::Client, "the servers redirect in a circle")))
    }

    /// Sends a command to its destination.
    async fn send(&self, command: Cmd, destination: &Destination, keys: &[String]) -> RedisResult<Value> {
        match self {
            Self::Server(connection) => connection.clone().send_packed_command(&command).await,
            Self::Cluster(connection) => {
                let mut connection = connection.clone();
                match destination {
                    Destination::Owner => {
                        let key = keys.first().map_or("", String::as_str);
                        let owner = Route::with_key(key, SlotAddr::Master);
                        let route = RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(owner));
                        connection.route_command(command, route).await
                    }
                    Destination::Moved(host, port) => {
                        let route = RoutingInfo::SingleNode(by_address(host, *port));
                        connection.route_command(command, route).await
                    }
                    Destination::Ask(host, port) => {
                        let mut pipeline = redis::pipe();
                        pipeline.cmd("ASKING").add_command(command);
                        let replies = connection.route_pipeline(pipeline, 1, 1, by_address(host, *port)).await?;
                        Ok(replies.into_iter().next().unwrap_or(Value::Nil))
                    }
                }
            }
        }
    }

    /// Sends a command without a key. On a cluster it goes to any server that accepts writes.
    pub(crate) async fn ask(&self, command: Cmd) -> RedisResult<Value> {
        match self {
            Self::Server(connection) => connection.clone().send_packed_command(&command).await,
            Self::Cluster(connection) => {
                let route = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
                connection.clone().route_command(command, route).await
            }
        }
        .and_then(Value::extract_error)
    }

    /// Stores a script on a server. In a cluster each server stores it at the first call.
    pub(crate) async fn load(&self, script: &Script) -> RedisResult<()> {
        match self {
            Self::Server(_) => {
                let mut load = redis::cmd("SCRIPT");
                load.arg("LOAD").arg(script.source);
                self.ask(load).await.map(drop)
            }
            Self::Cluster(_) => Ok(()),
        }
    }

    /// Sets missing keys to 0, many at once.
    ///
    /// A cluster has 16,384 of them, and one round trip after the other would take minutes between data centres.
    pub(crate) async fn set_where_missing(&self, keys: impl Iterator<Item = String>) -> RedisResult<()> {
        let replies = stream::iter(keys).map(async |key| {
            let mut set = redis::cmd("SET");
            set.arg(&key).arg(0).arg("NX");
            self.send(set, &Destination::Owner, &[key]).await.and_then(Value::extract_error)
        });
        replies.buffer_unordered(SETS_AT_ONCE).try_for_each(async |_| Ok(())).await
    }

    /// Reads the server's clock, in µs since 1970.
    pub(crate) async fn time(&self) -> RedisResult<u64> {
        let (seconds, micros): (u64, u64) = redis::from_redis_value(self.ask(redis::cmd("TIME")).await?)?;
        Ok(seconds.saturating_mul(1_000_000).saturating_add(micros))
    }
}

/// Creates the command that calls a script.
fn command(script: &Script, name: ScriptName, keys: &[String], arguments: &[impl ToRedisArgs]) -> Cmd {
    let mut command = match name {
        ScriptName::ByDigest => redis::cmd("EVALSHA").arg(&script.digest).take(),
        ScriptName::BySource => redis::cmd("EVAL").arg(script.source).take(),
    };
    command.arg(keys.len());
    for key in keys {
        command.arg(key);
    }
    for argument in arguments {
        command.arg(argument);
    }
    command
}

/// Returns the host and the port to which an error of a cluster redirects.
///
/// The port follows the last colon, because an IPv6 address contains colons.
fn redirection(error: &RedisError) -> Option<(String, u16)> {
    let (address, _) = error.redirect_node()?;
    let (host, port) = address.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

fn by_address(host: &str, port: u16) -> SingleNodeRoutingInfo {
    SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server(_) => "Server",
            Self::Cluster(_) => "Cluster",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::redirection;

    #[test]
    fn redirections_name_host_and_port() {
        let read = |line: &str| {
            let error = redis::parse_redis_value(line.as_bytes()).unwrap().extract_error().unwrap_err();
            redirection(&error)
        };
        assert_eq!(read("-MOVED 3999 127.0.0.1:6381\r\n"), Some(("127.0.0.1".to_owned(), 6381)));
        assert_eq!(read("-ASK 3999 ::1:6381\r\n"), Some(("::1".to_owned(), 6381)));
        assert_eq!(read("-MOVED 3999 nowhere\r\n"), None);
        assert_eq!(read("-ERR 3999 127.0.0.1:6381\r\n"), None);
    }
}
