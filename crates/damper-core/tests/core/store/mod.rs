//! Stores of a value per key.

#[cfg(feature = "std")]
mod lru_store;
#[cfg(feature = "std")]
mod template;
