//! A server's limit, read by its client.

use damper::wire::{self, RateLimitHeaders, RateLimitStatus};
use damper::{ManualClock, Quota, RateLimiter};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECOND: Duration = Duration::from_secs(1);

/// The tokens left, the seconds until the reset, the limit, and its window in seconds.
type Read = (u64, Option<u64>, Option<u64>, Option<u64>);

fn read(lines: &[(&'static str, &str)]) -> Option<Read> {
    let mut all = HeaderMap::new();
    for (name, value) in lines {
        all.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    let status = RateLimitStatus::in_headers(&all)?;
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
    Some((status.remaining, seconds(status.resets_in), status.limit, seconds(status.window)))
}

#[test]
fn draft_headers_are_read() {
    for (limit, policy, expected) in [
        (r#""default";r=50;t=30"#, r#""default";q=100;w=60"#, (50, Some(30), Some(100), Some(60))),
        (r#""default";r=50"#, r#""default";q=100"#, (50, None, Some(100), None)),
        (r#""default";r=0;t=0;pk=:Y2xpZW50:;extra=?1"#, r#""other";q=1"#, (0, Some(0), None, None)),
        // The last of two parameters with the same key counts.
        (r#""default";r=5;r=7"#, r#""default";q=1;q=2"#, (7, None, Some(2), None)),
        (r#""a \"quoted\" name";r=1"#, r#""a \"quoted\" name";q=9"#, (1, None, Some(9), None)),
        (r#""default";r=999999999999999"#, r#""default";q=0"#, (999_999_999_999_999, None, Some(0), None)),
    ] {
        assert_eq!(read(&[("ratelimit", limit), ("ratelimit-policy", policy)]), Some(expected), "{limit}");
    }
}

#[test]
fn limit_with_the_fewest_requests_left_is_read() {
    let policies = r#""burst";q=100;w=60, "daily";q=1000;w=86400, "bytes";q=5;qu="content-bytes""#;
    for (limits, expected) in [
        (r#""burst";r=3;t=12, "daily";r=500;t=70000"#, (3, Some(12), Some(100), Some(60))),
        (r#""burst";r=30;t=12, "daily";r=5;t=70000"#, (5, Some(70_000), Some(1_000), Some(86_400))),
        (r#""burst";r=0;t=12, "daily";r=0;t=70000"#, (0, Some(70_000), Some(1_000), Some(86_400))),
        (r#""bytes";r=1;t=9, "burst";r=3;t=12"#, (3, Some(12), Some(100), Some(60))),
    ] {
        assert_eq!(read(&[("ratelimit-policy", policies), ("ratelimit", limits)]), Some(expected), "{limits}");
    }
    // A limit on concurrent requests has no pace.
    assert_eq!(read(&[("ratelimit", r#""bytes";r=1"#), ("ratelimit-policy", policies)]), None);
    // Two header lines form one list.
    let lines = [("ratelimit", r#""daily";r=9"#), ("ratelimit", r#""burst";r=8"#), ("ratelimit-policy", policies)];
    assert_eq!(read(&lines), Some((8, None, Some(100), Some(60))));
}

#[test]
fn malformed_field_is_ignored_as_a_whole() {
    let long = (0..33).map(|name| format!(r#""{name}";r=1"#)).collect::<Vec<_>>().join(", ");
    for limit in [
        "",
        r#""default""#,
        r#""default";t=1"#,
        r#""default";r=-1"#,
        r#""default";r=1.5"#,
        r#""default";r="1""#,
        r#""default";r"#,
        r#""default";r=1;t=-1"#,
        r#""default";r=1;t=soon"#,
        r#""default";r=1;pk="text""#,
        r#""default";r=1000000000000000"#,
        "default;r=1",
        "limit=100, remaining=50, reset=5",
        r#"("default");r=1"#,
        r#""good";r=1, "bad""#,
        r#""good";r=1,"#,
        r#""good;r=1"#,
        &long,
    ] {
        assert_eq!(read(&[("ratelimit", limit)]), None, "{limit}");
        // A malformed header counts as absent.
        assert_eq!(read(&[("ratelimit", limit), ("x-ratelimit-remaining", "4")]), Some((4, None, None, None)));
    }
    for policy in ["", r#""default""#, r#""default";q=1;w=0"#, r#""default";q=1;qu=requests"#, r#""default";q=1, 7"#] {
        let lines = [("ratelimit", r#""default";r=1"#), ("ratelimit-policy", policy)];
        assert_eq!(read(&lines), Some((1, None, None, None)), "{policy}");
    }
}

#[test]
fn custom_headers_are_read() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let date = |name, ahead: u64| [("x-ratelimit-remaining", "1".to_owned()), (name, (now + ahead).to_string())];
    let [remaining, reset] = date("x-ratelimit-reset", 100);
    let (_, resets_in, ..) = read(&[(remaining.0, &remaining.1), (reset.0, &reset.1)]).unwrap();
    assert!((95..=100).contains(&resets_in.unwrap()), "{resets_in:?} until a date");
    for (remaining, reset, limit, expected) in [
        ("7", "30", "60", Some((7, Some(30), Some(60), None))),
        (" 7 ", "0", "x", Some((7, Some(0), None, None))),
        ("7", "-1", "60, 60;w=1", Some((7, None, Some(60), None))),
        ("7", "999999999", "60", Some((7, Some(999_999_999), Some(60), None))),
        // A date in the past: 2001.
        ("7", "1000000000", "60", Some((7, Some(0), Some(60), None))),
        ("", "30", "60", None),
        ("+7", "30", "60", None),
        ("7.5", "30", "60", None),
        ("99999999999999999999", "30", "60", None),
    ] {
        let lines = [("x-ratelimit-remaining", remaining), ("x-ratelimit-reset", reset), ("x-ratelimit-limit", limit)];
        assert_eq!(read(&lines), expected, "{lines:?}");
    }
    assert_eq!(
        read(&[("x-ratelimit-remaining", "1"), ("x-ratelimit-remaining", "2")]),
        None,
        "the values contradict each other"
    );
    // Relative to the response's date, whatever the local clock shows.
    let of_date = [("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "1700000060")];
    let of_date = [&of_date[..], &[("date", "Tue, 14 Nov 2023 22:13:20 GMT")]].concat();
    assert_eq!(read(&of_date), Some((1, Some(60), None, None)));
    assert_eq!(read(&[]), None);
}

#[test]
fn pace_uses_up_the_remaining_tokens() {
    for (left, pace) in [
        ("r=20;t=60", Some(3 * SECOND)),
        ("r=0;t=60", Some(60 * SECOND)),
        ("r=1;t=60", Some(60 * SECOND)),
        ("r=3", None),
    ] {
        let mut all = HeaderMap::new();
        all.insert(wire::RATE_LIMIT, HeaderValue::from_str(&format!("\"default\";{left}")).unwrap());
        assert_eq!(RateLimitStatus::in_headers(&all).unwrap().pace(), pace, "{left}");
    }
}

proptest! {
    /// Headers written by damper's servers are read back, in either form.
    #[test]
    fn written_headers_are_read_back(rate in 1..1_000_u32, burst in 1_000..100_000_u32, taken in 0..1_000_u32, name in "[ -~]{0,12}") {
        let quota = Quota::per_second(rate).burst(burst);
        let limiter = RateLimiter::with_clock(quota, ManualClock::new());
        let allowed = limiter.check_n(taken).unwrap();
        let (mut draft, mut custom) = (HeaderMap::new(), HeaderMap::new());
        RateLimitHeaders::new(&name).unwrap().write(&mut draft, quota, allowed.remaining(), allowed.resets_in());
        wire::x_rate_limit(&mut custom, quota, allowed.remaining(), allowed.resets_in());
        let resets_in = allowed.resets_in().map(|time| Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0)));
        for status in [draft, custom].map(|headers| RateLimitStatus::in_headers(&headers).unwrap()) {
            prop_assert_eq!(status.remaining, u64::from(burst - taken));
            prop_assert_eq!(status.limit, Some(u64::from(burst)));
            prop_assert_eq!(status.resets_in, resets_in);
        }
    }

    /// No bytes make the reader panic.
    #[test]
    fn no_header_panics(value in proptest::collection::vec(any::<u8>(), 0..64), policy in "[ -~]{0,64}") {
        let mut all = HeaderMap::new();
        for (name, bytes) in [(wire::RATE_LIMIT, &value[..]), (wire::RATE_LIMIT_POLICY, policy.as_bytes()), (wire::X_RATE_LIMIT_REMAINING, &value[..])] {
            if let Ok(value) = HeaderValue::from_bytes(bytes) {
                all.append(name, value);
            }
        }
        let status = RateLimitStatus::in_headers(&all);
        prop_assert!(status.is_none_or(|status| status.pace().is_none_or(|pace| Some(pace) <= status.resets_in)));
    }
}

/// The headers of services, each with a response's `Date` of 2024-03-01 00:00:00.
#[test]
fn headers_of_older_drafts_and_of_services_are_read() {
    let cases: [(&[(&str, &str)], _); 9] = [
        (
            &[("ratelimit-remaining", "7"), ("ratelimit-limit", "10, 10;w=60"), ("ratelimit-reset", "30")],
            (7, Some(30_000), Some(10)),
        ),
        (&[("ratelimit-remaining", "3")], (3, None, None)),
        (
            &[("x-rate-limit-remaining", "7"), ("x-rate-limit-limit", "15"), ("x-rate-limit-reset", "1709251230")],
            (7, Some(30_000), Some(15)),
        ),
        (
            &[("x-ratelimit-remaining", "7"), ("x-ratelimit-limit", "60"), ("x-ratelimit-reset", "1709251230")],
            (7, Some(30_000), Some(60)),
        ),
        (
            &[
                ("x-ratelimit-remaining-requests", "59"),
                ("x-ratelimit-limit-requests", "60"),
                ("x-ratelimit-reset-requests", "6m0s"),
                ("x-ratelimit-remaining-tokens", "5"),
            ],
            (59, Some(360_000), Some(60)),
        ),
        (
            &[
                ("x-ratelimit-remaining-requests", "59"),
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-reset-tokens", "20ms"),
            ],
            (0, Some(20), None),
        ),
        (
            &[
                ("anthropic-ratelimit-requests-remaining", "9"),
                ("anthropic-ratelimit-requests-limit", "50"),
                ("anthropic-ratelimit-requests-reset", "2024-03-01T00:00:30Z"),
            ],
            (9, Some(30_000), Some(50)),
        ),
        (
            &[
                ("anthropic-ratelimit-output-tokens-remaining", "0"),
                ("anthropic-ratelimit-output-tokens-reset", "2024-03-01T00:00:05Z"),
            ],
            (0, Some(5_000), None),
        ),
        (
            &[("ratelimit-remaining", "-1"), ("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", "soon")],
            (7, None, None),
        ),
    ];
    for (fields, expected) in cases {
        let mut all = HeaderMap::new();
        all.insert("date", HeaderValue::from_static("Fri, 01 Mar 2024 00:00:00 GMT"));
        for (name, value) in fields {
            all.insert(*name, HeaderValue::from_static(value));
        }
        let status = RateLimitStatus::in_headers(&all).unwrap_or_else(|| panic!("{fields:?}"));
        let millis = status.resets_in.map(|time| time.as_millis());
        assert_eq!((status.remaining, millis, status.limit), expected, "{fields:?}");
    }
}

proptest! {
    /// Nothing in the place of a reset panics or hides what remains.
    #[test]
    fn malformed_resets_are_ignored(text in "\\PC*", like in "[0-9TZ:.+hmsµ -]{0,30}", seconds in 0..1_000_000_000u64) {
        let read = |reset: &str| {
            let mut all = HeaderMap::new();
            all.insert("ratelimit-remaining", HeaderValue::from_static("7"));
            all.insert("ratelimit-reset", HeaderValue::from_bytes(reset.as_bytes()).ok()?);
            RateLimitStatus::in_headers(&all)
        };
        for reset in [&text, &like] {
            prop_assert!(read(reset).is_none_or(|status| status.remaining == 7));
        }
        for reset in [seconds.to_string(), format!("{seconds}s")] {
            prop_assert_eq!(read(&reset).unwrap().resets_in, Some(Duration::from_secs(seconds)));
        }
    }
}
