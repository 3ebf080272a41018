//! The memory of a keyed limiter under a flood of keys.
//!
//! A separate binary, so that nothing else allocates meanwhile.
//!
//! The crate forbids unsafe code, which a counting allocator needs. The test reads the resident memory that the system
//! reports instead.
#![cfg(all(feature = "std", target_os = "linux"))]

extern crate damper_core as damper;

use damper::{KeyedLimiter, ManualClock, Quota, WhenFull};
use std::fs;

const CAPACITY: usize = 10_000;

/// The resident pages of the process. No page is smaller than 4 KiB.
fn resident() -> i64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A million keys take no more slots than there are, and no memory.
///
/// A byte kept for each key would be 244 pages, or 48 if only one key in five was kept.
// CLAIM: KeyedLimiter
#[test]
fn flood_of_keys_takes_no_memory() {
    let policies = [WhenFull::SharedOverflow, WhenFull::DenyNew, WhenFull::EvictLeastIndebted];
    for (when_full, keys) in policies.into_iter().zip([1_000_000, 200_000, 200_000]) {
        let limits = KeyedLimiter::<u64>::builder(Quota::per_hour(1).burst(1_000_000))
            .tiers([Quota::per_second(1)], |key| usize::from(key % 4 == 0))
            .capacity(CAPACITY)
            .when_full(when_full)
            .clock(ManualClock::new())
            .build()
            .unwrap();
        let flood = |keys: std::ops::Range<u64>| keys.for_each(|key| _ = limits.check(&key));
        flood(0..50_000);
        resident();
        let before = resident();
        flood(50_000..50_000 + keys);
        let grown = resident() - before;
        println!("{when_full:?}: {grown} pages more");
        assert!(grown < 40, "{when_full:?}: {grown} pages more");
        assert!(limits.len() <= 2 * CAPACITY, "{} slots", limits.len());
    }
}
