//! One limit per key, in a fixed amount of memory: [`KeyedLimiter`].

// | file | idea |
// |---|---|
// | `keyed_limiter`, `builder` | one quota, a bucket for every key |
// | `visit` | what is decided about the bucket of a key that has a slot |
// | `shared` | the buckets that keys without a slot share |
// | `revocable` | what is taken as a part of a decision of several limiters |
// | `newcomer` | the first sight of a key: which slot it gets, and what it owes |
// | `table` | where a key's slot can be |
// | `slot` | whose a slot is, and how it changes its owner |
// | `tiers` | several quotas, and which of them is a key's |
// | `locks` | what is held at a first sight |
// | `policy` | what becomes of a newcomer for whom there is no slot |
// | `client_address` | addresses as keys |

#[cfg(feature = "alloc")]
mod builder;
mod client_address;
mod error;
mod keyed_limiter;
mod locks;
mod newcomer;
mod policy;
pub(crate) mod revocable;
mod shared;
mod slot;
mod table;
mod tiers;
mod visit;

#[cfg(feature = "alloc")]
pub use builder::KeyedLimiterBuilder;
pub use client_address::ClientAddress;
pub use error::KeyedLimiterError;
pub use keyed_limiter::KeyedLimiter;
pub use policy::WhenFull;
pub use table::KeyedSlots;
