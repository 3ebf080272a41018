//! The keyed limiter through its public API.

use crate::models::keys::{self, Answer, CLOCK_TICKS, Keys, Settings};
use crate::models::part_of::part_of;
use crate::models::seed::seed;
use crate::models::skewed::Skewed;
use damper::internal::{revoke, take_revocably};
use damper::time::Seed;
use damper::{ClientAddress, Clock, KeyedLimiter, ManualClock, Quota, RateLimiter, SetQuotaError, TierError, WhenFull};
use proptest::prelude::*;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::net::IpAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Hashes a `u64` to itself, so that a test can choose where a key goes.
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
fn error_names_a_capacity_out_of_range() {
    for keys in [0, (1 << 28) + 1, usize::MAX] {
        let error = KeyedLimiter::<u64>::builder(Quota::per_second(1)).capacity(keys).build().unwrap_err();
        assert_eq!(error.setting(), "capacity");
        assert_eq!(error.to_string(), format!("capacity is {keys}, it must be 1 to 268435456"));
    }
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1)).capacity(1).build().unwrap();
    assert!(limits.capacity() >= 1);
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1)).build().unwrap();
    assert!(limits.capacity() >= 8_192);
}

/// Returns how many tokens one set of four slots and one shared bucket admit.
///
/// A hundred keys call in turn, at one instant.
fn admitted_of_many(
    when_full: WhenFull,
    calls: u64,
) -> (u64, KeyedLimiter<u64, ManualClock, BuildHasherDefault<Identity>>) {
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1).burst(5))
        .capacity(2)
        .shared_buckets(1)
        .when_full(when_full)
        .clock(ManualClock::new())
        .hasher(BuildHasherDefault::default())
        .build()
        .unwrap();
    // All other keys call before the first ones return.
    let admitted = (0..calls).map(|call| u64::from(limits.check(&(call % 100)).is_ok())).sum();
    (admitted, limits)
}

/// A newcomer that takes the slot of an exhausted key inherits its debt.
#[test]
fn evicted_key_passes_its_debt_to_the_newcomer() {
    let (admitted, limits) = admitted_of_many(WhenFull::EvictLeastIndebted, 1_000);
    assert_eq!(admitted, 4 * 5, "one burst for each of the four slots");
    assert_eq!((limits.len(), limits.overflows()), (4, 0));
    assert!(limits.evictions() > 0 && limits.refused_newcomers() > 0);
}

#[test]
fn keys_without_a_slot_share_a_bucket() {
    let (admitted, limits) = admitted_of_many(WhenFull::SharedOverflow, 1_000);
    assert_eq!(admitted, 4 * 5 + 5, "one more burst, for all other keys together");
    assert_eq!((limits.len(), limits.evictions(), limits.refused_newcomers()), (4, 0, 0));
    assert_eq!(limits.overflows(), 1_000 - 40);
}

/// A look at a tier that was not used yet shows what the key spent before the tier was added.
#[test]
fn debt_shows_in_a_tier_that_was_added_since() {
    let quota = Quota::per_second(1).burst(1);
    let limits = KeyedLimiter::<u64>::builder(quota)
        .tiers([], |_| 1)
        .when_full(WhenFull::SharedOverflow)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    assert_eq!(limits.charge(&7, 1), 1, "in a shared bucket");
    assert_eq!(limits.add_tier(quota), Ok(1));
    assert_eq!(limits.peek(&7).remaining(), 0);
    assert!(limits.check(&7).is_err());
}

/// After months a level may seem to lie ahead. Its owner owes nothing, and newcomers get its slot.
#[test]
fn newcomers_get_the_slots_of_keys_that_were_idle_for_months() {
    for days in [1, 60, 120, 150, 180, 210, 300] {
        let clock = ManualClock::new();
        let limits =
            KeyedLimiter::<u64>::builder(Quota::per_second(1).burst(5)).capacity(2).clock(&clock).build().unwrap();
        (0..100).for_each(|key| _ = limits.check(&key));
        let overflows = limits.overflows();
        assert!(limits.len() == 4 && overflows > 0);
        clock.advance(Duration::from_secs(days * 86_400));
        assert!(
            (100..200).any(|newcomer| limits.check_n(&newcomer, 5).is_ok() && limits.overflows() == overflows),
            "{days} days"
        );
    }
}

/// Each key of the capacity brings two shared words, in whole lines.
///
/// One of each line of eight is a header.
///
/// A debt in one leaves the others full.
#[test]
fn shared_buckets_default_to_whole_lines_with_two_per_key() {
    let build = |buckets: Option<usize>| {
        let builder = KeyedLimiter::<u64>::builder(Quota::per_second(1).burst(5)).capacity(2).clock(ManualClock::new());
        if let Some(buckets) = buckets { builder.shared_buckets(buckets) } else { builder }
    };
    for (buckets, count) in [(None, 7), (Some(1), 1), (Some(7), 6), (Some(8), 7), (Some(16), 14)] {
        let limits = build(buckets).build().unwrap();
        (0..4).for_each(|key| assert!(limits.check_n(&key, 5).is_ok()));
        let admitted: u64 = (4..1_000).map(|key| u64::from(limits.check(&key).is_ok())).sum();
        // A displaced word and the one at its home become one that owes the greater of both.
        assert!((5 * count..10 * count).contains(&admitted), "{admitted} with {buckets:?} shared words");
    }
    for buckets in [0, (1 << 29) + 1] {
        let error = build(Some(buckets)).build().unwrap_err();
        assert_eq!(error.setting(), "shared_buckets");
        assert_eq!(error.to_string(), format!("shared_buckets is {buckets}, it must be 1 to 536870912"));
    }
}

/// A newcomer inherits its own debts in all tiers, and of other keys only those of its own tier.
///
/// All keys share a single word, and each tier has a fixed one.
#[test]
fn newcomers_inherit_only_in_their_own_tier() {
    let clock = ManualClock::new();
    let tier_of = |key: &u64| usize::from(*key >= 100);
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1).burst(10))
        .tiers([Quota::per_second(10).burst(100)], tier_of)
        .capacity(100)
        .shared_buckets(1)
        .clock(&clock)
        // Under this seed the tags of the two spending keys differ. One pair in sixteen shares a tag.
        .hasher(Seed::new(1, 2))
        .build()
        .unwrap();
    assert_eq!(limits.charge(&1, 1), 1);
    limits.set_tier(&1, 1).unwrap();
    assert_eq!(limits.peek(&1).used(), 10, "its own second, in tokens of the fast tier");
    limits.set_tier(&1, 0).unwrap();
    assert_eq!(limits.charge(&2, 3), 3, "added to the debt: four seconds of two keys");
    assert_eq!(limits.peek(&3).used(), 4, "tokens of the slow tier");
    assert_eq!(limits.peek(&100).used(), 0, "in the other tier");
    assert_eq!(limits.charge(&101, 10), 10, "in the fixed word");
    assert_eq!(limits.charge(&102, 10), 10, "in the fixed word, of several keys now");
    assert_eq!((limits.peek(&103).used(), limits.peek(&3).used()), (20, 4));
    assert_eq!(limits.check(&103).unwrap().remaining(), 79);
    assert_eq!(limits.check(&3).unwrap().remaining(), 5);
    clock.advance(Duration::from_secs(6));
    assert_eq!(limits.check(&104).unwrap().remaining(), 99);
    assert_eq!(limits.check(&4).unwrap().remaining(), 9);
}

