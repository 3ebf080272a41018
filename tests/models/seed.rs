//! The seed of what tests draw themselves: random keys, random steps, the hashes of keys.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Returns the number in the environment variable `DAMPER_SEED`, which `.ci/run --seed N` sets, or else another number in
/// each run. A test that fails shows how to repeat what it drew.
pub(crate) fn seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| match std::env::var("DAMPER_SEED") {
        Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("DAMPER_SEED is {seed:?}, it must be a number below 2^64")),
        Err(_) => RandomState::new().hash_one(0),
    });
    // libtest has a thread for each test, and shows what it prints if it fails.
    thread_local! {
        static IS_SHOWN: Cell<bool> = const { Cell::new(false) };
    }
    if !IS_SHOWN.replace(true) {
        println!("to repeat what this test draws: DAMPER_SEED={}", *SEED);
    }
    *SEED
}
