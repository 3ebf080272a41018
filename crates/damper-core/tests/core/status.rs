//! The numbers for dashboards: they are right, and reading them is no use of a limiter.

use crate::models::seed::seed;
use damper::concurrency::{AdmissionRequest, BulkheadStatus, Criticality, RefusalCause};
use damper::keyed::{KeyedLimiterBuilder, KeyedSlots, TierCensus};
use damper::retry::{Budget, RetryBucket, RetryBudget, RetryBudgetConfig, RetryThrottle};
use damper::time::Seed;
use damper::{
    AdaptiveLimit, Admission, BoundedStore, Bulkhead, CoarseClock, FixedWindow, KeyedAdaptiveLimit, KeyedBulkhead,
    KeyedLimiter, LeakyBucket, LimitSet, Limiter, ManualClock, Quota, RateLimiter, SlidingCounter, SlidingLog, Striped,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Whether limiters that were looked at before their first use decide as others do.
///
/// The first window begins with the first use, so a look that counted as one would move the windows.
fn assert_look_is_no_use<L: Limiter>(name: &str, limiter: impl Fn(&'static ManualClock) -> L) {
    let decisions = |looks: u32| {
        let clock: &'static ManualClock = Box::leak(Box::new(ManualClock::new()));
        let limiter = limiter(clock);
        for _ in 0..looks {
            let usage = limiter.usage();
            assert_eq!((usage.used(), usage.debt()), (0, 0), "{name} is unused");
            clock.advance(Duration::from_millis(130));
        }
        let mut decisions = Vec::new();
        // The same instants after the first use, whenever that is.
        for _ in 0..40 {
            decisions.push(limiter.try_acquire(1).map_err(|denied| denied.retry_after()));
            clock.advance(Duration::from_millis(90));
        }
        decisions
    };
    for looks in 1..5 {
        assert_eq!(decisions(looks), decisions(0), "{name}, {looks} looks");
    }
}

#[test]
fn look_before_the_first_use_moves_no_window() {
    let quota = Quota::per_second(4).burst(3);
    assert_look_is_no_use("bucket", |clock| RateLimiter::with_clock(quota, clock));
    assert_look_is_no_use("window", |clock| RateLimiter::with_algorithm(FixedWindow::new(quota), clock));
    assert_look_is_no_use("counter", |clock| RateLimiter::with_algorithm(SlidingCounter::new(quota).unwrap(), clock));
    assert_look_is_no_use("log", |clock| RateLimiter::with_algorithm(SlidingLog::new(quota).unwrap(), clock));
    assert_look_is_no_use("leaky", |clock| RateLimiter::with_algorithm(LeakyBucket::new(quota), clock));
    assert_look_is_no_use("set", |clock| LimitSet::with_clock([quota, Quota::per_minute(12)], clock));
    assert_look_is_no_use("striped", |clock| Striped::with_stripes(quota, 1, 1, clock).unwrap());
}

#[test]
fn look_at_an_unused_keyed_limiter_moves_no_window() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u32>::builder(Quota::per_second(4)).clock(&clock).algorithm::<FixedWindow>();
    let limits = limits.build().unwrap();
    assert_eq!((limits.peek(&1).remaining(), limits.census()[0].keys()), (4, 0));
    clock.advance(SECOND * 7 / 10);
    limits.check_n(&1, 4).unwrap();
    assert_eq!(limits.check(&1).unwrap_err().retry_after(), Some(SECOND), "the window began with the check");
}

#[test]
fn usage_says_what_was_taken_in_advance() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(2).burst(5), &clock);
    limiter.check_n(4).unwrap();
    assert_eq!((limiter.peek().used(), limiter.peek().debt()), (4, 0));
    assert_eq!(limiter.charge(4), 4);
    assert_eq!((limiter.peek().used(), limiter.peek().debt(), limiter.debt()), (5, 3, 3));
    clock.advance(SECOND);
    assert_eq!((limiter.peek().debt(), limiter.peek().remaining()), (1, 0));
    clock.advance(SECOND);
    assert_eq!((limiter.peek().debt(), limiter.peek().remaining()), (0, 1));

    let limits = KeyedLimiter::<u32>::builder(Quota::per_second(2)).clock(&clock).build().unwrap();
    limits.check(&1).unwrap();
    limits.charge(&1, 4);
    assert_eq!(limits.peek(&1).debt(), 3);
    assert_eq!(limits.peek(&2).debt(), 0);
}