/// A move from or to a tier without refill keeps the missing tokens.
///
/// Other moves keep the time to repay them.
#[test]
fn moves_from_and_to_a_tier_without_refill_keep_the_tokens() {
    let clock = ManualClock::new();
    let (never, seconds) = (Quota::per_second(0).burst(5), Quota::per_second(1).burst(5));
    let limits = KeyedLimiter::<u64>::builder(never).tiers([never, seconds], |_| 0).clock(&clock).build().unwrap();
    assert!(limits.check_n(&1, 3).is_ok());
    for tier in [1, 2, 0, 2, 1, 1] {
        limits.set_tier(&1, tier).unwrap();
        assert_eq!(limits.peek(&1).used(), 3, "in tier {tier}");
    }
    limits.set_tier(&1, 2).unwrap();
    clock.advance(Duration::from_secs(2));
    assert_eq!(limits.peek(&1).used(), 1);
}

/// A thousand moves leave a debt's time to repay unchanged, to the tick.
#[test]
fn moves_between_tiers_keep_the_time_to_repay() {
    for (hertz, fast) in [(1, 3), (1_000, 10), (32_768, 7), (1_000_000_000, 1_000)] {
        let clock = ManualClock::with_frequency(hertz);
        let (slow, fast) = (Quota::per_second(1).burst(10), Quota::per_second(fast).burst(10));
        let limits = KeyedLimiter::<u64>::builder(slow).tiers([fast], |_| 0).clock(&clock).build().unwrap();
        clock.advance_ticks(12_345);
        assert!(limits.check_n(&1, 10).is_ok());
        for step in 1..=1_000 {
            limits.set_tier(&1, step % 2).unwrap();
        }
        assert_eq!(limits.peek(&1).resets_in(), Some(Duration::from_secs(10)), "on a clock of {hertz} Hz");
    }
}

/// A permanent debt moved to a tier does not lengthen the lock-out of other keys after a clock step.
#[test]
fn permanent_debt_leaves_clock_recovery_of_a_tier_unchanged() {
    let lockout = |is_moved: bool| {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(10_000));
        let tier_of = |key: &u64| usize::from(*key != 1);
        let limits = KeyedLimiter::<u64>::builder(Quota::per_second(0).burst(1))
            .tiers([Quota::per_second(1).burst(5)], tier_of)
            .clock(&clock)
            .build()
            .unwrap();
        assert!(limits.check(&1).is_ok());
        if is_moved {
            limits.set_tier(&1, 1).unwrap();
        }
        assert!(limits.check_n(&2, 5).is_ok());
        clock.step_back(Duration::from_mins(150));
        limits.check(&2).err().and_then(|denied| denied.retry_after())
    };
    assert_eq!(lockout(true), lockout(false));
}

/// Takes `n` tokens of a key, runs `callback`, and gives the tokens back.
fn given_back_after(limits: &KeyedLimiter<u64, &ManualClock>, (key, n): (u64, u32), callback: impl FnOnce()) {
    let (_, receipt) = take_revocably(limits, &key, n).unwrap();
    callback();
    revoke(limits, &key, n, receipt);
}

#[test]
fn roll_back_of_a_free_call_returns_no_token() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u64>::builder(Quota::UNLIMITED).clock(&clock).build().unwrap();
    given_back_after(&limits, (1, 5), || {
        limits.set_quota(Quota::per_hour(1).burst(5)).unwrap();
        assert!(limits.check_n(&1, 5).is_ok());
    });
    assert!(limits.check(&1).is_err(), "five of five are taken");
}

#[test]
fn roll_back_after_clear_returns_no_token() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u64>::builder(Quota::per_hour(1).burst(5))
        .capacity(1)
        .shared_buckets(1)
        .clock(&clock)
        .build()
        .unwrap();
    let fill = || (100..104).for_each(|key| assert!(limits.check(&key).is_ok()));
    fill();
    given_back_after(&limits, (1, 5), || {
        limits.clear();
        fill();
        assert!(limits.check_n(&2, 5).is_ok());
    });
    assert_eq!(limits.overflows(), 2, "both keys share a bucket");
    assert!(limits.check(&2).is_err(), "five of five are taken");
}

/// A debt of a single key in a shared bucket is inherited by that key only.
#[test]
fn newcomer_ignores_the_debt_of_a_single_other_key() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1).burst(10))
        .shared_buckets(1)
        .clock(&clock)
        .hasher(Seed::new(1, 2))
        .build()
        .unwrap();
    assert_eq!(limits.charge(&1, 10), 10);
    assert_eq!(limits.check(&2).unwrap().remaining(), 9);
    assert!(limits.check(&1).is_err(), "its own debt");
    assert_eq!(limits.charge(&3, 5), 5);
    assert!(limits.check(&4).is_err(), "15 tokens of two keys are owed");
    clock.advance(Duration::from_secs(15));
    assert_eq!(limits.charge(&5, 10), 10);
    assert_eq!(limits.check(&4).unwrap().remaining(), 9, "all 10 tokens belong to one key again");
}

/// A debt too long for a faster tier survives a stay in it.
#[test]
fn debt_survives_a_stay_in_a_faster_tier() {
    fn moved<A: damper::limit::KeyedAlgorithm>(slow: Quota, fast: Quota) -> [Option<Duration>; 2] {
        let clock = ManualClock::new();
        let builder = KeyedLimiter::<u64>::builder(slow).tiers([fast], |_| 0).clock(&clock).algorithm::<A>();
        let limits = builder.build().unwrap();
        assert!(limits.check_n(&1, slow.limit()).is_ok());
        limits.set_tier(&1, 1).unwrap();
        let there = limits.check(&1).map_err(|denied| denied.retry_after().unwrap());
        assert!(there.is_err(), "the debt counts in the fast tier");
        clock.advance(Duration::from_mins(10));
        assert!(limits.check(&1).is_err(), "the debt still counts afterwards");
        limits.set_tier(&1, 0).unwrap();
        [there.err(), limits.check_n(&1, slow.limit()).err().and_then(|denied| denied.retry_after())]
    }
    let (slow, fast) = (Quota::per_hour(100), Quota::per_second(100).max_debt(0));
    let (hour, rest) = (Duration::from_hours(1), Duration::from_mins(50));
    let near = |found: Option<Duration>, expected: Duration, late: Duration| {
        let found = found.unwrap();
        assert!(found + Duration::from_secs(1) >= expected && found <= expected + late, "{found:?}, not {expected:?}");
    };
    let [there, back] = moved::<damper::TokenBucket>(slow, fast);
    near(there, hour, Duration::ZERO);
    near(back, rest, Duration::from_micros(1));
    let [there, back] = moved::<damper::FixedWindow>(slow, fast);
    near(there, hour, Duration::from_secs(1));
    near(back, rest, hour);
    let [there, back] = moved::<damper::SlidingCounter>(slow, fast);
    near(there, 2 * hour, Duration::from_secs(1));
    near(back, hour + rest, hour);
}

