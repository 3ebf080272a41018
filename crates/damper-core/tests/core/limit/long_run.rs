//! A year of simulated time under saturation admits exactly the tokens of the rate.
//!
//! Rounding neither loses nor creates a token.

use crate::models::part_of::part_of;
use damper::{ManualClock, Quota, RateLimiter};
use std::time::Duration;

const NANOS: u128 = 1_000_000_000;
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Returns a fifth of a span by default, and all of it in `.ci/run`.
fn part(span: Duration) -> Duration {
    span / 5 * part_of(5)
}

/// Returns the whole tokens that `quota` refills in this many nanoseconds.
fn brought(quota: Quota, nanos: u128) -> u128 {
    u128::from(quota.limit()) * nanos / quota.window().as_nanos()
}

/// Takes `n` tokens at a time, each at the moment named by the previous refusal.
fn when_told(quota: Quota, n: u32, span: Duration) {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(quota, &clock);
    let (mut passed, mut admitted) = (Duration::ZERO, 0);
    loop {
        match limiter.check_n(n) {
            Ok(_) => admitted += u128::from(n),
            Err(denied) => {
                let wait = denied.retry_after().expect("the next tokens come");
                if passed + wait > span {
                    break;
                }
                passed += wait;
                clock.advance(wait);
            }
        }
    }
    // Fewer than `n` tokens arrived since the last ones.
    let due = u128::from(quota.burst_size()) + brought(quota, span.as_nanos());
    assert_eq!(admitted, due - due % u128::from(n), "{quota}");
}

/// Takes all available tokens every `stride`, plus a bit to shift it against the rhythm of the tokens.
///
/// A token of a fractional number of ticks may arrive a tick early, but never late, and that does not add up.
fn in_strides(quota: Quota, stride: Duration) {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(quota, &clock);
    let burst = u128::from(quota.burst_size());
    let mut admitted = u128::from(limiter.take_up_to(u32::MAX));
    assert_eq!(admitted, burst);
    let (mut passed, mut odd) = (Duration::ZERO, 0);
    while passed < YEAR {
        odd = (odd + 7_919) % 1_000_003;
        let stride = stride + Duration::from_nanos(odd);
        assert!(brought(quota, stride.as_nanos()) < burst, "nothing overflows");
        passed += stride;
        clock.advance(stride);
        admitted += u128::from(limiter.take_up_to(u32::MAX));
        let due = |tick| burst + brought(quota, passed.as_nanos() + tick);
        assert!((due(0)..=due(1)).contains(&admitted), "{quota} after {passed:?}: {admitted}, due {}", due(0));
    }
}

#[test]
fn one_an_hour_for_a_year() {
    when_told(Quota::per_hour(1), 1, YEAR);
}

/// A token takes 0.8 s, so there are 39,420,000 in a year.
///
/// Taken ten at a time, which runs for a second or two.
#[test]
fn forty_five_hundred_an_hour_for_a_year() {
    when_told(Quota::per_hour(4_500).burst(100), 10, part(YEAR));
}

#[test]
fn forty_five_hundred_an_hour_for_a_month_token_by_token() {
    when_told(Quota::per_hour(4_500), 1, part(Duration::from_hours(24 * 30)));
}

#[test]
fn whole_and_fractional_numbers_of_nanoseconds_a_token() {
    in_strides(Quota::per_hour(1).burst(5), Duration::from_hours(2));
    in_strides(Quota::per_second(3).burst(5_000), Duration::from_mins(10));
    in_strides(Quota::per_second(7).burst(5_000), Duration::from_mins(5));
    in_strides(Quota::per_hour(4_500).burst(5_000), Duration::from_mins(20));
}

/// 0.3 tokens a tick are 9,460,800,000,000,000 in a year.
#[test]
fn three_hundred_million_a_second_in_strides() {
    in_strides(Quota::per_second(300_000_000).burst(u32::MAX), Duration::from_secs(14));
}

/// The rate also holds in strides of at most a millisecond.
///
/// Rounding would lose most there.
#[test]
fn three_hundred_million_a_second_in_small_strides() {
    let quota = Quota::per_second(300_000_000).burst(1_000_000);
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(quota, &clock);
    let mut admitted = u128::from(limiter.take_up_to(u32::MAX));
    let mut passed = 0;
    for call in 0..1_000_000_u64 {
        let stride = 1 + call * 7_919 % 1_999;
        passed += u128::from(stride);
        clock.advance_ticks(stride);
        admitted += u128::from(limiter.take_up_to(u32::MAX));
    }
    let due = |tick| u128::from(quota.burst_size()) + brought(quota, passed + tick);
    assert!((due(0)..=due(1)).contains(&admitted), "{admitted} in {passed} ns, due {}", due(0));
    assert!(passed > NANOS / 2, "more than half a second");
}
