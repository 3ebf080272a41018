//! Something for each key, in memory that is bounded: a limit ([`KeyedLimiter`]), a breaker ([`CircuitBreakers`]), or a value of any kind
//! ([`LruStore`]).
//!
//! | file | idea |
//! |---|---|
//! | `keyed_limiter`, `builder` | one quota, a bucket for every key |
//! | `table` | where a key's slot can be |
//! | `slot` | whose a slot is, and how it changes its owner |
//! | `policy` | what becomes of a newcomer for whom there is no slot |
//! | `client_address` | addresses as keys |
//! | `lru_store` | a value of any kind for every key: shards and their locks |
//! | `second_chance` | which entry of a shard makes room |
//! | `circuit_breakers` | a breaker for every key |

mod builder;
mod circuit_breakers;
mod client_address;
mod keyed_limiter;
mod lru_store;
mod policy;
mod second_chance;
mod slot;
mod table;

pub use builder::{KeyedLimiterBuilder, KeyedLimiterError};
pub use circuit_breakers::CircuitBreakers;
pub use client_address::ClientAddress;
pub use keyed_limiter::KeyedLimiter;
pub use lru_store::LruStore;
pub use policy::WhenFull;