#[test]
fn deny_new_refuses_newcomers_until_a_slot_is_idle() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1).burst(5))
        .capacity(2)
        .when_full(WhenFull::DenyNew)
        .clock(&clock)
        .build()
        .unwrap();
    for key in 0..4 {
        limits.check_n(&key, 1 + key as u32).unwrap();
    }
    let denied = limits.check(&4).unwrap_err();
    assert_eq!((denied.retry_after(), denied.remaining()), (Some(Duration::from_secs(1)), 0));
    assert_eq!((limits.refused_newcomers(), limits.len()), (1, 4));
    clock.advance(Duration::from_secs(1));
    assert_eq!(limits.check(&4).unwrap().remaining(), 4, "the first key's bucket is full, so it gave up its slot");
    assert_eq!((limits.len(), limits.evictions()), (4, 0), "no debt was evicted");
}

/// A charge gives a new key a slot that is free, and books nothing if there is none.
#[test]
fn charge_of_a_new_key_takes_only_a_free_slot() {
    for when_full in [WhenFull::DenyNew, WhenFull::EvictLeastIndebted] {
        let clock = ManualClock::new();
        let quota = Quota::per_second(1).burst(5);
        let builder = KeyedLimiter::<u64>::builder(quota).capacity(2).when_full(when_full);
        let limits = builder.clock(&clock).build().unwrap();
        for key in 0..4 {
            assert_eq!((limits.charge(&key, 3), limits.peek(&key).used()), (3, 3), "{when_full:?}");
        }
        assert_eq!((limits.charge(&4, 3), limits.len()), (0, 4));
        clock.advance(Duration::from_secs(3));
        assert_eq!((limits.charge(&4, 0), limits.peek(&0).remaining(), limits.len()), (0, 5, 4));
        assert_eq!((limits.charge(&4, 7), limits.peek(&4).used(), limits.peek(&4).debt()), (7, 5, 2));
        assert_eq!((limits.len(), limits.evictions(), limits.refused_newcomers()), (4, 0, 0));
    }
}

/// A key that overflowed gets a slot while the table is cleared. It does not take its debt along.
#[test]
fn clear_forgets_debts_of_keys_that_get_a_slot_meanwhile() {
    let clock = ManualClock::new();
    let limits = aimed(Quota::per_hour(100), 3_000, &clock);
    let keys = || (1..9_000_u64).map(|key| key.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    for _ in 0..20 {
        keys().for_each(|key| _ = limits.check_n(&key, 100));
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                limits.clear();
            });
            start.wait();
            // A reservation may go into debt. So a key that owes a burst gets a slot all the same.
            keys().for_each(|key| _ = limits.reserve(&key, 1));
        });
        // The reservations alone leave nearly all of a burst, also where some keys share a bucket.
        assert_eq!(keys().find(|key| limits.peek(key).remaining() < 50), None);
        limits.clear();
    }
}

/// Calls that always or never succeed get the same result without a slot.
#[test]
fn deny_new_reports_costs_above_the_burst() {
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1).burst(5))
        .tiers([Quota::UNLIMITED], |key| usize::from(*key > 100))
        .capacity(2)
        .when_full(WhenFull::DenyNew)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    (0..4).for_each(|key| _ = limits.check(&key).unwrap());
    assert!(limits.check(&4).is_err_and(|denied| !denied.exceeds_burst()));
    assert!(limits.check_n(&4, 6).is_err_and(|denied| denied.exceeds_burst()));
    assert_eq!(limits.check_n(&4, 0).unwrap().remaining(), 0);
    assert_eq!(limits.check(&101).unwrap().remaining(), u32::MAX);
    assert_eq!((limits.len(), limits.refused_newcomers()), (4, 2));
}

/// Under eviction, permanent debts of one tier leave newcomers of another a burst in a shared word.
#[test]
fn permanent_debt_is_not_inherited_in_another_tier() {
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(0).burst(5))
        .tiers([Quota::per_second(1_000_000).burst(5)], |key| usize::from(*key > 100))
        .capacity(2)
        .when_full(WhenFull::EvictLeastIndebted)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    (0..4).for_each(|key| _ = limits.check(&key).unwrap());
    assert!((0..5).all(|_| limits.check(&101).is_ok()));
    assert!(limits.check(&101).is_err());
    assert_eq!((limits.evictions(), limits.overflows()), (0, 6));
}

/// A key that gets a slot after using the shared bucket inherits the bucket's debt.
#[test]
fn slot_after_overflow_starts_with_the_shared_debt() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1).burst(5)).capacity(2).clock(&clock).build().unwrap();
    for key in 0..4 {
        limits.check(&key).unwrap();
    }
    assert_eq!(limits.check_n(&9, 5).unwrap().remaining(), 0, "shared");
    assert!(limits.check(&9).is_err());
    clock.advance(Duration::from_secs(1));
    // The other keys' buckets are full, so the newcomer gets a slot with the shared bucket's debt.
    assert_eq!(limits.check(&9).unwrap().remaining(), 0);
    assert_eq!(limits.len(), 4);
    assert!(limits.check(&9).is_err());
}

/// A flood of keys takes bounded memory and admits one burst per slot.
#[test]
fn flood_admits_at_most_one_burst_per_slot() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1).burst(3))
        .capacity(64)
        .when_full(WhenFull::EvictLeastIndebted)
        .clock(&clock)
        .hasher(Seed::new(seed(), 0))
        .build()
        .unwrap();
    let admitted: u64 = (0..100_000u64).map(|key| u64::from(limits.check(&key).is_ok())).sum();
    assert_eq!((admitted, limits.len()), (128 * 3, 128));
}

#[test]
fn evicted_idle_key_returns_with_a_full_bucket() {
    let clock = ManualClock::new();
    let limits = aimed(Quota::per_second(1).burst(2), 1, &clock);
    limits.check_n(&1, 2).unwrap();
    clock.advance(Duration::from_secs(2));
    for newcomer in 2..20u64 {
        let _ = limits.check_n(&newcomer, 2);
    }
    clock.advance(Duration::from_secs(2));
    assert_eq!(limits.check(&1).unwrap().remaining(), 1, "the bucket is full again");
}

#[test]
fn refund_of_a_key_repays_its_debt() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<str>::builder(Quota::per_hour(1).burst(2).max_debt(3)).clock(&clock).build().unwrap();
    limits.check_n("a", 2).unwrap();
    assert_eq!((limits.charge("a", 3), limits.refund("a", 1)), (3, 1));
    assert_eq!(limits.check("a").unwrap_err().retry_after(), Some(Duration::from_hours(3)));
    // Also with a word of which many bits are the fraction of a token.
    assert_eq!((limits.refund("a", 1 << 24), limits.peek("a").remaining()), (4, 2));
}

