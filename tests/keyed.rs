//! The keyed limiter through its public API.
#![cfg(feature = "std")]

use damper::{KeyedLimiter, KeyedLimiterError, ManualClock, Quota};
use proptest::prelude::*;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::net::IpAddr;
use std::time::Duration;

/// Hashes a `u64` to itself, so that a test can aim.
#[derive(Clone, Copy, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64 here")
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

fn aimed(
    quota: Quota,
    capacity: usize,
    clock: &ManualClock,
) -> KeyedLimiter<u64, &ManualClock, BuildHasherDefault<Identity>> {
    KeyedLimiter::<u64>::builder(quota)
        .capacity(capacity)
        .clock(clock)
        .hasher(BuildHasherDefault::default())
        .build()
        .unwrap()
}

#[test]
fn keys_are_independent() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<IpAddr>::builder(Quota::per_second(10).burst(2)).clock(&clock).build().unwrap();
    let [alice, bob] = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])];
    assert_eq!(limits.check_n(&alice, 2).unwrap().remaining(), 0);
    assert_eq!(limits.check(&alice).unwrap_err().retry_after(), Some(Duration::from_millis(100)));
    assert_eq!(limits.check(&bob).unwrap().remaining(), 1);
    assert!(limits.check_n(&bob, 3).unwrap_err().exceeds_burst());
    clock.advance(Duration::from_millis(100));
    assert!(limits.check(&alice).is_ok());
}

#[test]
fn borrowed_keys_of_any_kind() {
    let limits = KeyedLimiter::<str>::builder(Quota::per_hour(1)).build().unwrap();
    let owned = String::from("user-7");
    assert!(limits.check(&owned).is_ok());
    assert!(limits.check("user-7").is_err());
    let pairs = KeyedLimiter::<(u8, &str)>::builder(Quota::per_hour(1)).build().unwrap();
    assert!(pairs.check(&(1, "a")).is_ok());
    assert!(pairs.check(&(2, "a")).is_ok());
    assert!(pairs.check(&(1, "a")).is_err());
}

#[test]
fn capacities_out_of_range_are_named() {
    for keys in [0, (1 << 28) + 1, usize::MAX] {
        let error = KeyedLimiter::<u64>::builder(Quota::per_second(1)).capacity(keys).build().unwrap_err();
        assert_eq!(error, KeyedLimiterError::Capacity(keys));
        assert_eq!(error.to_string(), format!("capacity is {keys}, it must be 1 to 268435456"));
    }
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1)).capacity(1).build().unwrap();
    assert!(limits.capacity() >= 1);
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1)).build().unwrap();
    assert!(limits.capacity() >= 8_192);
}

/// All newcomers are aimed at the set of one exhausted key: whoever takes its slot owes what it owed.
#[test]
fn an_exhausted_key_gets_no_fresh_burst_by_being_evicted() {
    let clock = ManualClock::new();
    let limits = aimed(Quota::per_second(1).burst(5), 1, &clock);
    let sets = limits.capacity() as u64;
    let mut admitted = 0;
    for round in 0..1_000u64 {
        // A different key each time, all in one set, then the first ones again.
        admitted += u64::from(limits.check(&(1 + (round % 100) * sets)).is_ok());
    }
    // What the eight slots of the set hold, once.
    assert_eq!(admitted, 8 * 5);
}

/// A flood of keys is bounded in memory, and what each slot admits is bounded too.
#[test]
fn a_flood_of_keys_admits_no_more_than_the_slots_hold() {
    let clock = ManualClock::new();
    let limits = aimed(Quota::per_second(1).burst(3), 64, &clock);
    let slots = limits.capacity() as u64;
    let admitted: u64 = (0..100_000u64).map(|key| u64::from(limits.check(&key).is_ok())).sum();
    assert_eq!(admitted, slots * 3);
    assert_eq!(limits.capacity() as u64, slots);
}

#[test]
fn an_idle_victim_loses_nothing() {
    let clock = ManualClock::new();
    let limits = aimed(Quota::per_second(1).burst(2), 1, &clock);
    let set = limits.capacity() as u64;
    limits.check_n(&1, 2).unwrap();
    clock.advance(Duration::from_secs(2));
    for newcomer in 2..20u64 {
        let _ = limits.check_n(&(1 + newcomer * set), 2);
    }
    clock.advance(Duration::from_secs(2));
    assert_eq!(limits.check(&1).unwrap().remaining(), 1, "a full bucket again");
}

#[test]
fn hashes_of_zero_are_keys_too() {
    let clock = ManualClock::new();
    let limits = aimed(Quota::per_second(1), 8, &clock);
    assert!(limits.check(&0).is_ok());
    assert!(limits.check(&0).is_err());
}

#[test]
fn racing_threads_take_exactly_what_there_is() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1).burst(1_000)).clock(&clock).build().unwrap();
    let admitted: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..10_000u64).filter(|call| limits.check(&(call % 8)).is_ok()).count()))
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(admitted, 8 * 1_000);
}

#[test]
fn the_default_hasher_is_seeded() {
    let [one, other] = [std::hash::RandomState::new(), std::hash::RandomState::new()];
    assert_ne!(one.hash_one(7), other.hash_one(7));
}

proptest! {
    /// While the keys fit, each is limited as if it had a limiter of its own.
    #[test]
    fn each_key_is_a_limiter(calls in proptest::collection::vec((1..=40u64, 0..200_000_000u64, 0..4u32), 1..400)) {
        let clock = ManualClock::new();
        let quota = Quota::per_second(10).burst(3);
        // The identity spreads 40 keys evenly, two or three to a set.
        let limits = aimed(quota, 40, &clock);
        let mut own = HashMap::new();
        for (key, pass, n) in calls {
            clock.advance_ticks(pass);
            let own = own.entry(key).or_insert_with(|| damper::RateLimiter::with_clock(quota, &clock));
            let (found, expected) = (limits.check_n(&key, n), own.check_n(n));
            prop_assert_eq!(found.is_ok(), expected.is_ok());
            if let (Ok(found), Ok(expected)) = (found, expected) {
                prop_assert_eq!(found.remaining(), expected.remaining());
            }
        }
    }
}
