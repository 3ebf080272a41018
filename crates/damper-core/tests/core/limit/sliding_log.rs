//! The sliding log through the public API: examples, a property against a list of ticks, and stress.

use crate::models::cases::cases;
use crate::models::log::Log;
use damper::{
    Clock, FixedWindow, LimitSet, ManualClock, Quota, RateLimiter, SetQuotaError, SlidingLog, limit::Algorithm,
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn log(quota: Quota, clock: &ManualClock) -> RateLimiter<SlidingLog, &ManualClock> {
    RateLimiter::with_algorithm(SlidingLog::new(quota).unwrap(), clock)
}

#[test]
fn each_token_returns_a_window_after_it_was_taken() {
    let clock = ManualClock::new();
    let limiter = log(Quota::per_second(3), &clock);
    assert_eq!(limiter.peek().resets_in(), Some(Duration::ZERO));
    for (left, pause) in [(2, 100), (1, 200), (0, 300)] {
        let allowed = limiter.check().unwrap();
        assert_eq!((allowed.remaining(), allowed.resets_in()), (left, Some(Duration::from_secs(1))));
        clock.advance(Duration::from_millis(pause));
    }
    let denied = limiter.check().unwrap_err();
    assert_eq!((denied.retry_after(), denied.remaining()), (Some(Duration::from_millis(400)), 0));
    assert_eq!(denied.resets_in(), Some(Duration::from_millis(700)));
    assert_eq!(limiter.check_n(2).unwrap_err().retry_after(), Some(Duration::from_millis(500)));
    assert_eq!(limiter.check_n(3).unwrap_err().retry_after(), Some(Duration::from_millis(700)));
    clock.advance(Duration::from_millis(500) - Duration::from_nanos(1));
    assert_eq!(limiter.check_n(2).unwrap_err().remaining(), 1);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(limiter.check_n(2).unwrap().remaining(), 0);
    let usage = limiter.peek();
    assert_eq!((usage.limit(), usage.used(), usage.window()), (3, 3, Some(Duration::from_secs(1))));
}

#[test]
fn sizes_are_validated() {
    let too_large = SlidingLog::new(Quota::per_second((1 << 24) + 1)).unwrap_err();
    assert_eq!(too_large.to_string(), "limit is 16777217, it must be at most 16777216 (2^24, of a sliding log)");
    let unlimited = SlidingLog::new(Quota::UNLIMITED).unwrap_err();
    assert_eq!(unlimited.to_string(), "limit is unlimited, it must be at most 16777216 (2^24, of a sliding log)");
    let clock = ManualClock::new();
    let none = log(Quota::per_second(0), &clock);
    assert!(none.check_n(0).is_ok());
    assert!(none.check().unwrap_err().exceeds_burst());
    assert_eq!((none.peek().limit(), none.peek().used()), (0, 0));
    let some = log(Quota::per_second(5).burst(100), &clock);
    assert!(some.check_n(6).unwrap_err().exceeds_burst());
    assert!(some.check_n(u32::MAX).unwrap_err().exceeds_burst());
    assert_eq!(some.check_n(5).unwrap().remaining(), 0);
    assert!(some.check_n(0).is_ok());
    let largest = log(Quota::per_second(1 << 24), &clock);
    assert!(largest.check_n(1 << 24).is_ok());
    assert_eq!(largest.check().unwrap_err().retry_after(), Some(Duration::from_secs(1)));
    clock.advance(Duration::from_secs(1));
    assert_eq!(largest.check().unwrap().remaining(), (1 << 24) - 1);
}

#[test]
fn window_can_be_changed_but_the_limit_is_fixed() {
    let clock = ManualClock::new();
    let limiter = log(Quota::per_second(2), &clock);
    limiter.check().unwrap();
    clock.advance(Duration::from_millis(500));
    limiter.check().unwrap();
    assert_eq!(limiter.set_quota(Quota::per_second(3)), Err(SetQuotaError::FixedLimit));
    // The first token is half a window old, and stays so.
    limiter.set_quota(Quota::per_minute(2)).unwrap();
    let wait = limiter.check().unwrap_err().retry_after().unwrap();
    assert!((Duration::from_secs(30)..Duration::from_millis(30_001)).contains(&wait), "{wait:?}");
    limiter.set_quota(Quota::UNLIMITED).unwrap();
    assert_eq!(limiter.check_n(u32::MAX).unwrap().remaining(), u32::MAX);
    assert_eq!((limiter.peek().used(), limiter.peek().window()), (0, None));
    limiter.set_quota(Quota::per_minute(2)).unwrap();
    assert!(limiter.check().is_err());
}

#[test]
fn log_rolls_back_tokens_that_are_still_the_last() {
    let clock = ManualClock::new();
    let both = LimitSet::with_algorithms(
        [Quota::per_second(5), Quota::per_hour(2)].map(|quota| SlidingLog::new(quota).unwrap()),
        &clock,
    );
    for round in 0..40 {
        assert_eq!(both.check_n(3).unwrap_err().index(), 1, "the call exceeds the second limit");
        assert_eq!(both.peek().map(|usage| usage.used()), [0, 0], "{round}");
        clock.advance_ticks(round % 3);
    }
    both.check_n(2).unwrap();
    for _ in 0..40 {
        assert_eq!(both.check_n(3).unwrap_err().index(), 1);
        assert_eq!(both.check_n(4).unwrap_err().index(), 1, "both refuse, the second for ever");
    }
    clock.advance(Duration::from_secs(1));
    assert_eq!(both.peek()[0].used(), 0);
    assert!(both.check().is_err());
}

/// Two windows after the step everything has recovered.
#[test]
fn log_admits_again_within_two_windows_of_a_step_back() {
    for back in [0, 1, 1_500, 2_000, 3_600_000] {
        let clock = ManualClock::with_frequency(1_000);
        clock.set_ticks(1 << 40);
        let limiter = log(Quota::per_second(5), &clock);
        limiter.check_n(3).unwrap();
        clock.step_back(Duration::from_millis(back));
        limiter.check_n(2).unwrap();
        assert!(limiter.check().is_err());
        clock.advance(Duration::from_secs(1));
        _ = limiter.check_n(2);
        assert!(limiter.check_n(4).is_err(), "no token is credited twice");
        clock.advance(Duration::from_secs(1));
        assert!(limiter.check_n(2).is_ok() || back == 1_500, "{back}");
        clock.advance(Duration::from_secs(1));
        assert!(limiter.check_n(3).is_ok(), "{back}");
    }
}

/// This holds for any position of the log's ring.
#[test]
fn windows_have_their_limit_again_after_a_step_back() {
    for taken in 0..30 {
        let clock = ManualClock::with_frequency(1_000);
        clock.set_ticks(1 << 40);
        let limiter = log(Quota::per_second(5), &clock);
        for _ in 0..taken {
            limiter.check().unwrap();
            clock.advance(Duration::from_millis(200));
        }
        clock.step_back(Duration::from_hours(1));
        assert!(limiter.check_n(5).is_err() || taken == 0, "some tokens are from the future");
        clock.advance(Duration::from_secs(1));
        for window in 0..12 {
            clock.advance(Duration::from_secs(1));
            assert!(limiter.check_n(5).is_ok() && limiter.check().is_err(), "window {window} after {taken} tokens");
        }
    }
}

/// Threads race on a clock that moves between calls.
///
/// Allowed calls are counted by the readings before and after each of them.
#[test]
fn racing_threads_stay_in_every_window() {
    // From a ring that wraps with every call to one that holds many calls.
    for (limit, window) in [(1, 2), (1, 40), (2, 9), (3, 100), (7, 1_000)] {
        race(limit, window);
    }
}

fn race(limit: u32, window: u64) {
    let clock = ManualClock::new();
    let limiter = log(Quota::per(limit, Duration::from_nanos(window)).unwrap(), &clock);
    let calls = AtomicU64::new(0);
    let work = |n: u32| {
        let mut taken = Vec::new();
        while calls.fetch_add(1, Ordering::Relaxed) < 100_000 {
            let before = clock.now();
            if limiter.check_n(n).is_ok() {
                taken.push((before, clock.now(), n));
            }
            clock.advance_ticks(u64::from(n));
        }
        taken
    };
    let mut taken: Vec<_> = std::thread::scope(|scope| {
        let costs = [1, 1, 2, 3].map(|n: u32| n.min(limit));
        let workers: Vec<_> = costs.into_iter().map(|n| scope.spawn(move || work(n))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(taken.len() > 500, "{}", taken.len());
    // Counts the tokens that were certainly taken in the window that ends with each call.
    taken.sort_by_key(|&(_, after, _)| after);
    for (index, &(_, end, _)) in taken.iter().enumerate() {
        let surely = |&&(before, _, _): &&(u64, u64, u32)| before + window > end;
        let inside: u32 = taken[..=index].iter().rev().take(100).filter(surely).map(|&(_, _, n)| n).sum();
        assert!(inside <= limit, "{inside} of {limit} in the window before {end}");
    }
}

/// Several limits roll back while others check.
///
/// No token is created, and after the race none is missing for longer than a window.
#[test]
fn racing_roll_backs_return_each_token_once() {
    let clock = ManualClock::new();
    let limits = [SlidingLog::new(Quota::per_second(50)).unwrap(), SlidingLog::new(Quota::per_second(5)).unwrap()];
    let both = LimitSet::with_algorithms(limits, &clock);
    for _ in 0..2_000 {
        let allowed: u32 = std::thread::scope(|scope| {
            let work = |n: u32| (0..8).filter(|_| both.check_n(n).is_ok()).count() as u32 * n;
            let workers: Vec<_> = [1, 2, 6].into_iter().map(|n| scope.spawn(move || work(n))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        let [first, second] = both.peek();
        assert_eq!(allowed, second.used());
        assert!(first.used() >= second.used());
        assert!(allowed >= 4, "{allowed}");
        clock.advance(Duration::from_secs(1));
        assert_eq!(both.peek().map(|usage| usage.used()), [0, 0]);
    }
}

#[test]
fn sliding_log_serves_as_an_algorithm() {
    fn limit<A: Algorithm>(algorithm: A) -> u32 {
        RateLimiter::with_algorithm(algorithm, ManualClock::new()).peek().limit()
    }
    let quota = Quota::per_hour(4);
    assert_eq!(limit(FixedWindow::new(quota)), limit(SlidingLog::new(quota).unwrap()));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(100) })]

    /// Never late, and at most a tick early; exact where a window is a whole number of ticks.
    #[test]
    fn log_matches_its_model(
        limit in 0..20u32,
        nanos in prop_oneof![Just(1_000u64), Just(1_000_000_000), Just(86_400_000_000_000), 1_000..10_000_000_000_000u64],
        frequency in prop_oneof![3 => Just(1_000_000_000u64), 1 => Just(32_768), 2 => 1_000..4_000_000_000u64],
        start: u64,
        moves in proptest::collection::vec(
            (prop_oneof![2 => 0..20u64, 1 => Just(1u64 << 16), 6 => 0..1u64 << 15, 1 => 0..1u64 << 18], 0..6u32, any::<bool>()),
            1..200,
        ),
    ) {
        let quota = Quota::per(limit, Duration::from_nanos(nanos)).unwrap();
        let mut model = Log::new(quota, frequency);
        prop_assume!(model.ticks() >= 4);
        let early = i128::from(!model.is_aligned());
        let clock = ManualClock::with_frequency(frequency);
        clock.set_ticks(start.min(u64::MAX - 1));
        let limiter = log(quota, &clock);
        let mut tick = 0i128;
        for (parts, n, few) in moves {
            // Some ticks, or some fraction of a window.
            let by = if few && parts < 20 { i128::from(parts) } else { (model.ticks() * i128::from(parts)) >> 16 };
            tick += by;
            clock.advance_ticks(u64::try_from(by).unwrap());
            match limiter.check_n(n) {
                Ok(allowed) => {
                    prop_assert!(model.allows(tick + early, n), "{n} at {tick} of {model:?}");
                    model.take(tick, n);
                    let left = (limit - allowed.remaining()) as usize;
                    prop_assert!((model.used(tick + early)..=model.used(tick)).contains(&left), "{left} of {model:?}");
                }
                Err(denied) => {
                    prop_assert!(!model.allows(tick, n), "{n} at {tick} of {model:?}");
                    prop_assert_eq!(denied.exceeds_burst(), n > limit);
                    if let Some(wait) = denied.retry_after() {
                        // Rounding down undoes the rounding up to nanoseconds.
                        let ticks = i128::try_from(wait.as_nanos() * u128::from(frequency) / 1_000_000_000).unwrap();
                        // A frequency is passed on with 26 significant bits, rounded down.
                        let slack = (ticks >> 24) + 1 + i128::from(frequency / 1_000_000_001);
                        let exact = frequency == 1_000_000_000;
                        prop_assert!(model.allows(tick + ticks + early, n), "{ticks} suffice");
                        let shorter = ticks - 1 - if exact { 0 } else { slack + 1 };
                        prop_assert!(shorter < 0 || !model.allows(tick + shorter, n), "{shorter} suffice too, of {ticks}");
                    }
                }
            }
        }
    }
}
