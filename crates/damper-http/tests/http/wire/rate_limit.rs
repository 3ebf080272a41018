//! Rate limit headers.

use damper::wire::{
    self, RATE_LIMIT, RATE_LIMIT_POLICY, RateLimitHeaders, X_RATE_LIMIT_LIMIT, X_RATE_LIMIT_REMAINING,
    X_RATE_LIMIT_RESET,
};
use damper::{ManualClock, Quota, RateLimiter};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn written(name: &str, quota: Quota, remaining: u32, resets_in: Option<Duration>) -> [String; 2] {
    let mut headers = HeaderMap::new();
    RateLimitHeaders::new(name).unwrap().write(&mut headers, quota, remaining, resets_in);
    [RATE_LIMIT_POLICY, RATE_LIMIT].map(|header| headers[header].to_str().unwrap().to_owned())
}

#[test]
fn limit_adds_an_item_to_each_header() {
    let long = Quota::per(1, Duration::from_nanos(u64::MAX)).unwrap().burst(u32::MAX);
    for (quota, remaining, resets_in, policy, left) in [
        (Quota::per_minute(100), 50, Some(30 * SECOND), "q=100;w=60", "r=50;t=30"),
        (Quota::per_second(50).burst(100), 0, Some(Duration::from_millis(1_001)), "q=100;w=2", "r=0;t=2"),
        (Quota::per_second(3).burst(10), 10, Some(Duration::ZERO), "q=10;w=4", "r=10;t=0"),
        (Quota::per(10, Duration::from_millis(250)).unwrap(), 3, Some(Duration::from_nanos(1)), "q=40;w=1", "r=3;t=1"),
        (Quota::every(Duration::from_nanos(1_000_000_001)).unwrap(), 0, Some(SECOND), "q=1;w=2", "r=0;t=1"),
        (Quota::per_second(0).burst(5), 4, None, "q=5", "r=4"),
        (Quota::per_second(0), 0, None, "q=0", "r=0"),
        (Quota::per_second(u32::MAX), u32::MAX, Some(Duration::ZERO), "q=4294967295;w=1", "r=4294967295;t=0"),
        // RFC 9651 integers have at most 15 digits.
        (long, 0, Some(Duration::from_secs(999_999_999_999_999)), "q=4294967295", "r=0;t=999999999999999"),
        (long, 0, Some(Duration::from_secs(1_000_000_000_000_000)), "q=4294967295", "r=0"),
        (long, 0, Some(Duration::MAX), "q=4294967295", "r=0"),
    ] {
        let expected = [format!("\"default\";{policy}"), format!("\"default\";{left}")];
        assert_eq!(written("default", quota, remaining, resets_in), expected, "{quota}");
    }
}

/// If the burst refills in less than a second, `q` and `w` state the quota itself, rounded down.
#[test]
fn small_burst_is_written_as_its_quota() {
    let per = |limit, millis| Quota::per(limit, Duration::from_millis(millis)).unwrap();
    for (quota, policy) in [
        (Quota::per_second(1_000).burst(50), "q=1000;w=1"),
        (Quota::per_second(1_000).burst(999), "q=1000;w=1"),
        // From a second on, the burst and its refill time are as exact, and also state the burst.
        (Quota::per_second(1_000).burst(1_000), "q=1000;w=1"),
        (Quota::per_second(1_000).burst(2_000), "q=2000;w=2"),
        (Quota::per_second(1_000).burst(1_001), "q=1001;w=2"),
        (Quota::per_minute(100).burst(1), "q=100;w=60"),
        (Quota::per_minute(100).burst(2), "q=2;w=2"),
        (Quota::per_hour(1_000_000).burst(10), "q=1000000;w=3600"),
        // Windows of a fractional number of seconds: stated exactly if that is possible within a minute.
        (per(10, 250), "q=40;w=1"),
        (per(10, 250).burst(39), "q=40;w=1"),
        (per(10, 250).burst(40), "q=40;w=1"),
        (per(10, 250).burst(41), "q=41;w=2"),
        (per(1, 600), "q=5;w=3"),
        (per(10, 1_500).burst(1), "q=20;w=3"),
        (per(1_000, 61_500).burst(1), "q=1008;w=62"),
        // Otherwise over a minute, rounded down.
        (Quota::every(Duration::from_nanos(142_857_143)).unwrap(), "q=419;w=60"),
        // RFC 9651 integers have at most 15 digits, so the stated rate may be lower.
        (Quota::per(u32::MAX, Duration::from_nanos(1)).unwrap(), "q=999999999999999;w=1"),
        // With a burst of 0 no token is ever available, at any rate.
        (Quota::per_second(5).burst(0), "q=0"),
        (Quota::per_second(0).burst(5), "q=5"),
    ] {
        assert_eq!(written("default", quota, 0, None)[0], format!("\"default\";{policy}"), "{quota}");
    }
}

