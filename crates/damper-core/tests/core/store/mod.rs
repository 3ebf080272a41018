//! Stores of a value per key.

#[cfg(feature = "std")]
mod bounded_store;
#[cfg(feature = "std")]
mod template;
