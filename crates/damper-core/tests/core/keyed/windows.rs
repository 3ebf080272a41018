//! Keyed limiters that count by windows: each key behaves like a limiter of its own.

use crate::models::part_of::part_of;
use crate::models::seed::seed;
use damper::keyed::KeyedLimiterBuilder;
use damper::limit::{Algorithm, KeyedAlgorithm};
use damper::time::Seed;
use damper::{
    Alignment, FixedWindow, KeyedLimiter, ManualClock, Quota, RateLimiter, SetQuotaError, SlidingCounter, WhenFull,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

type Builder<'a> = KeyedLimiterBuilder<u64, &'a ManualClock, Seed>;

fn builder(quota: Quota, clock: &ManualClock) -> Builder<'_> {
    let builder = KeyedLimiter::<u64>::builder(quota).clock(clock).hasher(Seed::new(seed(), 0));
    builder.aligned_to(Alignment::ClockOrigin)
}

fn fixed(quota: Quota) -> FixedWindow {
    FixedWindow::new(quota).aligned_to(Alignment::ClockOrigin)
}

fn sliding(quota: Quota) -> SlidingCounter {
    SlidingCounter::new(quota).unwrap().aligned_to(Alignment::ClockOrigin)
}

#[test]
fn each_key_has_windows_of_its_own() {
    let clock = ManualClock::new();
    let limits = builder(Quota::per_second(3), &clock).algorithm::<FixedWindow>().build().unwrap();
    assert_eq!(limits.check_n(&1, 2).unwrap().remaining(), 1);
    assert!(limits.check_n(&1, 2).is_err() && limits.check_n(&2, 3).is_ok());
    assert_eq!((limits.peek(&1).used(), limits.peek(&1).limit(), limits.peek(&9).used()), (2, 3, 0));
    clock.advance(Duration::from_millis(900));
    assert_eq!(limits.check(&2).unwrap_err().retry_after(), Some(Duration::from_millis(100)));
    assert!(limits.check_n(&2, 4).unwrap_err().exceeds_burst());
    clock.advance(Duration::from_millis(100));
    assert!(limits.check_n(&2, 3).is_ok() && limits.check_n(&1, 3).is_ok());

    assert_eq!(limits.refund(&1, 2), 2);
    assert_eq!(limits.charge(&1, 7), 2, "no more than a window's limit");
    limits.reset(&1);
    assert_eq!(limits.peek(&1).used(), 0);
}

#[test]
fn limit_that_exceeds_a_level_is_refused() {
    let clock = ManualClock::new();
    let limit = |limit| builder(Quota::per_second(limit), &clock).algorithm::<SlidingCounter>().build();
    let refused = "limit is 1048575, it must be at most 1048574 (for a key, with this algorithm)";
    assert_eq!(limit((1 << 20) - 1).unwrap_err().to_string(), refused);
    let limits = limit((1 << 20) - 2).unwrap();
    assert!(limits.check_n(&1, (1 << 20) - 2).is_ok() && limits.check(&1).is_err());
    assert_eq!(
        limits.set_quota(Quota::per_second(1 << 20)),
        Err(SetQuotaError::LimitTooLarge { limit: 1 << 20, most: (1 << 20) - 2 })
    );
    limits.set_quota(Quota::per_second(5)).unwrap();
    let error = builder(Quota::per_second(u32::MAX), &clock).algorithm::<FixedWindow>().build().unwrap_err();
    assert_eq!((error.setting(), error.value().to_string()), ("limit", u32::MAX.to_string()));
}

#[test]
fn key_and_limit_for_all_decide_together() {
    let clock = ManualClock::new();
    let limits = builder(Quota::per_second(3), &clock).algorithm::<SlidingCounter>().build().unwrap();
    let all = RateLimiter::with_algorithm(fixed(Quota::per_second(5)), &clock);
    // Later than the first window.
    assert!(limits.check_n_with(&1, 1, &all).is_ok());
    clock.advance(Duration::from_secs(7));
    assert!(limits.check_n_with(&1, 3, &all).is_ok() && limits.check_n_with(&2, 1, &all).is_ok());
    assert_eq!(limits.check_n_with(&2, 2, &all).unwrap_err().index(), 1);
    assert_eq!((limits.peek(&1).used(), limits.peek(&2).used()), (3, 1), "rolled back");
    assert_eq!(limits.check_n_with(&1, 1, &all).unwrap_err().index(), 0);
}