#[test]
fn all_operations_of_a_key() {
    let clock = ManualClock::new();
    let limits =
        KeyedLimiter::<str>::builder(Quota::per_second(10).burst(5).max_debt(7)).clock(&clock).build().unwrap();
    assert_eq!((limits.peek("a").used(), limits.len(), limits.is_empty()), (0, 0, true), "peek gives no slot");
    limits.check_n("a", 4).unwrap();
    let usage = limits.peek("a");
    assert_eq!((usage.limit(), usage.used(), usage.window()), (5, 4, Some(Duration::from_millis(500))));
    assert_eq!(usage.resets_in(), Some(Duration::from_millis(400)));
    assert_eq!((limits.refund("a", 2), limits.peek("a").used()), (2, 2));
    assert_eq!((limits.refund("b", 2), limits.len()), (0, 1), "the key has no slot");
    assert_eq!(limits.charge("a", 100), 10, "the burst plus 7 is the deepest debt");
    assert_eq!(limits.check("a").unwrap_err().retry_after(), Some(Duration::from_millis(800)));
    assert_eq!(limits.charge("b", 3), 3, "in the shared bucket");
    assert_eq!(limits.check("b").unwrap().remaining(), 1, "a newcomer inherits its debt");
    limits.reset("a");
    assert_eq!(limits.check_n("a", 5).unwrap().remaining(), 0);
    limits.set_quota(Quota::per_second(100).burst(50)).unwrap();
    assert_eq!((limits.quota(), limits.peek("a").used()), (Quota::per_second(100).burst(50), 5));
    assert_eq!(limits.check_n("a", 45).unwrap().remaining(), 0);
    limits.clear();
    assert_eq!((limits.len(), limits.peek("a").used(), limits.capacity()), (0, 0, 8_192));
    assert_eq!(limits.check_n("b", 50).unwrap().remaining(), 0);
    assert!(!limits.is_empty());
}

#[test]
fn refusal_by_the_limit_for_all_returns_the_keys_tokens() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(100));
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(10)).clock(&clock).build().unwrap();
    let all = RateLimiter::with_clock(Quota::per_second(1).burst(5), &clock);
    let of_all = limits.check_n_with(&1, 3, &all).unwrap();
    assert_eq!(of_all.remaining(), 2, "the smaller of the two remainders");
    for (key, used) in [(1, 3), (2, 0)] {
        assert_eq!(limits.check_n_with(&key, 4, &all).unwrap_err().index(), 1);
        assert_eq!((limits.peek(&key).used(), all.peek().used()), (used, 3), "of key {key}");
    }
    limits.check_n_with(&1, 2, &all).unwrap();
    assert_eq!((limits.peek(&1).used(), all.peek().used()), (5, 5));
    let more = RateLimiter::with_clock(Quota::per_second(100), &clock);
    assert_eq!(limits.check_n_with(&1, 1, &more).unwrap().remaining(), 4, "4 of 5, fewer than of 100");
}

#[test]
fn tiers_and_overrides() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1).burst(10))
        .tiers([Quota::per_second(10).burst(100), Quota::per_second(5).burst(50)], |key| (*key % 10) as usize)
        .clock(&clock)
        .build()
        .unwrap();
    assert_eq!(limits.check_n(&10, 10).unwrap().remaining(), 0);
    assert_eq!(limits.check_n(&11, 10).unwrap().remaining(), 90);
    assert_eq!(limits.check_n(&19, 10).unwrap().remaining(), 40, "a tier beyond the last counts as the last");
    // A debt of ten seconds in either tier. In the tier of 100 tokens those are all of them.
    limits.set_tier(&10, 1).unwrap();
    assert!(limits.check(&10).is_err());
    clock.advance(Duration::from_secs(5));
    assert_eq!(limits.check(&10).unwrap().remaining(), 49);
    limits.clear_tier(&10);
    let usage = limits.peek(&10);
    assert_eq!((usage.limit(), usage.remaining()), (10, 4));
    let missing = TierError::Missing { tier: 3, tiers: 3 };
    assert_eq!(limits.set_tier(&10, 3), Err(missing));
    assert_eq!(limits.set_tier_quota(2, Quota::per_second(6).burst(60)), Ok(()));
    assert_eq!(limits.tier_quota(2), Some(Quota::per_second(6).burst(60)));
    assert_eq!((limits.tier_quota(3), limits.set_tier_quota(3, Quota::per_second(1))), (None, Err(missing)));
    let too_large = Quota::per_second(6).burst(u32::MAX).max_debt(u32::MAX);
    let refused = limits.set_tier_quota(2, too_large).unwrap_err();
    assert!(matches!(refused, TierError::Quota { tier: 2, error: SetQuotaError::TooLarge { .. } }), "{refused:?}");
    assert_eq!(limits.tier_quota(2), Some(Quota::per_second(6).burst(60)));
    // An override outlives its slot.
    limits.set_tier(&20, 1).unwrap();
    limits.clear();
    assert_eq!(limits.check(&20).unwrap().remaining(), 99);
    let of =
        |others| KeyedLimiter::<u64>::builder(Quota::per_second(1)).tiers(vec![Quota::per_second(2); others], |_| 15);
    assert_eq!(of(14).build().unwrap().peek(&0).limit(), 2, "the last of 15 tiers");
    let error = of(15).build().unwrap_err();
    assert_eq!(error.to_string(), "tiers is 16, it must be 1 to 15 (with the builder's own quota)");
}

/// Of several quotas that change together none changes if one is refused.
#[test]
fn quotas_of_tiers_change_together_or_not_at_all() {
    let quota = Quota::per_second(10);
    let limits =
        KeyedLimiter::<u64>::builder(quota).tiers([quota, quota], |_| 0).clock(ManualClock::new()).build().unwrap();
    let quotas = || [0, 1, 2].map(|tier| limits.tier_quota(tier).unwrap());
    let too_large = limits.set_tier_quotas([(0, Quota::per_second(20)), (2, Quota::per_second(u32::MAX))]).unwrap_err();
    assert!(too_large.to_string().starts_with("tier 2: burst and max_debt are "), "{too_large}");
    assert_eq!(limits.set_tier_quotas([(1, quota), (3, quota)]), Err(TierError::Missing { tier: 3, tiers: 3 }));
    assert_eq!(quotas(), [quota; 3]);
    // The last one of a tier counts.
    let (slow, fast) = (Quota::per_second(5), Quota::per_second(20));
    assert_eq!(limits.set_tier_quotas([(1, fast), (2, fast), (1, slow)]), Ok(()));
    assert_eq!(quotas(), [quota, slow, fast]);
    assert_eq!(limits.set_tier_quotas([]), Ok(()));
    assert!(limits.check(&1).is_ok());
}

