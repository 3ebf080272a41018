//! Servers to break, a proxy that disturbs, processes that load, and the envelope: shared by the tests.
//!
//! Everything runs on one machine, so the realtime clock of a process is the clock of the server.

mod admission;
mod authority;
mod envelope;
mod exclusive;
mod fleet;
mod load;
mod lua_server;
mod lua_struct;
mod proxy;
mod random;
mod redis_cluster;
mod redis_server;
mod shifted_clock;
mod signal;
mod snapshot;
mod substitution;
mod tls_server;
mod worker;

pub use admission::{Admission, Log, micros_now};
pub use authority::{Authority, Identity};
pub use envelope::{Envelope, Peak};
pub use exclusive::{Exclusive, exclusive};
pub use fleet::{Figures, Fleet};
pub use load::{BadLoad, Load, Loss, Policy};
pub use lua_server::{LuaServer, Memory};
pub use proxy::{Fault, Proxy};
pub use random::Random;
pub use redis_cluster::RedisCluster;
pub use redis_server::{Calls, RedisServer};
pub use shifted_clock::ShiftedClock;
pub use signal::{Signal, send};
pub use snapshot::Snapshot;
pub use substitution::Substitution;
pub use tls_server::TlsServer;
pub use worker::Worker;
