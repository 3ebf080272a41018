//! The server's half of a connection: calls that end by their deadline, whatever the server does.

// | file | idea |
// |---|---|
// | `address` | the part of an address that is shown |
// | `target` | where to connect: a server or a cluster, and with which settings of the socket |
// | `tls`, or `no_tls` without the feature | certificates, checked, and cryptography |
// | `connection` | one connection, and how a script is called on it |
// | `connect_error` | why there is no connection, and whether another attempt may succeed |
// | `handshake` | why a server and this program do not agree on TLS |
// | `eviction` | whether the server keeps what it is told |
// | `link` | the connection in use, which is replaced for ever |
// | `server_clock` | the server's clock, as replies show it |
// | `shard` | the breaker and the clock of the servers that answer for a part of the slots |
// | `server` | a call: deadline, breaker, connection, reply |
// | `beat` | how many processes there are, and whether the server has lost its memory |
// | `heartbeat` | the task that asks for it, again and again |
// | `chance` | numbers by chance |

mod address;
mod beat;
pub(crate) mod chance;
mod connect_error;
mod connection;
mod eviction;
mod handshake;
mod heartbeat;
mod link;
#[expect(clippy::module_inception, reason = "the type is the concept")]
mod server;
mod server_clock;
mod shard;
mod target;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;

pub(crate) use connect_error::ConnectError;
pub(crate) use heartbeat::Heartbeat;
pub(crate) use server::{Server, ServerSettings};
pub(crate) use target::Target;
pub(crate) use tls::Certificates;
