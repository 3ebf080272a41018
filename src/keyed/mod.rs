//! One limit per key: [`KeyedLimiter`], in a fixed amount of memory.
//!
//! | file | idea |
//! |---|---|
//! | `keyed_limiter`, `builder` | one quota, a bucket for every key |
//! | `table` | where a key's slot can be |
//! | `slot` | whose a slot is, and how it changes its owner |
//! | `policy` | what becomes of a newcomer for whom there is no slot |
//! | `client_address` | addresses as keys |

mod builder;
mod client_address;
mod keyed_limiter;
mod policy;
mod slot;
mod table;

pub use builder::{KeyedLimiterBuilder, KeyedLimiterError};
pub use client_address::ClientAddress;
pub use keyed_limiter::KeyedLimiter;
pub use policy::WhenFull;