#[test]
fn tiers_are_added_up_to_fifteen() {
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1)).tiers([Quota::per_second(2)], |_| 99);
    let limits = limits.clock(ManualClock::new()).build().unwrap();
    assert_eq!(limits.peek(&1).limit(), 2);
    assert!(limits.check(&1).is_ok());
    for tier in 2..15 {
        assert_eq!(limits.add_tier(Quota::per_second(tier + 1)), Ok(tier as usize));
        assert_eq!(limits.peek(&2).limit(), tier + 1, "a number beyond the last means the last");
        assert_eq!(limits.peek(&1).limit(), 2, "a known key stays");
    }
    assert_eq!(limits.add_tier(Quota::per_second(1)), Err(TierError::TooMany));
    limits.retier(&1);
    assert_eq!(limits.peek(&1).limit(), 15);
    limits.set_tier_quotas([(3, Quota::per_second(40)), (14, Quota::per_second(150))]).unwrap();
    assert_eq!(limits.peek(&1).limit(), 150);

    let single = KeyedLimiter::<u64>::builder(Quota::per_second(1)).build().unwrap();
    assert_eq!(single.add_tier(Quota::per_second(1)), Err(TierError::OneQuota));
    let counted = KeyedLimiter::<u64>::builder(Quota::per_second(1)).algorithm::<damper::SlidingCounter>();
    let refused = counted.tiers([], |_| 0).build().unwrap().add_tier(Quota::per_hour(2_000_000)).unwrap_err();
    assert_eq!(refused.to_string(), "tier 1: limit 2000000 exceeds the maximum 1048574 that the limiter can count");
}

/// The faster the clock, the fewer bits of a slot are left for tokens.
#[test]
fn tiers_accept_the_quota_that_they_were_built_up_to() {
    let (trial, paid) = (Quota::per_hour(1), Quota::per_hour(1_000));
    for hertz in [1_000, 1_000_000_000, 2_450_000_000, 5_000_000_000] {
        let clock = ManualClock::with_frequency(hertz);
        let builder = || KeyedLimiter::<u64>::builder(trial).tiers([trial], |_| 1).clock(&clock);
        let limits = builder().up_to(paid).build().unwrap();
        assert_eq!(limits.add_tier(trial), Ok(2));
        assert!(limits.check(&1).is_ok());
        assert_eq!(limits.check(&1).unwrap_err().retry_after(), Some(Duration::from_hours(1)), "{hertz}");
        for quota in [paid, trial, paid] {
            assert_eq!(limits.set_tier_quotas([(0, quota), (1, quota), (2, quota)]), Ok(()), "{hertz}");
        }
        assert!(limits.check_n(&1, 1_000).is_err());
        assert!(limits.check_n(&2, 1_000).is_ok());
        for tier in [0, 2] {
            limits.set_tier(&(tier + 10), tier as usize).unwrap();
            assert!(limits.check_n(&(tier + 10), 1_000).is_ok());
        }
    }

    let limits = KeyedLimiter::<u64>::builder(trial).clock(ManualClock::new()).build().unwrap();
    let error = limits.set_quota(paid).unwrap_err();
    assert_eq!(error, SetQuotaError::TooLarge { tokens: 11_000, most: 2_047 });
    let counted = KeyedLimiter::<u64>::builder(trial).algorithm::<damper::SlidingCounter>();
    assert_eq!(
        counted.up_to(Quota::per_hour(2_000_000)).build().unwrap_err().to_string(),
        "limit is 2000000, it must be at most 1048574 (for a key, with this algorithm)"
    );
}

#[test]
fn tier_that_was_given_outlasts_retier() {
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1)).tiers([Quota::per_second(2)], |_| 0);
    let limits = limits.clock(ManualClock::new()).build().unwrap();
    assert!(limits.check(&1).is_ok());
    limits.set_tier(&1, 1).unwrap();
    limits.retier(&1);
    assert_eq!(limits.peek(&1).limit(), 2);
    limits.clear_tier(&1);
    assert_eq!(limits.peek(&1).limit(), 1);
}

#[test]
fn client_addresses_are_grouped() {
    let parse = |address: &str| -> IpAddr { address.parse().unwrap() };
    let of = |address: &str| ClientAddress::from(parse(address));
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    // Addresses of a NAT64 gateway count as IPv4, however IPv6 is grouped. Their neighbours count as IPv6.
    assert_eq!(of("64:ff9b::10.0.0.1"), of("10.0.0.1"));
    assert_ne!(of("64:ff9b::10.0.0.1"), of("64:ff9b::10.0.0.2"));
    assert_eq!(ClientAddress::with_ipv6_prefix(parse("64:ff9b::10.0.0.1"), 32), of("10.0.0.1"));
    assert_eq!(of("64:ff9b::1:10.0.0.1").to_string(), "64:ff9b::");
    assert_eq!(of("64:ff9c::10.0.0.1").to_string(), "64:ff9c::");
    assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    let wide = |address: &str| ClientAddress::with_ipv6_prefix(parse(address), 48);
    assert_eq!(wide("2001:db8:0:1::1"), wide("2001:db8:0:2::1"));
    assert_eq!(ClientAddress::with_ipv6_prefix(parse("2001:db8::1"), 0).to_string(), "::");
    assert_eq!(ClientAddress::with_ipv6_prefix(parse("2001:db8::1"), 999).to_string(), "2001:db8::1");
    let socket: std::net::SocketAddr = "[2001:db8::1]:443".parse().unwrap();
    assert_eq!(ClientAddress::from(socket), of("2001:db8::1"));
}

/// Clients whose addresses share their low bits.
#[test]
fn client_groups_have_separate_limits() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<ClientAddress>::builder(Quota::per_second(1)).clock(&clock).build().unwrap();
    for group in 0..64u16 {
        let client = IpAddr::from([0x2001, 0xDB8, 0, group, 0, 0, 0, 1]).into();
        assert!(limits.check(&client).is_ok(), "{group}");
        assert!(limits.check(&client).is_err(), "{group}");
        let client = IpAddr::from([10, 0, group as u8, 1]).into();
        assert!(limits.check(&client).is_ok(), "{group} of IPv4");
        assert!(limits.check(&client).is_err(), "{group} of IPv4");
    }
    assert_eq!(limits.len(), 128);
}

/// A word further ahead than any valid one counts as expired.
///
/// The bound is the deepest debt plus the clock's largest step back.
#[test]
fn clock_step_within_its_bound_keeps_the_debt() {
    let clock = Skewed(ManualClock::new(), Duration::from_secs(2));
    let limits = KeyedLimiter::<u64>::builder(Quota::per_second(1).max_debt(3)).clock(&clock).build().unwrap();
    clock.0.advance(Duration::from_secs(100));
    limits.check(&1).unwrap();
    assert_eq!(limits.charge(&1, 10), 3);
    for wait in [4, 5, 6].map(Duration::from_secs) {
        assert_eq!(limits.check(&1).unwrap_err().retry_after(), Some(wait));
        assert_eq!(limits.peek(&1).resets_in(), Some(wait));
        clock.0.step_back(Duration::from_secs(1));
    }
}

