//! Durations, and the rounding of usage.

use damper::limit::{Algorithm, FixedWindow, LeakyBucket, SlidingCounter, SlidingLog};
use damper::mesh::{MeshDuration, RateLimitUsage, TimeUnit, Warnings};
use damper::{ManualClock, Quota, RateLimiter, TokenBucket};
use proptest::prelude::*;
use std::time::Duration;

#[test]
fn computed_durations_have_the_largest_exact_unit() {
    let up = |nanos| MeshDuration::rounded_up(Duration::from_nanos(nanos)).to_string();
    let down = |nanos| MeshDuration::rounded_down(Duration::from_nanos(nanos)).to_string();
    let wait = |nanos| MeshDuration::wait(Duration::from_nanos(nanos)).to_string();
    assert_eq!((up(0), down(0), wait(0)), ("0 millisecond".into(), "0 millisecond".into(), "0 millisecond".into()));
    assert_eq!((up(1), down(999_999)), ("1 millisecond".into(), "0 millisecond".into()));
    assert_eq!((up(60_000_000_000), up(3_600_000_000_000)), ("1 minute".into(), "1 hour".into()));
    assert_eq!(up(90_000_000_000), "90 second");
    assert_eq!((wait(999_000_001), wait(1_000_000_001)), ("1 second".into(), "2 second".into()));
    assert_eq!((wait(1_500_000), wait(59_000_000_001)), ("2 millisecond".into(), "1 minute".into()));
}

#[test]
fn durations_that_came_in_stay_as_they_are() {
    for text in [r#"{"value":60,"unit":"second"}"#, r#"{"value":0,"unit":"hour"}"#] {
        let read: MeshDuration = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
    let most = u64::MAX / 3_600_000;
    assert!(MeshDuration::new(most, TimeUnit::Hour).is_some());
    assert!(MeshDuration::new(most + 1, TimeUnit::Hour).is_none());
}

#[test]
fn usage_of_a_token_bucket_is_that_of_its_burst() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(3).burst(10), &clock);
    limiter.check_n(10).unwrap();
    limiter.charge(5);
    let usage = RateLimitUsage::of(&limiter.peek()).unwrap();
    assert_eq!((usage.limit, usage.used, usage.remaining), (10, 10, 0), "in debt");
    assert_eq!(usage.window.to_string(), "3334 millisecond", "rounded up where no unit is exact");
    assert_eq!(usage.resets_in.to_string(), "5 second", "until the bucket is full");
}

#[test]
fn limit_and_window_without_a_burst_are_those_of_the_quota() {
    let usage = |quota| RateLimitUsage::of(&RateLimiter::with_clock(quota, ManualClock::new()).peek()).unwrap();
    for (quota, limit, window) in [
        (Quota::per_minute(7), 7, "1 minute"),
        (Quota::per_second(3), 3, "1 second"),
        (Quota::per_hour(1_000), 1_000, "1 hour"),
        (Quota::per(11, Duration::from_hours(24)).unwrap(), 11, "24 hour"),
    ] {
        let usage = usage(quota);
        assert_eq!((usage.limit, usage.window.to_string()), (limit, window.to_owned()));
    }
}

#[test]
fn sliding_windows_reset_when_all_tokens_have_expired() {
    fn resets_in<A: Algorithm>(algorithm: A) -> [String; 3] {
        let clock = ManualClock::new();
        let limiter = RateLimiter::with_algorithm(algorithm, &clock);
        let resets_in = || RateLimitUsage::of(&limiter.peek()).unwrap().resets_in.to_string();
        let unused = resets_in();
        limiter.check_n(4).unwrap();
        clock.advance(Duration::from_secs(20));
        let first = resets_in();
        limiter.check().unwrap();
        [unused, first, resets_in()]
    }
    let log = resets_in(SlidingLog::new(Quota::per_minute(10)).unwrap());
    assert_eq!(log, ["0 millisecond", "40 second", "1 minute"]);
    let [unused, first, second] = resets_in(SlidingCounter::new(Quota::per_minute(10)).unwrap());
    // The estimate includes the previous window until the present one ends.
    assert_eq!((&*unused, &*first, &*second), ("0 millisecond", "100 second", "100 second"));
    let fixed = resets_in(FixedWindow::new(Quota::per_minute(10)));
    assert_eq!(fixed[1..], ["40 second", "40 second"], "a fixed window resets at its end");
}

