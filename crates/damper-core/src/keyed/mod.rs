//! Something for each key, in memory that is bounded: a limit ([`KeyedLimiter`]), a breaker ([`CircuitBreakers`]), or a
//! value of any kind ([`LruStore`]).
//!
//! | file | idea |
//! |---|---|
//! | `keyed_limiter`, `builder` | one quota, a bucket for every key |
//! | `visit` | what is decided about the bucket of a key that has a slot |
//! | `shared` | the buckets that keys without a slot share |
//! | `revocable` | what is taken as a part of a decision of several limiters |
//! | `newcomer` | the first sight of a key: which slot it gets, and what it owes |
//! | `table` | where a key's slot can be |
//! | `slot` | whose a slot is, and how it changes its owner |
//! | `tiers` | several quotas, and which of them is a key's |
//! | `locks` | what is held at a first sight |
//! | `policy` | what becomes of a newcomer for whom there is no slot |
//! | `seed` | how keys are hashed |
//! | `client_address` | addresses as keys |
//! | `lru_store` | a value of any kind for every key: shards and their locks |
//! | `second_chance`, `marks` | which entry of a shard makes room |
//! | `circuit_breakers` | a breaker for every key |

#[cfg(feature = "alloc")]
mod builder;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod circuit_breakers;
mod client_address;
mod error;
mod keyed_limiter;
mod locks;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod lru_store;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod marks;
mod newcomer;
mod policy;
pub(crate) mod revocable;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod second_chance;
mod seed;
mod shared;
mod slot;
mod table;
mod tiers;
mod visit;

#[cfg(feature = "alloc")]
pub use builder::KeyedLimiterBuilder;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use circuit_breakers::CircuitBreakers;
pub use client_address::ClientAddress;
pub use error::KeyedLimiterError;
pub use keyed_limiter::KeyedLimiter;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use lru_store::LruStore;
pub use policy::WhenFull;
pub use seed::{Seed, SeedHasher};
pub use table::KeyedSlots;