/// Threads check and flood while the quota changes, and no key exceeds its envelope.
///
/// With eviction that holds for all slots together: a key that returns through its other set has a fresh burst.
// CLAIM: KeyedLimiter
#[test]
fn each_key_stays_in_its_envelope_under_threads_and_floods() {
    for when_full in [WhenFull::SharedOverflow, WhenFull::DenyNew, WhenFull::EvictLeastIndebted] {
        let clock = ManualClock::new();
        let (fast, slow) = (Quota::per_second(1_000).burst(20), Quota::per_second(100).burst(10));
        let limits = KeyedLimiter::<u64>::builder(fast).capacity(8).when_full(when_full).clock(&clock).build().unwrap();
        let of_others = AtomicU64::new(0);
        let counted = |thread: u64| {
            let mut taken = [0u64; 4];
            for step in 0..30_000u64 {
                let key = (step * 7 + thread) % 4;
                match (step + thread) % 8 {
                    // Other keys, which evict whenever they can.
                    0 | 1 => {
                        let is_taken = limits.check_n(&(100 + step % 50), 3).is_ok();
                        of_others.fetch_add(3 * u64::from(is_taken), Relaxed);
                    }
                    2 => clock.advance(Duration::from_micros(20)),
                    3 => taken[key as usize] += 3 * u64::from(limits.check_n(&key, 3).is_ok()),
                    _ => taken[key as usize] += u64::from(limits.check(&key).is_ok()),
                }
            }
            taken
        };
        let taken = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|thread| scope.spawn(move || counted(thread))).collect();
            scope.spawn(|| (0..5_000).for_each(|step| _ = limits.set_quota(if step % 2 == 0 { slow } else { fast })));
            workers.into_iter().map(|worker| worker.join().unwrap()).fold([0; 4], |mut sum, taken| {
                sum.iter_mut().zip(taken).for_each(|(sum, taken)| *sum += taken);
                sum
            })
        });
        let millis = clock.now() / 1_000_000;
        if when_full == WhenFull::EvictLeastIndebted {
            let all = taken.iter().sum::<u64>() + of_others.into_inner();
            assert!(all <= 16 * (20 + millis + 1), "16 slots gave {all} in {millis} ms");
            continue;
        }
        for (key, taken) in taken.into_iter().enumerate() {
            assert!(taken <= 20 + millis + 1, "{when_full:?}: key {key} took {taken} in {millis} ms");
        }
    }
}

#[test]
fn key_with_hash_zero_is_limited() {
    let clock = ManualClock::new();
    let limits = aimed(Quota::per_second(1), 8, &clock);
    assert!(limits.check(&0).is_ok());
    assert!(limits.check(&0).is_err());
}