#[test]
fn several_limits_share_the_headers() {
    let mut headers = HeaderMap::new();
    for (name, quota) in [("second", Quota::per_second(10)), ("hour", Quota::per_hour(1_000))] {
        RateLimitHeaders::new(name).unwrap().write(&mut headers, quota, 7, Some(SECOND));
    }
    let items = |header: HeaderName| headers.get_all(header).iter().collect::<Vec<_>>();
    assert_eq!(items(RATE_LIMIT_POLICY), [r#""second";q=10;w=1"#, r#""hour";q=1000;w=3600"#]);
    assert_eq!(items(RATE_LIMIT), [r#""second";r=7;t=1"#, r#""hour";r=7;t=1"#]);
}

/// Tiers and live changes give a limit many quotas.
///
/// Each is written as if it were the only one.
#[test]
fn policy_is_that_of_the_quota_in_force() {
    let limit = RateLimitHeaders::default();
    for rate in (1..=40).chain(1..=40) {
        let mut headers = HeaderMap::new();
        limit.write(&mut headers, Quota::per_minute(rate), 0, None);
        assert_eq!(headers[RATE_LIMIT_POLICY], format!(r#""default";q={rate};w=60"#));
    }
}

#[test]
fn names_are_strings_of_structured_fields() {
    assert_eq!(RateLimitHeaders::default(), RateLimitHeaders::new("default").unwrap());
    assert_eq!(RateLimitHeaders::new("per client").unwrap().name(), "per client");
    assert_eq!(written(r#"a "b" \c"#, Quota::per_second(1), 1, None)[1], r#""a \"b\" \\c";r=1"#);
    assert_eq!(written("", Quota::per_second(1), 1, None)[1], r#""";r=1"#);
    for name in ["grün", "a\nb", "a\r\nSet-Cookie: b", "\0", "\x7f", "\t"] {
        let error = RateLimitHeaders::new(name).unwrap_err();
        assert_eq!(error.value(), name);
        assert_eq!(error.to_string(), format!("the name of a limit is {name:?}, it must be of printable ASCII only"));
    }
}

#[test]
fn refusal_resets_at_its_retry_after() {
    let quota = Quota::per_minute(4);
    let limiter = RateLimiter::with_clock(quota, ManualClock::new());
    limiter.check_n(4).unwrap();
    let denied = limiter.check().unwrap_err();
    let [_, left] = written("default", quota, denied.remaining(), denied.retry_after());
    assert_eq!(left, "\"default\";r=0;t=15");
    assert_eq!(wire::retry_after(denied.retry_after().unwrap()), "15");
}

#[test]
fn x_rate_limit_reports_one_limit() {
    let names = [X_RATE_LIMIT_LIMIT, X_RATE_LIMIT_REMAINING, X_RATE_LIMIT_RESET];
    let mut headers = HeaderMap::new();
    let written =
        |headers: &HeaderMap| names.clone().map(|name| headers.get_all(name).iter().cloned().collect::<Vec<_>>());
    wire::x_rate_limit(&mut headers, Quota::per_second(50).burst(100), 99, Some(Duration::from_millis(20)));
    assert_eq!(written(&headers), [["100"], ["99"], ["1"]]);
    wire::x_rate_limit(&mut headers, Quota::per_hour(1_000), 0, Some(Duration::MAX));
    assert_eq!(written(&headers), [["1000"], ["0"], ["18446744073709551615"]]);
    wire::x_rate_limit(&mut headers, Quota::per_second(0).burst(5), 4, None);
    assert_eq!(written(&headers), [vec!["5"], vec!["4"], vec![]]);
}

#[test]
fn unlimited_quota_writes_no_headers() {
    let mut headers = HeaderMap::new();
    for quota in [Quota::UNLIMITED, Quota::UNLIMITED.burst(5)] {
        RateLimitHeaders::default().write(&mut headers, quota, u32::MAX, Some(Duration::ZERO));
        wire::x_rate_limit(&mut headers, quota, u32::MAX, Some(Duration::ZERO));
    }
    assert!(headers.is_empty());
}

#[test]
fn full_header_map_stays_unchanged() {
    let mut headers = HeaderMap::new();
    for i in 0.. {
        let name = HeaderName::try_from(format!("x-{i}")).unwrap();
        if headers.try_insert(name, HeaderValue::from_static("")).is_err() {
            break;
        }
    }
    let full = headers.len();
    RateLimitHeaders::default().write(&mut headers, Quota::per_second(1), 1, None);
    wire::x_rate_limit(&mut headers, Quota::per_second(1), 1, Some(SECOND));
    assert_eq!(headers.len(), full);
}

proptest! {
    /// `q` tokens every `w` seconds never exceed the refill, and are hardly less unless `q` is the burst.
    #[test]
    fn written_rate_never_exceeds_the_quota(
        limit in 1..=u32::MAX,
        window in prop_oneof![1..=u64::from(u32::MAX), (1..100_000u64).prop_map(|millis| millis * 1_000_000)],
        burst in prop_oneof![1..=u32::MAX, 1..100u32],
    ) {
        let quota = Quota::per(limit, Duration::from_nanos(window)).unwrap().burst(burst);
        let [policy, _] = written("default", quota, 0, None);
        let (q, w) = policy.strip_prefix("\"default\";q=").unwrap().split_once(";w=").unwrap();
        let (q, w): (u128, u128) = (q.parse().unwrap(), w.parse().unwrap());
        let second = 1_000_000_000;
        let (limit, window) = (u128::from(limit), u128::from(window));
        prop_assert!(w > 0 && q * window <= limit * w * second, "no more");
        if u128::from(burst) * window < limit * second {
            prop_assert!(q >= u128::from(burst), "the burst fits in it");
            prop_assert!(q == 999_999_999_999_999 || q * 60 * window > 59 * limit * w * second, "and not much less");
        } else {
            prop_assert_eq!(q, u128::from(burst));
            prop_assert!(q * window > limit * (w - 1) * second, "and to the second");
        }
    }

    #[test]
    fn every_name_is_written_exactly_or_refused(name in any::<String>()) {
        match RateLimitHeaders::new(&name) {
            Ok(headers) => {
                prop_assert!(name.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
                let [policy, _] = written(headers.name(), Quota::per_second(1), 0, None);
                let written = policy.strip_prefix('"').unwrap().strip_suffix("\";q=1;w=1").unwrap();
                prop_assert_eq!(written.replace("\\\"", "\"").replace("\\\\", "\\"), name);
            }
            Err(error) => {
                prop_assert!(name.bytes().any(|byte| !(b' '..=b'~').contains(&byte)));
                prop_assert_eq!(error.value(), name);
            }
        }
    }
}
