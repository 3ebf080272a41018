//! A keyed limiter's guarantees to innocent clients when its table is full.

use damper::{Quota, WhenFull};
use damper_sim::crowd::{Crowd, Percent};

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
        assert_refused(crowd(quota, quota.burst_size(), capacity), 1.5, 1, 2.0);
    }
    assert_refused(crowd(Quota::per_minute(5).burst(5), 5, 100_000), 1.0, 1, 0.1);
    assert_refused(crowd(Quota::per_minute(5).burst(5), 5, 100_000), 1.5, 1, 2.0);
}

/// In a flood of keys, sharing refuses no more innocent clients than the better other policy.
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
        assert!(shared <= denied && shared <= evicted, "{keys_per_second} keys a second at {quota}");
    }
}

/// The limiter forgets a flood within a burst's refill time, while ordinary traffic continues.
#[test]
fn flood_is_forgotten_within_one_refill() {
    for (quota, keys_per_second) in [(Quota::per_hour(20), 200), (Quota::per_minute(30).burst(5), 10_000)] {
        assert_eq!(crowd(quota, 1, 8_192).refused_after_flood(keys_per_second, 0.13), 0, "at {quota}");
    }
}
