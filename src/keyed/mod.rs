//! One limit per key: [`KeyedLimiter`], in a fixed amount of memory.

mod keyed_limiter;
mod table;

pub use keyed_limiter::{KeyedLimiter, KeyedLimiterBuilder, KeyedLimiterError};
