//! A keyed limiter's guarantees to innocent clients when its table is full.

use crate::cases::times;
use damper::{Quota, WhenFull};
use damper_sim::crowd::{Crowd, Percent};
use damper_sim::tier_flood::TierFlood;

fn crowd(quota: Quota, calls: u32, capacity: usize) -> Crowd {
    Crowd { quota, calls, capacity, when_full: WhenFull::default(), shared_buckets: None, tiers: 1, seed: 1 }
}

fn assert_refused(crowd: Crowd, load: f64, refills: u32, most: f64) {
    let refused = crowd.refused_at_load(load, refills);
    println!("{}, {} calls, capacity {}, load {load}: {} %", crowd.quota, crowd.calls, crowd.capacity, refused.0);
    assert!(refused <= Percent(most), "{crowd:?} at a load of {load}: {refused:?} of at most {most}");
}

/// With as many busy clients as the capacity, 35 of 10,000 newcomers find no slot under churn.
#[test]
fn newcomers_without_a_slot_are_rare() {
    let without = crowd(Quota::per_hour(20), 1, 8_192).without_a_slot_at_load(1.0);
    println!("{without:?} without a slot");
    assert!(without > Percent(0.25) && without < Percent(0.45), "{without:?} is not 0.35 %");
}

#[test]
fn full_table_rarely_refuses_a_single_call() {
    for quota in [Quota::per_hour(20), Quota::per_minute(5).burst(5), Quota::per_second(50).burst(100)] {
        assert_refused(crowd(quota, 1, 8_192), 1.0, 1, 0.1);
        assert_refused(crowd(quota, 1, 8_192), 1.5, 1, 2.0);
    }
    assert_refused(crowd(Quota::per_minute(5).burst(5), 1, 100_000), 1.0, 1, 0.1);
    assert_refused(crowd(Quota::per_minute(5).burst(5), 1, 100_000), 1.5, 1, 2.0);
}

#[test]
fn full_table_rarely_refuses_a_whole_burst() {
    // Bursts of a hundred calls use a smaller table, to save time.
    let quotas = [(Quota::per_hour(20), 8_192), (Quota::per_second(50).burst(100), 1_024)];
    for (quota, capacity) in quotas {
        assert_refused(crowd(quota, quota.burst_size(), capacity), 1.0, 1, 0.1);
        assert_refused(crowd(quota, quota.burst_size(), capacity), 1.5, 1, 0.05);
        assert_refused(crowd(quota, quota.burst_size(), capacity), 2.0, 1, 0.2);
    }
    assert_refused(crowd(Quota::per_minute(5).burst(5), 5, 100_000), 1.0, 1, 0.1);
    assert_refused(crowd(Quota::per_minute(5).burst(5), 5, 100_000), 1.5, 1, 2.0);
}

/// A table that is much too small refuses no more than with shared words that had no lines.
///
/// Where `DAMPER_CASES` is above 1 it is tried at two more loads.
#[test]
fn overfull_table_refuses_no_more_than_before_lines() {
    let quota = Quota::per_hour(20);
    let loads = [(1, 3.0, 2.7), (1, 4.0, 30.0), (20, 2.5, 9.4), (20, 3.0, 16.0), (20, 4.0, 31.0)];
    for (calls, load, before) in loads.into_iter().take(if times() > 1 { 5 } else { 3 }) {
        assert_refused(crowd(quota, calls, 8_192), load, 3, before);
    }
    let flood = crowd(quota, 1, 8_192).refused_in_flood(200);
    println!("200 new keys a second: {flood:?}");
    assert!(flood <= Percent(47.7 + 1.5), "{flood:?}");
}

/// Sharing refuses at most two points more innocent clients than the better other policy.
#[test]
fn sharing_refuses_least_in_a_flood() {
    // The last is 10,000/s against a capacity of 8,192, in an eighth of the time.
    let floods =
        [(Quota::per_hour(20), 8_192, 100), (Quota::per_hour(20), 8_192, 200), (Quota::per_minute(30), 1_024, 1_250)];
    for (quota, capacity, keys_per_second) in floods {
        let refused = |when_full| {
            let crowd = Crowd { when_full, ..crowd(quota, 1, capacity) };
            crowd.refused_in_flood(keys_per_second)
        };
        let [shared, denied, evicted] =
            [WhenFull::SharedOverflow, WhenFull::DenyNew, WhenFull::EvictLeastIndebted].map(refused);
        println!("{keys_per_second}/s at {quota}: shared {shared:?}, denied {denied:?}, evicted {evicted:?}");
        let most = Percent(denied.0.min(evicted.0) + 2.0);
        assert!(shared <= most, "{keys_per_second} keys a second at {quota}");
    }
}

/// The limiter forgets a flood within a burst's refill time, while ordinary traffic continues.
#[test]
fn flood_is_forgotten_within_one_refill() {
    for (quota, keys_per_second) in [(Quota::per_hour(20), 200), (Quota::per_minute(30).burst(5), 10_000)] {
        assert_eq!(crowd(quota, 1, 8_192).refused_after_flood(keys_per_second, 0.13), 0, "at {quota}");
    }
}

/// Tiers that no key is in refuse no call: they take no memory from the one that is used.
#[test]
fn tiers_without_keys_refuse_nothing() {
    for tiers in [2, 6, 15] {
        assert_refused(Crowd { tiers, ..crowd(Quota::per_hour(20), 1, 8_192) }, 1.5, 1, 0.1);
        assert_refused(Crowd { tiers, ..crowd(Quota::per_hour(20), 1, 8_192) }, 2.0, 1, 0.1);
    }
}

/// A flood of free keys, also at four times the capacity, refuses no calls of paying clients.
///
/// Where `DAMPER_CASES` is above 1 it is tried at two lesser rates too.
#[test]
fn flood_of_one_tier_leaves_the_other_alone() {
    let floods = [(1, 200.0), (20, 20.0), (1, 91.0), (20, 4.55)];
    for (calls, keys_per_second) in floods.into_iter().take(if times() > 1 { 4 } else { 2 }) {
        for when_full in [WhenFull::SharedOverflow, WhenFull::EvictLeastIndebted] {
            let free = Crowd { when_full, ..crowd(Quota::per_hour(20), calls, 8_192) };
            let refused = TierFlood { free, paid: Quota::per_second(100).burst(200), keys_per_second }.refused();
            println!("{keys_per_second}/s of {calls} calls, {when_full:?}: {refused:?}");
            assert!(refused.first <= Percent(0.5) && refused.regulars <= Percent(0.5), "{refused:?}");
        }
    }
}

/// The crowding warns before clients are refused.
#[test]
fn crowding_warns_of_a_small_table() {
    for (load, shares) in [(1.5, 0.0..0.15), (2.0, 0.1..0.3), (2.5, 0.35..0.6)] {
        let share = crowd(Quota::per_hour(20), 20, 8_192).crowding_at_load(load);
        println!("a load of {load}: {share}");
        assert!(shares.contains(&share), "{share} at a load of {load}");
    }
}
