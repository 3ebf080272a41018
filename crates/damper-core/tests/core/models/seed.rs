//! The seed for everything that tests draw themselves: random keys, random steps, hashes of keys.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Returns the number in the environment variable `DAMPER_SEED`, or a different number in each run.
///
/// `.ci/run --seed N` sets the variable. A failing test prints how to repeat its draws.
pub(crate) fn seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| match std::env::var("DAMPER_SEED") {
        Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("DAMPER_SEED is {seed:?}, it must be a number below 2^64")),
        Err(_) => RandomState::new().hash_one(0),
    });
    // libtest runs each test in its own thread, and shows its output if it fails.
    thread_local! {
        static IS_SHOWN: Cell<bool> = const { Cell::new(false) };
    }
    if !IS_SHOWN.replace(true) {
        println!("to repeat this test's draws: DAMPER_SEED={}", *SEED);
    }
    *SEED
}
