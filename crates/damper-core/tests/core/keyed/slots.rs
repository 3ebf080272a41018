//! Keyed limiters in slots that the caller lends, without allocation, with every set of features.

use damper::keyed::KeyedSlots;
use damper::time::Seed;
use damper::{KeyedLimiter, ManualClock, Quota, WhenFull};
use std::thread;
use std::time::Duration;

const SEED: Seed = Seed::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);

#[test]
fn static_limiter_limits_each_key() {
    static TIME: ManualClock = ManualClock::new();
    static SLOTS: KeyedSlots<32> = KeyedSlots::new();
    static NODES: KeyedLimiter<u16, &ManualClock, Seed> =
        KeyedLimiter::in_slots(Quota::per_minute(6).burst(2), &SLOTS, &TIME, SEED);

    assert_eq!(NODES.capacity(), 64);
    for node in 0..64 {
        assert_eq!(NODES.check_n(&node, 2).map(|allowed| allowed.remaining()), Ok(0));
    }
    for node in 0..64 {
        assert_eq!(NODES.check(&node).unwrap_err().retry_after(), Some(Duration::from_secs(10)));
    }
    TIME.advance(Duration::from_secs(10));
    for node in 0..64 {
        assert!(NODES.check(&node).is_ok() && NODES.check(&node).is_err());
    }
    assert_eq!(NODES.len() as u64 + NODES.overflows() / 5, 64);
    NODES.set_quota(Quota::per_minute(6).burst(5)).unwrap();
    assert_eq!(NODES.peek(&7).used(), 2, "tokens already taken stay taken");
    NODES.clear();
    assert!(NODES.is_empty());
    assert_eq!(NODES.peek(&7).remaining(), 5);
}

/// Four slots serve a thousand keys.
///
/// Keys without a slot share one bucket, and no key gets a second burst.
#[test]
fn one_set_of_slots_is_enough() {
    static TIME: ManualClock = ManualClock::new();
    static SLOTS: KeyedSlots<1, 1> = KeyedSlots::new();
    static LIMITS: KeyedLimiter<u32, &ManualClock, Seed> =
        KeyedLimiter::in_slots(Quota::per_hour(1).burst(3), &SLOTS, &TIME, SEED);

    let admitted: u32 = (0..10).map(|_| (0..1_000).filter(|key| LIMITS.check(key).is_ok()).count() as u32).sum();
    assert_eq!((admitted, LIMITS.len()), (4 * 3 + 3, 4));
    assert_eq!(LIMITS.overflows(), 10 * 996);
}

/// By default a set has four shared buckets.
#[test]
fn lent_slots_come_with_shared_buckets() {
    static TIME: ManualClock = ManualClock::new();
    static SLOTS: KeyedSlots<1> = KeyedSlots::new();
    static LIMITS: KeyedLimiter<u32, &ManualClock, Seed> =
        KeyedLimiter::in_slots(Quota::per_hour(1).burst(3), &SLOTS, &TIME, SEED);

    assert_eq!((0..1_000).filter(|key| LIMITS.check_n(key, 3).is_ok()).count(), 4 + 4);
    assert_eq!(size_of::<KeyedSlots<100>>(), 100 * 2 * 48, "two keys a set, 48 bytes each");
}

#[test]
fn policy_can_be_chosen() {
    static TIME: ManualClock = ManualClock::new();
    static SLOTS: KeyedSlots<1> = KeyedSlots::new();
    static LIMITS: KeyedLimiter<u8, &ManualClock, Seed> =
        KeyedLimiter::in_slots(Quota::per_hour(1).burst(1), &SLOTS, &TIME, SEED).when_full(WhenFull::DenyNew);

    assert_eq!((0..100).filter(|key| LIMITS.check(key).is_ok()).count(), 4);
    assert_eq!((LIMITS.refused_newcomers(), LIMITS.overflows(), LIMITS.evictions()), (96, 0, 0));
    TIME.advance(Duration::from_hours(1));
    assert_eq!((0..100).filter(|key| LIMITS.check(key).is_ok()).count(), 4, "idle slots are given away");
}

/// New keys take one lock and hits take none. Each key gets its burst, whichever thread is first.
#[test]
fn threads_share_the_slots() {
    static TIME: ManualClock = ManualClock::new();
    static SLOTS: KeyedSlots<512> = KeyedSlots::new();
    static LIMITS: KeyedLimiter<u32, &ManualClock, Seed> =
        KeyedLimiter::in_slots(Quota::per_hour(1).burst(10), &SLOTS, &TIME, SEED);
    const KEYS: u32 = 300;

    let admitted: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..20 * KEYS).filter(|call| LIMITS.check(&(call % KEYS)).is_ok()).count()))
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!((admitted, LIMITS.len(), LIMITS.overflows()), (10 * KEYS as usize, KEYS as usize, 0));
}

/// `BoundedStore` with the caller's seed.
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
#[test]
fn store_accepts_a_seed() {
    let store = damper::BoundedStore::<String, u32, _>::with_hasher(100, SEED).unwrap();
    for key in 0..1_000 {
        assert_eq!(*store.get_or_insert_with(key.to_string().as_str(), || key), key);
    }
    assert!(store.len() <= 100 && store.evictions() >= 900);
    assert_eq!(store.remove("999").as_deref(), Some(&999));
    assert!(store.get("999").is_none());
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
#[test]
fn breakers_accept_a_seed() {
    let clock = ManualClock::new();
    let config = damper::BreakerConfig::builder().failure_threshold(1).build().unwrap();
    let hosts = damper::KeyedCircuitBreaker::<String, _, _>::with_clock_and_hasher(config, 10, &clock, SEED).unwrap();
    assert!(hosts.call("down", || Err::<(), _>("timed out")).is_err());
    assert!(hosts.call("down", || Ok::<_, &str>(())).unwrap_err().is_refused());
    assert_eq!(hosts.call("up", || Ok::<_, &str>(7)), Ok(7));
}

/// An allocated table, with the caller's clock and seed.
#[cfg(feature = "alloc")]
#[test]
fn builder_works_without_defaults() {
    let clock = ManualClock::new();
    let builder = damper::keyed::KeyedLimiterBuilder::<str, _, _>::new(Quota::per_second(1), &clock, SEED);
    let limits = builder.capacity(10).tiers([Quota::per_second(3)], |key| usize::from(key == "gold")).build().unwrap();
    assert!(limits.check_n("gold", 3).is_ok() && limits.check_n("tin", 2).is_err());
    limits.set_tier("tin", 1).unwrap();
    assert!(limits.check_n("tin", 3).is_ok());
    assert!(limits.set_tier("tin", 2).is_err());
}