#[test]
fn racing_threads_take_exactly_the_burst() {
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
fn default_hasher_is_seeded() {
    let [one, other] = [Seed::random(), Seed::random()];
    assert_ne!(one.hash_one(7), other.hash_one(7));
}

proptest! {
    /// While all keys fit, each is limited as if it had a limiter of its own.
    #[test]
    fn each_key_matches_a_limiter_of_its_own(calls in proptest::collection::vec((1..=40u64, 0..200_000_000u64, 0..4u32), 1..400)) {
        let clock = ManualClock::new();
        let quota = Quota::per_second(10).burst(3);
        // The identity hash spreads 40 keys evenly, two or three to a set.
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

#[derive(Clone, Debug)]
enum Step {
    Check(u32),
    Charge(u32),
    Refund(u32),
    Reset,
    SetTier(usize),
    ClearTier,
    Retier,
    AddTier(Settings),
    SetQuotas(Vec<(usize, Settings)>),
    Clear,
}

fn settings() -> impl Strategy<Value = Settings> {
    (0..=6u32, 1..20u32, 0..30u32).prop_map(|(rate_log2, burst, max_debt)| Settings { rate_log2, burst, max_debt })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..8u32).prop_map(Step::Check),
        1 => (0..40u32).prop_map(Step::Check),
        2 => (0..20u32).prop_map(Step::Charge),
        2 => (0..6u32).prop_map(Step::Refund),
        1 => Just(Step::Reset),
        1 => (0..3usize).prop_map(Step::SetTier),
        1 => Just(Step::ClearTier),
        1 => Just(Step::Retier),
        1 => settings().prop_map(Step::AddTier),
        1 => proptest::collection::vec((0..3usize, settings()), 1..4).prop_map(Step::SetQuotas),
        1 => proptest::bool::weighted(0.1).prop_map(|all| if all { Step::Clear } else { Step::Reset }),
    ]
}

/// A step in a table that is full.
#[derive(Clone, Copy, Debug)]
enum Crowded {
    Check(u32),
    SetTier(usize),
    Retier,
    AddTier(u32),
}

fn crowded_step() -> impl Strategy<Value = Crowded> {
    prop_oneof![
        8 => (1..40u32).prop_map(Crowded::Check),
        1 => (0..15usize).prop_map(Crowded::SetTier),
        1 => Just(Crowded::Retier),
        1 => (1..6u32).prop_map(Crowded::AddTier),
    ]
}

fn answer(found: Result<damper::Allowed, damper::Denied>, expected: Answer) -> Answer {
    match (found, expected) {
        (Ok(allowed), _) => Answer::Allowed { remaining: allowed.remaining().into() },
        (Err(denied), _) if denied.exceeds_burst() => Answer::ExceedsBurst { remaining: denied.remaining().into() },
        (Err(denied), Answer::Denied { wait: (least, more), .. }) => {
            let wait = denied.retry_after().unwrap().as_nanos();
            assert!((least..=least + more).contains(&wait), "{wait} ns where {least} were expected");
            Answer::Denied { remaining: denied.remaining().into(), wait: (least, more) }
        }
        (Err(denied), expected) => panic!("{denied:?} where {expected:?} was expected"),
    }
}

proptest! {
    /// A table that is large enough matches a map of slow buckets.
    ///
    /// That holds under every operation on keys and quotas.
    #[test]
    fn large_table_matches_a_map_of_buckets(
        tiers in proptest::collection::vec(settings(), 1..=keys::TIERS),
        shares in any::<bool>(),
        steps in proptest::collection::vec((1..=13u64, prop_oneof![4 => 0..5i64, 1 => 0..1_000i64], step()), 1..300),
    ) {
        let clock = ManualClock::with_frequency(keys::FREQUENCY);
        let limits = KeyedLimiter::<u64>::builder(tiers[0].quota())
            .tiers(tiers[1..].iter().map(|tier| tier.quota()), |key| Keys::own_tier(*key))
            .capacity(1_000)
            .when_full(if shares { WhenFull::SharedOverflow } else { WhenFull::DenyNew })
            .clock(&clock)
            // With this hash the 13 keys have room in their lines of shared words.
            .hasher(BuildHasherDefault::<Identity>::default())
            .build()
            .unwrap();
        let mut model = Keys::new(tiers, shares);
        for (key, pass, step) in steps {
            clock.advance_ticks(pass as u64 * CLOCK_TICKS);
            model.pass(pass);
            if matches!(step, Step::Charge(_)) && model.mixes_tiers(key) {
                limits.clear();
                model.clear();
            }
            if matches!(step, Step::SetTier(_) | Step::ClearTier | Step::Retier) && model.was_moved(key) {
                limits.reset(&key);
                model.reset(key);
            }
            match step {
                Step::Check(n) => {
                    let expected = model.check(key, n);
                    prop_assert_eq!(answer(limits.check_n(&key, n), expected), expected);
                }
                Step::Charge(n) => prop_assert_eq!(limits.charge(&key, n), model.charge(key, n)),
                Step::Refund(n) => prop_assert_eq!(limits.refund(&key, n), model.refund(key, n)),
                Step::Reset => {
                    limits.reset(&key);
                    model.reset(key);
                }
                Step::SetTier(tier) => {
                    prop_assert_eq!(limits.set_tier(&key, tier).is_ok(), tier < model.tiers());
                    if tier < model.tiers() {
                        model.give_tier(key, Some(tier));
                    }
                }
                Step::ClearTier => {
                    limits.clear_tier(&key);
                    model.give_tier(key, None);
                }
                Step::Retier => {
                    limits.retier(&key);
                    model.retier(key);
                }
                Step::AddTier(settings) if model.tiers() < keys::TIERS => {
                    prop_assert_eq!(limits.add_tier(settings.quota()), Ok(model.tiers()));
                    model.add_tier(settings);
                }
                Step::AddTier(_) => {}
                Step::SetQuotas(quotas) => {
                    let result = limits.set_tier_quotas(quotas.iter().map(|(tier, settings)| (*tier, settings.quota())));
                    prop_assert_eq!(result.is_ok(), model.set_quotas(&quotas));
                }
                Step::Clear => {
                    limits.clear();
                    model.clear();
                }
            }
            let usage = limits.peek(&key);
            prop_assert_eq!((usage.limit(), i64::from(usage.remaining())), model.peek(key));
            prop_assert_eq!((limits.len(), limits.overflows(), limits.evictions()), (model.len(), 0, 0));
        }
    }

    /// In a full table, whose keys share words, tiers are added and keys are moved between them.
    ///
    /// Nothing is refilled. While lines have room, a key may take one burst in all, of the tier that has the largest. Where they are
    /// full, it may take one burst of each tier.
    #[test]
    fn no_key_exceeds_its_burst_while_tiers_are_added(
        bursts in proptest::collection::vec(1..6u32, 1..4),
        shared_buckets in prop_oneof![1..8usize, Just(4_096)],
        steps in proptest::collection::vec((1..=24u64, crowded_step()), 1..400),
    ) {
        // The burst modulo 16 says which tier it is.
        let never = |tier: usize, burst: u32| Quota::per_second(0).burst(16 * burst + tier as u32);
        let others: Vec<_> = bursts.iter().enumerate().skip(1).map(|(tier, burst)| never(tier, *burst)).collect();
        let limits = KeyedLimiter::<u64>::builder(never(0, bursts[0]))
            .tiers(others, |key| (*key % 15) as usize)
            .capacity(1)
            .shared_buckets(shared_buckets)
            .clock(ManualClock::new())
            .hasher(Seed::new(3, 4))
            .build()
            .unwrap();
        let mut tiers = bursts.len();
        let mut largest = never(tiers - 1, bursts.into_iter().max().unwrap()).burst_size();
        let mut taken = HashMap::<(u64, u32), u32>::new();
        for (key, step) in steps {
            let burst = limits.peek(&key).limit();
            match step {
                Crowded::Check(n) => {
                    // A newcomer's peek names the tier that it gets.
                    *taken.entry((key, burst)).or_default() += if limits.check_n(&key, n).is_ok() { n } else { 0 };
                }
                Crowded::SetTier(tier) => _ = limits.set_tier(&key, tier % tiers),
                Crowded::Retier => limits.retier(&key),
                Crowded::AddTier(burst) => match limits.add_tier(never(tiers, burst)) {
                    Ok(tier) => {
                        prop_assert_eq!(tier, tiers);
                        (tiers, largest) = (tiers + 1, largest.max(never(tier, burst).burst_size()));
                    }
                    Err(error) => prop_assert_eq!((error, tiers), (TierError::TooMany, 15)),
                },
            }
            let in_tier = taken.get(&(key, burst)).copied().unwrap_or(0);
            prop_assert!(in_tier <= burst, "key {} took {} of {}", key, in_tier, burst);
            let all: u32 = taken.iter().filter(|((of, _), _)| *of == key).map(|(_, taken)| taken).sum();
            prop_assert!(shared_buckets < 8 || all <= largest, "key {} took {} of {} in all tiers", key, all, largest);
        }
    }

    /// Keys return after more than a year.
    ///
    /// After 104 or 208 days their buckets are full. A key that returns just before its level has completed a cycle, by
    /// less than the deepest debt takes to refill, owes the rest of the cycle.
    #[test]
    fn keys_that_return_after_months_have_full_buckets(
        rate_log2 in 0..=6u32,
        (burst, max_debt) in (1..50u32, 0..200u32),
        calls in proptest::collection::vec((0..6u64, gaps(), 0..20u32), 1..300),
    ) {
        let settings = Settings { rate_log2, burst, max_debt };
        let clock = ManualClock::with_frequency(keys::FREQUENCY);
        let limits = KeyedLimiter::<u64>::builder(settings.quota()).clock(&clock).build().unwrap();
        // A tick of the clock is four units. All values are in clock ticks, as are the moments at which buckets are
        // full.
        let circle = 1i64 << 54;
        let token = (8 * CLOCK_TICKS as i64) >> rate_log2;
        let deepest = i64::from(burst + max_debt) * token;
        let mut full_at = HashMap::<u64, i64>::new();
        let mut now = 0i64;
        for (key, gap, n) in calls {
            let gap = match gap {
                Gap::Pass(millis) => millis * CLOCK_TICKS as i64,
                // The moment at which this key's level completes its cycle, or near it.
                Gap::Circle(off) => full_at.get(&key).map_or(0, |&at| (at + circle - now).rem_euclid(circle) + off * token).max(0),
            };
            now += gap;
            clock.advance_ticks(gap as u64);
            let owed = full_at.get(&key).map_or(0, |&at| {
                let ahead = (at - now).rem_euclid(circle);
                if ahead <= deepest { ahead } else { 0 }
            });
            let after = owed + i64::from(n) * token;
            let expected = n == 0 || after <= i64::from(burst) * token;
            let found = limits.check_n(&key, n);
            prop_assert_eq!(found.is_ok(), expected, "{} owed, {} a token", owed, token);
            if let Ok(allowed) = found {
                let owed = if n == 0 { owed } else { after };
                let left = (i64::from(burst) * token - owed).max(0) / token;
                prop_assert_eq!(i64::from(allowed.remaining()), left);
                if n > 0 {
                    full_at.insert(key, now + after);
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Gap {
    /// This many milliseconds pass.
    Pass(i64),
    /// This many tokens before or after the end of the cycle.
    Circle(i64),
}

fn gaps() -> impl Strategy<Value = Gap> {
    const DAY: i64 = 86_400_000;
    prop_oneof![
        8 => (0..50i64).prop_map(Gap::Pass),
        1 => (0..3 * DAY).prop_map(Gap::Pass),
        1 => (90 * DAY..120 * DAY).prop_map(Gap::Pass),
        1 => (-60..3i64).prop_map(Gap::Circle),
    ]
}

/// With as many busy keys as the capacity, about 3 in 10,000 find no slot.
#[test]
fn few_keys_find_no_slot_at_capacity() {
    let (mut keys, mut overflows) = (0, 0);
    for (capacity, tables) in [(100, 500), (1_000, 100), (8_192, 20), (100_000, 2)] {
        let mut of_these = 0;
        for table in 0..tables as u64 {
            let limits = KeyedLimiter::<u64>::builder(Quota::per_hour(1).burst(1_000_000))
                .capacity(capacity)
                .clock(ManualClock::new())
                .hasher(Seed::new(seed(), table))
                .build()
                .unwrap();
            (0..capacity as u64).for_each(|key| _ = limits.check(&key));
            of_these += limits.overflows();
            assert_eq!(limits.len() as u64 + limits.overflows(), capacity as u64);
        }
        println!("{capacity} keys, {tables} times: {of_these} without a slot");
        keys += capacity * tables;
        overflows += of_these;
    }
    println!("{overflows} of {keys}");
    // 150 are expected, and 300 are twelve standard deviations above.
    assert!(overflows <= 300, "{overflows} of {keys} keys");
}

/// A key that calls constantly gets exactly its burst and its rate beside an attacker.
///
/// The attacker rotates a hundred times as many keys as the table's capacity.
#[test]
fn busy_key_keeps_its_rate_under_a_flood() {
    for when_full in [WhenFull::SharedOverflow, WhenFull::DenyNew] {
        let clock = ManualClock::new();
        let limits = KeyedLimiter::<u64>::builder(Quota::per_second(10).burst(5))
            .capacity(64)
            .when_full(when_full)
            .clock(&clock)
            .hasher(Seed::new(seed(), 0))
            .build()
            .unwrap();
        let mut others = (1..=6_400u64).cycle();
        let mut taken = 0;
        let ticks = part_of(100_000);
        for _ in 0..=ticks {
            taken += u32::from(limits.check(&0).is_ok());
            others.by_ref().take(3).for_each(|key| _ = limits.check(&key));
            clock.advance(Duration::from_micros(100));
        }
        assert_eq!(taken, 5 + ticks / 1_000, "{when_full:?}: a burst and a token a tenth of a second");
    }
}

/// Each key's net tokens, from its slot and the shared bucket, stay within its envelope.
///
/// Threads check, refund, roll back, add tiers of one quota and move keys between them, with more keys than slots.
// CLAIM: KeyedLimiter
#[test]
fn each_key_stays_in_its_envelope_with_refunds_and_roll_backs() {
    const KEYS: usize = 40;
    for when_full in [WhenFull::SharedOverflow, WhenFull::DenyNew] {
        let clock = ManualClock::new();
        let quota = Quota::per_second(1_000).burst(20);
        let limits = KeyedLimiter::<u64>::builder(quota)
            .tiers([quota; 2], |key| *key as usize % 15)
            .capacity(8)
            .when_full(when_full)
            .clock(&clock)
            .hasher(Seed::new(seed(), 0))
            .build()
            .unwrap();
        let seed = seed();
        let counted = |thread: u64| {
            let mut taken = [0i64; KEYS];
            // Not 0, which is a fixed point of xorshift.
            let mut random = (seed ^ thread << 32) | 1;
            for _ in 0..40_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let key = random % KEYS as u64;
                let taken = &mut taken[key as usize];
                match (random >> 32) % 16 {
                    0 => clock.advance(Duration::from_micros(100)),
                    1 => {
                        limits.refund(&key, 2);
                        *taken -= 2;
                    }
                    2 => {
                        if let Ok((_, receipt)) = take_revocably(&limits, &key, 2) {
                            revoke(&limits, &key, 2, receipt);
                        }
                    }
                    3 => _ = limits.set_tier(&key, (random >> 40) as usize % 16),
                    4 => limits.clear_tier(&key),
                    5 => limits.retier(&key),
                    // Fifteen in all, some way into the run.
                    6 if (random >> 40).is_multiple_of(256) => _ = limits.add_tier(quota),
                    _ => *taken += i64::from(limits.check_n(&key, 3).map_or(0, |_| 3)),
                }
            }
            taken
        };
        let taken = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|thread| scope.spawn(move || counted(thread))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).fold([0; KEYS], |mut sum, taken| {
                sum.iter_mut().zip(taken).for_each(|(sum, taken)| *sum += taken);
                sum
            })
        });
        let millis = clock.now() as i64 / 1_000_000;
        for (key, taken) in taken.into_iter().enumerate() {
            assert!(taken <= 20 + millis + 1, "{when_full:?}: key {key} took {taken} in {millis} ms");
        }
        assert!(limits.tier_quota(3).is_some(), "a tier was added");
        let slots = limits.len();
        limits.clear();
        assert!(slots <= 16 && limits.is_empty(), "{slots} slots");
    }
}

#[test]
fn many_keys_are_checked_in_their_order() {
    let clock = ManualClock::new();
    let of =
        || KeyedLimiter::<u64>::builder(Quota::per_second(10).burst(3)).clock(&clock).capacity(64).build().unwrap();
    // No key, fewer than are fetched at once, as many, and more; known and new ones, some more than once.
    for count in [0, 1, 15, 16, 17, 32, 33, 100] {
        let (together, one_by_one) = (of(), of());
        for round in 0..3 {
            let keys: Vec<u64> = (0..count).map(|index| index * index % 23 + round).collect();
            let expected: Vec<_> = keys.iter().map(|key| (key, one_by_one.check(key))).collect();
            assert_eq!(together.check_many(&keys).collect::<Vec<_>>(), expected, "{count} keys, round {round}");
        }
    }
}

#[test]
fn keys_that_are_not_asked_for_take_nothing() {
    let limits =
        KeyedLimiter::<str>::builder(Quota::per_second(10).burst(3)).clock(ManualClock::new()).build().unwrap();
    assert_eq!(limits.check_many(["a", "b", "c"]).take(2).filter(|(_, answer)| answer.is_ok()).count(), 2);
    let used = ["a", "b", "c"].map(|key| limits.peek(key).used());
    assert_eq!(used, [1, 1, 0]);
    // An iterator that goes on after its end is not asked again.
    let mut turns = 0;
    let restarting = std::iter::from_fn(|| {
        turns += 1;
        (turns != 2).then_some("d")
    });
    assert_eq!(limits.check_many(restarting).count(), 1);
}

/// A key that owes nothing needs no slot.
#[test]
fn charge_without_a_limit_gives_no_slot() {
    for when_full in [WhenFull::SharedOverflow, WhenFull::DenyNew, WhenFull::EvictLeastIndebted] {
        let builder = KeyedLimiter::<u64>::builder(Quota::UNLIMITED).when_full(when_full);
        let limits = builder.clock(ManualClock::new()).build().unwrap();
        assert_eq!((limits.charge(&1, 5), limits.len()), (5, 0), "{when_full:?}");
    }
}