#[test]
fn charges_and_refunds_count_in_the_window() {
    fn booked<A: KeyedAlgorithm>() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(7));
        let limits = builder(Quota::per_second(5), &clock).algorithm::<A>().build().unwrap();
        limits.check(&1).unwrap();
        assert_eq!((limits.charge(&1, 3), limits.peek(&1).used()), (3, 4));
        assert_eq!((limits.charge(&1, 3), limits.peek(&1).used()), (1, 5), "no more than a window's limit");
        assert_eq!((limits.refund(&1, 2), limits.peek(&1).used()), (2, 3));
        clock.advance(Duration::from_secs(2));
        assert_eq!((limits.peek(&1).used(), limits.charge(&1, 2)), (0, 2));
        assert_eq!((limits.refund(&1, 9), limits.peek(&1).used()), (2, 0), "no more than the key took in it");
    }
    booked::<FixedWindow>();
    booked::<SlidingCounter>();
}

#[test]
fn unlimited_quota_counts_nothing() {
    fn unlimited<A: KeyedAlgorithm>() {
        let clock = ManualClock::new();
        let limits = builder(Quota::UNLIMITED, &clock).algorithm::<A>().build().unwrap();
        for _ in 0..3 {
            assert_eq!(limits.check_n(&1, u32::MAX).unwrap().remaining(), u32::MAX);
        }
        assert_eq!((limits.peek(&1).used(), limits.len()), (0, 0));
    }
    unlimited::<FixedWindow>();
    unlimited::<SlidingCounter>();
}

#[test]
fn tiers_have_windows_too() {
    let clock = ManualClock::new();
    let limits = builder(Quota::per_second(2), &clock)
        .tiers([Quota::per_minute(10)], |&key| usize::from(key > 9))
        .algorithm::<FixedWindow>()
        .build()
        .unwrap();
    assert!(limits.check_n(&1, 2).is_ok() && limits.check_n(&10, 10).is_ok());
    limits.set_tier(&1, 1).unwrap();
    assert!(limits.check(&1).is_err(), "the move keeps the duration of the debt");
    clock.advance(Duration::from_secs(1));
    assert!(limits.check(&10).is_err());
    clock.advance(Duration::from_mins(1));
    assert!(limits.check_n(&1, 10).is_ok() && limits.check_n(&10, 10).is_ok());
}

/// An attacker rotates keys through a small table.
///
/// A key that calls constantly gets its limit in each window, under each policy.
#[test]
fn busy_key_gets_its_limit_in_each_window() {
    fn flooded<A: KeyedAlgorithm>(when_full: WhenFull) {
        let slots = 200;
        let clock = ManualClock::new();
        let limits =
            builder(Quota::per_second(5), &clock).capacity(100).when_full(when_full).algorithm::<A>().build().unwrap();
        for window in 0..u64::from(part_of(20)) {
            let [mut admitted, mut others] = [0; 2];
            for round in 0..100u64 {
                admitted += u32::from(limits.check(&u64::MAX).is_ok());
                for key in 0..100 {
                    others += u32::from(limits.check(&(window * 10_000 + round * 100 + key)).is_ok());
                }
            }
            if when_full == WhenFull::EvictLeastIndebted {
                // A key evicted before it used up its limit gets a fresh one when it returns.
                assert!(admitted + others <= 5 * slots, "{admitted} and {others}");
            } else {
                assert_eq!(admitted, 5, "{when_full:?}");
            }
            // A sliding counter counts the previous window too.
            clock.advance(Duration::from_secs(2));
        }
        assert!(limits.len() <= slots as usize);
    }
    for when_full in [WhenFull::SharedOverflow, WhenFull::DenyNew, WhenFull::EvictLeastIndebted] {
        flooded::<FixedWindow>(when_full);
        flooded::<SlidingCounter>(when_full);
    }
}

/// Takes a token of as many keys as there are slots, so that newcomers are refused.
fn fill<A: KeyedAlgorithm>(limits: &KeyedLimiter<u64, &ManualClock, Seed, A>) {
    for key in 0..1_000 {
        _ = limits.check(&key);
    }
    assert!((1_000..1_100).all(|key| limits.check(&key).is_err()));
}