proptest! {
    /// The census is what asking every key would say, whatever was taken, moved and refilled.
    #[test]
    fn census_counts_what_the_keys_say(
        calls in prop::collection::vec((0_u32..40, 0_u32..4, 0_u64..300), 0..120),
        moved in prop::collection::vec((0_u32..40, 0_usize..3), 0..10),
    ) {
        let clock = ManualClock::new();
        let hasher = Seed::new(seed(), 1);
        let quotas = [Quota::per_second(3).burst(2), Quota::per_second(5).burst(4)];
        let limits = KeyedLimiterBuilder::<u32, _, _>::new(Quota::per_second(1).burst(3), &clock, hasher);
        // Large enough that every key has a slot.
        let limits = limits.capacity(4_096).tiers(quotas, |key| (key % 3) as usize).build().unwrap();
        let mut tiers = HashMap::new();
        for (key, n, millis) in calls {
            _ = limits.check_n(&key, n);
            tiers.entry(key).or_insert((key % 3) as usize);
            clock.advance(Duration::from_millis(millis));
        }
        for (key, tier) in moved {
            limits.set_tier(&key, tier).unwrap();
            tiers.entry(key).and_modify(|own| *own = tier);
        }
        let mut expected = [(0, 0, 0); 3];
        for (key, tier) in tiers {
            let usage = limits.peek(&key);
            // A call of no tokens, or one that was refused, may give a key no slot.
            if usage.used() > 0 {
                expected[tier].1 += 1;
            }
            expected[tier].2 += usize::from(usage.remaining() == 0);
        }
        let census = limits.census();
        prop_assert_eq!(census.len(), 3);
        for (expected, census) in expected.iter().zip(&*census) {
            prop_assert_eq!((census.owing(), census.exhausted()), (expected.1, expected.2));
            prop_assert!(census.keys() >= census.owing());
        }
        prop_assert_eq!(census.iter().map(TierCensus::keys).sum::<usize>(), limits.len());
    }
}

#[test]
fn limiter_in_lent_slots_has_a_census() {
    static TIME: CoarseClock = CoarseClock::new();
    static SLOTS: KeyedSlots<4> = KeyedSlots::new();
    let nodes = KeyedLimiter::<u16, _, _>::in_slots(Quota::per_minute(6).burst(1), &SLOTS, &TIME, Seed::new(1, 2));
    nodes.check(&7).unwrap();
    let census = nodes.census();
    assert_eq!((nodes.tiers(), census.len(), census[0].exhausted()), (1, 1, 1));
}

/// Withdraws until it is refused, and returns how often it was not.
fn withdrawals(budget: &impl Budget) -> u32 {
    let mut withdrawn = 0;
    while budget.try_withdraw() {
        withdrawn += 1;
    }
    withdrawn
}

#[test]
fn budgets_allow_as_many_retries_as_they_say() {
    let clock = ManualClock::new();
    for (ratio, floor, reserve) in [(0.2, 10, 100), (0.0, 0, 7), (0.3, 0, 1), (2.5, 3, 4), (0.001, 1, 1)] {
        let config = RetryBudgetConfig::builder().ratio(ratio).floor(floor).reserve(reserve).build().unwrap();
        let (budget, bucket) = (RetryBudget::with_clock(config, &clock), RetryBucket::with_clock(config, &clock));
        for calls in [0, 3, 1_000, 1] {
            for _ in 0..calls {
                budget.began();
                bucket.began();
            }
            clock.advance(SECOND / 3);
            let left = budget.retries_left();
            assert_eq!(left, budget.retries_left(), "looking takes nothing");
            assert_eq!(withdrawals(&budget), left, "{ratio} {floor} {reserve} after {calls}");
            let left = bucket.retries_left();
            assert_eq!(withdrawals(&bucket), left, "bucket, {ratio} {floor} {reserve} after {calls}");
            assert_eq!((budget.retries_left(), bucket.retries_left()), (0, 0));
        }
    }
}

