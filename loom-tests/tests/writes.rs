//! Calls that write nothing: so the cores share the cache lines that they read.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
//!
//! Each model is of one thread, with the checker's atomics, which count writes.
#![cfg(loom)]

use damper_core::breaker::Window;
use damper_core::sync::count_writes;
use damper_core::{BreakerConfig, CircuitBreaker, FixedWindow, KeyedLimiter, LimitSet, Quota, RateLimiter};
use damper_loom_tests::Stopped;
use std::time::Duration;

const NOW: Stopped = Stopped(1_000_000_000);

/// A success of a closed breaker with a full, healthy window of calls. [`is_healthy` that is always false.]
#[test]
fn success_of_a_healthy_breaker_writes_nothing() {
    // As many calls as a window has are more branches than loom allows by itself.
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    builder.check(|| {
        let rated = || BreakerConfig::builder().failure_rate(50);
        let last = |calls: u32| rated().window(Window::last_calls(calls));
        let slow = |calls: u32| last(calls).slow_rate(50, Duration::from_secs(1));
        for config in [BreakerConfig::builder(), rated(), last(20), last(48), last(49), slow(24), slow(25)] {
            let config = config.build().unwrap();
            let breaker = CircuitBreaker::with_clock(config, NOW);
            let succeed = || breaker.try_acquire().unwrap().success();
            (0..100).for_each(|_| succeed());
            assert_eq!(count_writes(succeed), 0, "{config:?}");
            assert!(count_writes(|| breaker.try_acquire().unwrap().failure()) > 0, "a failure is counted");
            assert!(count_writes(succeed) > 0, "and forgotten");
        }
    });
}

/// A refusal, and a look at what is left. [A refusal that swaps the word.]
#[test]
fn refusal_writes_nothing() {
    loom::model(|| {
        let one = RateLimiter::with_clock(Quota::per_second(1), NOW);
        let each = KeyedLimiter::<u64>::builder(Quota::per_second(1)).capacity(4).clock(NOW).build().unwrap();
        assert!(one.check().is_ok() && each.check(&7).is_ok());
        let refused = || assert!(one.check().is_err() && each.check(&7).is_err());
        assert_eq!(count_writes(refused), 0, "a refusal");
        let peek = || assert!(one.peek().used() == 1 && each.peek(&7).used() == 1);
        assert_eq!(count_writes(peek), 0, "a look");
        assert!(count_writes(|| _ = each.check(&8)) > 0, "a token that is taken is written down");
    });
}

/// A refusal of several limits in one decision, in which the last one refuses.
///
/// [Limits that are taken from one after the other.]
#[test]
fn refusal_of_several_limits_writes_nothing() {
    loom::model(|| {
        let both = LimitSet::with_clock([Quota::per_second(2), Quota::per_hour(1)], NOW);
        let windows = [Quota::per_second(2), Quota::per_hour(1)].map(FixedWindow::new);
        let windows = LimitSet::with_algorithms(windows, NOW);
        assert!(both.check().is_ok() && windows.check().is_ok());
        let refused = || assert!(both.check().is_err() && windows.check().is_err());
        assert_eq!(count_writes(refused), 0, "a refusal of a set");
        assert_eq!(count_writes(|| assert!(both.reserve([1, 1]).is_err())), 0, "a refused reservation");

        let all = RateLimiter::with_clock(Quota::per_hour(1), NOW);
        let each = KeyedLimiter::<u64>::builder(Quota::per_second(2)).capacity(4).clock(NOW).build().unwrap();
        assert!(each.check_n_with(&7, 1, &all).is_ok());
        let refused = || assert_eq!(each.check_n_with(&7, 1, &all).unwrap_err().index(), 1);
        assert_eq!(count_writes(refused), 0, "a refusal of a key and all");
    });
}