#[test]
fn idle_key_gives_up_its_slot() {
    fn idle<A: KeyedAlgorithm>(windows: u64) {
        let clock = ManualClock::new();
        let limits = builder(Quota::per_second(5), &clock).capacity(10).when_full(WhenFull::DenyNew);
        let limits = limits.algorithm::<A>().build().unwrap();
        fill(&limits);
        clock.advance(Duration::from_secs(windows));
        assert!((2_000..2_004).all(|key| limits.check(&key).is_ok()), "slots of {windows} windows ago are free");
    }
    idle::<FixedWindow>(1);
    idle::<SlidingCounter>(2);
}

#[test]
fn keys_without_a_slot_share_one_limit() {
    fn shared<A: KeyedAlgorithm>() {
        let clock = ManualClock::new();
        let builder = builder(Quota::per_second(5), &clock).capacity(10).shared_buckets(1);
        let limits = builder.algorithm::<A>().build().unwrap();
        let admitted = (0..1_000).filter(|key| limits.check(key).is_ok()).count();
        assert_eq!(admitted, limits.len() + 5);
        clock.advance(Duration::from_secs(2));
        assert!(limits.check(&1_000).is_ok());
    }
    shared::<FixedWindow>();
    shared::<SlidingCounter>();
}

#[test]
fn slot_after_overflow_continues_the_shared_count() {
    fn no_second<A: KeyedAlgorithm>() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(7));
        let builder = builder(Quota::per_second(5), &clock).capacity(10).shared_buckets(1);
        let limits = builder.algorithm::<A>().build().unwrap();
        let without = (0..1_000).filter(|key| {
            let overflows = limits.overflows();
            limits.check(key).is_ok() && limits.overflows() > overflows
        });
        assert_eq!(without.count(), 5, "one limit for all keys without a slot");
        // All slots are free, and the window is still the same.
        (0..1_000).for_each(|key| limits.reset(&key));
        assert!((2_000..2_010).all(|key| limits.check(&key).is_err()), "each key may be one of the five");
        clock.advance(Duration::from_secs(2));
        assert!((2_000..2_010).all(|key| limits.check(&key).is_ok()));
    }
    no_second::<FixedWindow>();
    no_second::<SlidingCounter>();
}

#[test]
fn busiest_key_keeps_its_slot() {
    fn busiest<A: KeyedAlgorithm>() {
        let clock = ManualClock::new();
        let limits = builder(Quota::per_second(50), &clock).capacity(10).when_full(WhenFull::EvictLeastIndebted);
        let limits = limits.algorithm::<A>().build().unwrap();
        limits.check_n(&0, 40).unwrap();
        for key in 1..300 {
            _ = limits.check(&key);
            assert_eq!(limits.peek(&0).used(), 40, "after {key}");
        }
    }
    busiest::<FixedWindow>();
    busiest::<SlidingCounter>();
}

#[test]
fn racing_threads_take_exactly_the_limit_of_each_window() {
    let clock = ManualClock::new();
    let limits = builder(Quota::per_second(50), &clock).algorithm::<FixedWindow>().build().unwrap();
    for _ in 0..300 {
        let allowed: usize = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| (0..300).filter(|call| limits.check(&(call % 5)).is_ok()).count()))
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(allowed, 5 * 50);
        clock.advance(Duration::from_secs(1));
    }
}

fn is_alike<A: KeyedAlgorithm + Algorithm>(
    limit: u32,
    moves: &[(u64, u64, u32)],
    alone: fn(Quota) -> A,
) -> Result<(), TestCaseError> {
    let clock = ManualClock::new();
    let quota = Quota::per_second(limit);
    let limits = builder(quota, &clock).capacity(1_000).algorithm::<A>().build().unwrap();
    let mut each = HashMap::new();
    for &(ticks, key, n) in moves {
        clock.advance_ticks(ticks);
        let alone = each.entry(key).or_insert_with(|| RateLimiter::with_algorithm(alone(quota), &clock));
        // A new limiter's first window starts with it.
        prop_assert_eq!(limits.check_n(&key, n), alone.check_n(n), "key {} at {}", key, damper::Clock::now(&clock));
        prop_assert_eq!(limits.peek(&key), alone.peek());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn each_key_matches_a_limiter_of_its_own(
        limit in 1..40u32,
        moves in proptest::collection::vec((prop_oneof![0..300_000_000u64, 0..1u64 << 36], 0..5u64, 0..12u32), 1..120),
    ) {
        is_alike(limit, &moves, fixed)?;
        is_alike(limit, &moves, sliding)?;
    }
}