#[test]
fn retry_throttle_says_how_many_failures_it_stands() {
    let throttle = RetryThrottle::new(10, 0.4).unwrap();
    for outcome in [false, false, true, false, true, true, false, false, false, false] {
        let left = throttle.retries_left();
        assert_eq!(left > 0, throttle.try_withdraw());
        // A throttle with the same tokens stands exactly as many failures.
        let copy = RetryThrottle::new(10, 0.001).unwrap();
        while copy.thousandths() > throttle.thousandths() + 999 {
            copy.failed();
        }
        while copy.thousandths() < throttle.thousandths() {
            copy.succeeded();
        }
        let mut failures = 0;
        while copy.try_withdraw() {
            copy.failed();
            failures += 1;
        }
        assert_eq!(failures, left, "{} thousandths", throttle.thousandths());
        if outcome { throttle.succeeded() } else { throttle.failed() }
    }
}

#[test]
fn queues_count_the_calls_that_joined() {
    let mut context = Context::from_waker(Waker::noop());
    let pool = Bulkhead::new(1).queue(2);
    let _held = pool.try_acquire().unwrap();
    for joined in 0..3 {
        assert_eq!(pool.total_queued(), joined);
        let waiting = pin!(pool.acquire().sleeping_by(|_| pending::<()>()));
        assert!(waiting.poll(&mut context).is_pending(), "it gives up at the end of the block");
    }
    assert_eq!(pool.total_queued(), 3);
    let limit = AdaptiveLimit::default();
    assert_eq!(limit.total_queued(), 0);

    let gate = Admission::fixed(1);
    let _held = gate.try_acquire(AdmissionRequest::new()).unwrap();
    assert!(gate.try_acquire(AdmissionRequest::new()).is_err());
    assert_eq!(gate.total_queued(), 0, "a call that does not wait joins no queue");
    let request = AdmissionRequest::new().criticality(Criticality::CriticalPlus);
    let waiting = pin!(gate.acquire(request).sleeping_by(|_| pending::<()>()));
    assert!(waiting.poll(&mut context).is_pending());
    assert_eq!(gate.total_queued(), 1);
}

/// Reading the counts of limits per key holds none of them, so it keeps none from being evicted.
#[test]
fn statuses_of_keys_hold_no_limit() {
    let tenants = KeyedBulkhead::<u32>::new(2, 2).unwrap();
    let permits = [tenants.try_acquire(&1).unwrap(), tenants.try_acquire(&2).unwrap()];
    let statuses: Vec<_> = tenants.statuses().collect();
    assert_eq!(statuses.iter().map(BulkheadStatus::in_flight).sum::<u32>(), 2);
    assert_eq!(tenants.try_acquire(&3).unwrap_err().cause(), RefusalCause::StoreFull);
    drop(permits);
    let mut later = tenants.statuses();
    assert!(tenants.try_acquire(&3).is_ok(), "an idle limit is evicted while its counts are read");
    assert!(later.next().is_some());
    let limits = KeyedAdaptiveLimit::<u32>::new(damper::concurrency::LimitBounds::DEFAULT, 4).unwrap();
    let _permit = limits.try_acquire(&1).unwrap();
    assert_eq!(limits.statuses().count(), 1);
}

#[test]
fn store_shows_each_value_once() {
    let store = BoundedStore::<u32, u32>::new(100).unwrap();
    (0..50).for_each(|key| _ = store.get_or_insert_with(&key, || key * 2));
    let mut values = Vec::new();
    store.for_each(|value| values.push(*value));
    values.sort_unstable();
    assert!(values.into_iter().eq((0..50).map(|key| key * 2)));
}
