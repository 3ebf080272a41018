//! One limit per key: [`KeyedLimiter`], in a fixed amount of memory.

mod keyed_limiter;
mod table;
#[cfg(test)]
mod tests;

pub use keyed_limiter::{KeyedLimiter, KeyedLimiterBuilder, KeyedLimiterError};