/// Compares a report's figures after each step, which takes tokens or lets milliseconds pass.
fn figures_agree<A: Algorithm>(algorithm: A, steps: &[(u32, u64)]) -> Result<(), TestCaseError> {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_algorithm(algorithm, &clock);
    for (taken, millis) in steps {
        let _ = limiter.check_n(limiter.peek().remaining().min(*taken));
        let usage = RateLimitUsage::of(&limiter.peek()).unwrap();
        prop_assert_eq!(usage.used + usage.remaining, usage.limit);
        prop_assert!(usage.used == 0 || usage.resets_in.value() > 0, "{:?}", usage);
        clock.advance(usage.resets_in.duration());
        let reset = RateLimitUsage::of(&limiter.peek()).unwrap();
        prop_assert_eq!(reset.used, 0, "after {:?}", usage.resets_in);
        let _ = limiter.check_n(limiter.peek().remaining().min(*taken));
        clock.advance(Duration::from_millis(*millis));
    }
    Ok(())
}

#[test]
fn limits_without_an_end_are_reported() {
    let limiter = RateLimiter::with_clock(Quota::per_second(0).burst(4), ManualClock::new());
    limiter.check_n(3).unwrap();
    let usage = RateLimitUsage::of(&limiter.peek()).unwrap();
    assert_eq!((usage.used, usage.window, usage.resets_in), (3, MeshDuration::NEVER, MeshDuration::NEVER));
    let unlimited = RateLimiter::with_clock(Quota::UNLIMITED, ManualClock::new());
    assert_eq!(RateLimitUsage::of(&unlimited.peek()), None);
}

#[test]
fn lowest_threshold_that_is_reached_warns() {
    let warnings = Warnings::none().at(50, "half").at(0, "nothing left").at(10, "little");
    let text = |remaining| warnings.text(remaining, 200);
    assert_eq!(
        [text(200), text(101), text(100), text(21), text(20)],
        [None, None, Some("half"), Some("half"), Some("little")]
    );
    assert_eq!((text(1), text(0)), (Some("little"), Some("nothing left")));
    assert_eq!(Warnings::none().text(0, 1), None);
}

proptest! {
    #[test]
    fn used_and_remaining_are_the_limit_until_the_reset(
        limit in 1u32..200, steps in proptest::collection::vec((0u32..300, 0u64..200_000), 1..20),
    ) {
        let quota = Quota::per_minute(limit);
        figures_agree(TokenBucket::new(quota), &steps)?;
        figures_agree(TokenBucket::new(quota.burst(limit / 2 + 1)), &steps)?;
        figures_agree(FixedWindow::new(quota), &steps)?;
        figures_agree(LeakyBucket::new(quota), &steps)?;
        figures_agree(SlidingCounter::new(quota).unwrap(), &steps)?;
        figures_agree(SlidingLog::new(quota).unwrap(), &steps)?;
    }

    #[test]
    fn durations_are_rounded_exactly_and_in_one_direction(nanos in 0u64..=1 << 60) {
        let exact = Duration::from_nanos(nanos);
        let (up, down, wait) = (MeshDuration::rounded_up(exact), MeshDuration::rounded_down(exact), MeshDuration::wait(exact));
        prop_assert!(up.duration() >= exact && up.duration().saturating_sub(exact) < Duration::from_millis(1));
        prop_assert!(down.duration() <= exact && exact.saturating_sub(down.duration()) < Duration::from_millis(1));
        let step = if exact < Duration::from_secs(1) { Duration::from_millis(1) } else { Duration::from_secs(1) };
        prop_assert!(wait.duration() >= exact && wait.duration().saturating_sub(exact) < step);
        for duration in [up, down, wait] {
            let read: MeshDuration = serde_json::from_value(serde_json::to_value(duration).unwrap()).unwrap();
            prop_assert_eq!(read, duration);
        }
    }
}
