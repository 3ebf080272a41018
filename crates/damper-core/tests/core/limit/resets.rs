//! Limits that an operator makes full again, empties, shuts and opens.

use damper::limit::Algorithm;
use damper::{
    Clock, FixedWindow, LeakyBucket, LeasingBucket, ManualClock, Quota, RateLimiter, SlidingCounter, SlidingLog,
    TokenBucket,
};
use proptest::prelude::*;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u64),
    Take(u32),
    Reset,
    Drain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(
        prop_oneof![
            4 => (0..1_500u64).prop_map(Step::Pass),
            6 => (0..12u32).prop_map(Step::Take),
            1 => Just(Step::Reset),
            1 => Just(Step::Drain),
        ],
        1..80,
    )
}

/// After a reset the limit is full, and a drain takes exactly what a check of all that is left would.
fn resets_and_drains<A: Algorithm>(algorithm: impl Fn() -> A, steps: &[Step]) {
    let clock = ManualClock::with_frequency(1_000);
    clock.set_ticks(1_000_000);
    let [limiter, mirror] = [(); 2].map(|()| RateLimiter::with_algorithm(algorithm(), &clock));
    // Windows begin with the first use.
    let [full, _] = [&limiter, &mirror].map(|limiter| limiter.peek().limit());
    for step in steps {
        match *step {
            Step::Pass(ticks) => clock.advance_ticks(ticks),
            Step::Take(n) => assert_eq!(limiter.check_n(n).is_ok(), mirror.check_n(n).is_ok(), "{n}"),
            Step::Reset => {
                limiter.reset();
                assert_eq!((limiter.peek().remaining(), limiter.peek().resets_in()), (full, Some(Duration::ZERO)));
                mirror.reset();
            }
            Step::Drain => {
                let left = mirror.peek().remaining();
                assert_eq!(limiter.drain(), left);
                assert!(mirror.check_n(left).is_ok());
                assert!(limiter.check().is_err());
            }
        }
        assert_eq!(limiter.peek(), mirror.peek());
    }
    limiter.reset();
    assert_eq!(limiter.drain(), full);
    assert_eq!(limiter.drain(), 0);
}

proptest! {
    #[test]
    fn every_algorithm_resets_and_drains(steps in steps()) {
        let quota = Quota::per_second(10);
        resets_and_drains(|| TokenBucket::new(quota), &steps);
        resets_and_drains(|| LeakyBucket::new(quota), &steps);
        resets_and_drains(|| FixedWindow::new(quota), &steps);
        resets_and_drains(|| SlidingLog::new(quota).unwrap(), &steps);
        resets_and_drains(|| LeasingBucket::new(quota.burst(14), 4).unwrap(), &steps);
    }

    /// The count of the previous window is forgotten too.
    #[test]
    fn sliding_counter_resets_and_drains(steps in steps()) {
        resets_and_drains(|| SlidingCounter::new(Quota::per_second(10)).unwrap(), &steps);
    }
}

/// A reset gives waiters their tokens, and newcomers a burst.
#[test]
fn reset_serves_waiters() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_minute(1).burst(3), &clock);
    assert!(limiter.check_n(3).is_ok());
    let waiter = limiter.reserve(2).unwrap();
    assert_eq!(waiter.ready_in(), Some(Duration::from_mins(2)));
    limiter.reset();
    assert_eq!(waiter.ready_in(), Some(Duration::ZERO));
    assert_eq!(limiter.peek().remaining(), 3);
}

#[test]
fn unlimited_limit_stays_unlimited() {
    let limiter = RateLimiter::with_clock(Quota::UNLIMITED, ManualClock::new());
    assert_eq!(limiter.drain(), u32::MAX);
    limiter.reset();
    assert!(limiter.check_n(u32::MAX).is_ok());
}

/// An operator's switch is a quota: none at all, or no limit. The level outlasts both.
fn switch<A: Algorithm, C: Clock>(limiter: &RateLimiter<A, C>) {
    let quota = limiter.quota();
    assert!(limiter.check_n(3).is_ok());
    limiter.set_quota(Quota::per_second(0)).unwrap();
    let refused = limiter.check().unwrap_err();
    assert_eq!((refused.exceeds_burst(), refused.retry_after()), (true, None));
    limiter.set_quota(Quota::UNLIMITED).unwrap();
    assert!(limiter.check_n(1_000_000).is_ok());
    limiter.set_quota(quota).unwrap();
    assert_eq!(limiter.peek().used(), 3, "as before");
}

#[test]
fn quota_is_a_switch_that_keeps_the_level() {
    let (clock, quota) = (ManualClock::new(), Quota::per_second(10));
    switch(&RateLimiter::with_algorithm(TokenBucket::new(quota), &clock));
    switch(&RateLimiter::with_algorithm(LeakyBucket::new(quota), &clock));
    switch(&RateLimiter::with_algorithm(FixedWindow::new(quota), &clock));
    switch(&RateLimiter::with_algorithm(SlidingCounter::new(quota).unwrap(), &clock));
}

/// The same for all keys at once: the switch turns every tier, together.
#[cfg(feature = "std")]
#[test]
fn quotas_of_tiers_are_a_switch_for_all_keys() {
    let (few, many) = (Quota::per_second(10), Quota::per_second(100));
    let limits = damper::KeyedLimiter::<u64>::builder(few).tiers([many], |key| (*key % 2) as usize);
    let limits = limits.clock(ManualClock::new()).build().unwrap();
    assert!(limits.check_n(&1, 30).is_ok() && limits.check_n(&2, 3).is_ok());
    let all = |quota| limits.set_tier_quotas([(0, quota), (1, quota)]).unwrap();
    all(Quota::per_second(0));
    assert!([1, 2, 3, 4].iter().all(|key| limits.check(key).is_err()));
    all(Quota::UNLIMITED);
    assert!([1, 2, 3, 4].iter().all(|key| limits.check_n(key, 1_000).is_ok()));
    limits.set_tier_quotas([(0, few), (1, many)]).unwrap();
    assert_eq!([1, 2, 3, 4].map(|key| limits.peek(&key).used()), [30, 3, 0, 0]);
    assert_eq!((limits.drain(&1), limits.drain(&1)), (70, 0));
    assert!(limits.check(&1).is_err());
}
