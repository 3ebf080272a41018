//! Numbers by chance, for pauses and names.

use core::hash::BuildHasher;
use std::hash::RandomState;

/// Draws a number from the operating system, another one each time.
///
/// std's `RandomState` takes its keys from there.
pub(crate) fn draw() -> u64 {
    RandomState::new().hash_one(0)
}

/// Draws a number from `least` to `most`.
pub(crate) fn between(least: u64, most: u64) -> u64 {
    least + draw() % (most.saturating_sub(least) + 1)
}
