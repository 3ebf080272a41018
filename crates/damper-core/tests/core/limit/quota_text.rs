//! The text form of a quota, against a slow model in rationals.

use damper::{ParseQuotaError, Quota};
use proptest::prelude::*;
use std::time::Duration;

/// Converts `digits/10^places` units to nanoseconds, if the result is a whole number.
///
/// It uses long multiplication of decimal strings.
fn model_window(number: &str, unit: u128) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let places = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let nanos = digits.checked_mul(unit)?;
    if nanos % places != 0 { None } else { u64::try_from(nanos / places).ok() }
}

const UNITS: [(&str, u128); 11] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("day", 86_400_000_000_000),
    ("minute", 60_000_000_000),
    ("hrs", 3_600_000_000_000),
    ("week", 604_800_000_000_000),
];

#[test]
fn documented_forms_are_parsed() {
    for (text, quota) in [
        ("100/s", Quota::per_second(100)),
        ("5000/h burst 100", Quota::per_hour(5_000).burst(100)),
        ("30/min burst 5 max_debt 50", Quota::per_minute(30).burst(5).max_debt(50)),
        ("30/min max_debt 50 burst 5", Quota::per_minute(30).burst(5).max_debt(50)),
        // The units of durations in configuration files.
        ("600/minute", Quota::per_minute(600)),
        ("600/m", Quota::per_minute(600)),
        ("50/sec", Quota::per_second(50)),
        ("50/5seconds burst 9", Quota::per(50, Duration::from_secs(5)).unwrap().burst(9)),
        ("5000/hour", Quota::per_hour(5_000)),
        ("7/d", Quota::per(7, Duration::from_hours(24)).unwrap()),
        ("7/0.5week", Quota::per(7, Duration::from_hours(84)).unwrap()),
        ("1/0.0000152587890625week", Quota::per(1, Duration::from_nanos(9_228_515_625)).unwrap()),
        ("1/5msec", Quota::per(1, Duration::from_millis(5)).unwrap()),
        ("1/5usec", Quota::per(1, Duration::from_micros(5)).unwrap()),
        ("1/5nanos", Quota::per(1, Duration::from_nanos(5)).unwrap()),
        ("1000/day", Quota::per(1_000, Duration::from_secs(86_400)).unwrap()),
        ("10/250ms", Quota::per(10, Duration::from_millis(250)).unwrap()),
        ("1/1.5s", Quota::every(Duration::from_millis(1_500)).unwrap()),
        ("0/s", Quota::per_second(0)),
        ("  7/us\t burst  9 \n", Quota::per(7, Duration::from_micros(1)).unwrap().burst(9)),
        ("unlimited", Quota::UNLIMITED),
        ("unlimited burst 3", Quota::UNLIMITED.burst(3)),
    ] {
        assert_eq!(text.parse(), Ok(quota), "{text}");
    }
}

#[test]
fn errors_name_the_place_and_what_was_expected() {
    use ParseQuotaError as E;
    for (text, error) in [
        ("", E::ExpectedNumber { at: 0 }),
        ("  ", E::ExpectedNumber { at: 2 }),
        ("/s", E::ExpectedNumber { at: 0 }),
        ("-1/s", E::ExpectedNumber { at: 0 }),
        ("+1/s", E::ExpectedNumber { at: 0 }),
        ("100", E::ExpectedSlash { at: 3 }),
        ("100 /s", E::ExpectedSlash { at: 3 }),
        ("1.5/s", E::ExpectedSlash { at: 1 }),
        ("4294967296/s", E::NumberTooLarge { at: 0 }),
        ("1/", E::UnknownUnit { at: 2 }),
        ("1/ s", E::UnknownUnit { at: 2 }),
        ("1/5", E::UnknownUnit { at: 3 }),
        ("1/month", E::UnknownUnit { at: 2 }),
        ("1/M", E::UnknownUnit { at: 2 }),
        ("1/minutely", E::UnknownUnit { at: 2 }),
        ("1/S", E::UnknownUnit { at: 2 }),
        ("1/.5s", E::InexactWindow { at: 2 }),
        ("1/1.s", E::InexactWindow { at: 2 }),
        ("1/1.2.3s", E::InexactWindow { at: 2 }),
        ("1/0.5ns", E::InexactWindow { at: 2 }),
        ("1/0.00000762939453125week", E::InexactWindow { at: 2 }),
        ("1/0.000015258789062500000001week", E::InexactWindow { at: 2 }),
        ("1/0s", E::ZeroWindow { at: 2 }),
        ("1/99999999999999999999999999999999999999999999day", E::WindowTooLong { at: 2 }),
        ("1/s brust 5", E::UnknownSetting { at: 4 }),
        ("1/s burst", E::ExpectedNumber { at: 9 }),
        ("1/s burst 5x", E::ExpectedNumber { at: 10 }),
        ("1/s burst 5000000000", E::NumberTooLarge { at: 10 }),
        ("1/s burst 5 burst 6", E::RepeatedSetting { at: 12 }),
        ("unlimited 5", E::UnknownSetting { at: 10 }),
    ] {
        assert_eq!(text.parse::<Quota>(), Err(error), "{text}");
    }
    let says = |text: &str| text.parse::<Quota>().unwrap_err().to_string();
    assert_eq!(says("100"), "at byte 3: expected a slash between limit and window, as in 100/s");
    assert_eq!(says("1/s burst 5000000000"), "at byte 10: the number exceeds the maximum 4294967295");
    assert_eq!(says("1/.5s"), "at byte 2: expected a window such as 250ms or 1.5s, in whole nanoseconds");
    assert_eq!(says("1/0s"), "at byte 2: the window is zero, it must be at least 1 ns");
    assert_eq!(says("1/213504day"), "at byte 2: the window exceeds the maximum of 2^64 - 1 ns (584 years)");
}

#[test]
fn display_shows_the_settings() {
    assert_eq!(Quota::per_minute(30).burst(5).max_debt(50).to_string(), "30/min burst 5 max_debt 50");
    assert_eq!(Quota::per(1_000, Duration::from_secs(86_400)).unwrap().to_string(), "1000/day burst 1000");
    assert_eq!(Quota::UNLIMITED.to_string(), "unlimited");
    assert_eq!(Quota::UNLIMITED.burst(3).max_debt(4).to_string(), "unlimited burst 3 max_debt 4");
}

#[cfg(feature = "serde")]
#[test]
fn serialized_form_is_the_text() {
    let quota = Quota::per_hour(5_000).burst(100);
    let json = serde_json::to_string(&quota).unwrap();
    assert_eq!(json, "\"5000/h burst 100\"");
    assert_eq!(serde_json::from_str::<Quota>(&json).unwrap(), quota);
    let error = serde_json::from_str::<Quota>("\"5000 per hour\"").unwrap_err().to_string();
    assert!(error.contains("at byte 4: expected a slash"), "{error}");
    let error = serde_json::from_str::<Quota>("5000").unwrap_err().to_string();
    assert!(error.contains("expected a quota such as"), "{error}");
}

proptest! {
    #[test]
    fn parsed_text_is_the_quota_that_wrote_it(
        limit: u32,
        is_unlimited in proptest::bool::weighted(0.2),
        nanos in prop_oneof![1..=u64::MAX, (0..40u32).prop_map(|shift| 1 << shift), Just(86_400_000_000_000)],
        burst in proptest::option::of(any::<u32>()),
        max_debt in proptest::option::of(any::<u32>()),
    ) {
        let mut quota = if is_unlimited {
            Quota::UNLIMITED
        } else {
            Quota::per(limit, Duration::from_nanos(nanos)).unwrap()
        };
        if let Some(burst) = burst { quota = quota.burst(burst); }
        if let Some(max_debt) = max_debt { quota = quota.max_debt(max_debt); }
        prop_assert_eq!(quota.to_string().parse(), Ok(quota));
    }

    #[test]
    fn windows_are_exact(number in "[0-9]{1,22}(\\.[0-9]{1,16})?", unit in 0..UNITS.len()) {
        let (name, nanos) = UNITS[unit];
        let parsed = format!("1/{number}{name}").parse::<Quota>();
        match model_window(&number, nanos) {
            Some(0) => prop_assert_eq!(parsed, Err(ParseQuotaError::ZeroWindow { at: 2 })),
            Some(window) => prop_assert_eq!(parsed.unwrap().window(), Duration::from_nanos(window)),
            None => prop_assert!(parsed.is_err(), "{number}{name}: {parsed:?}"),
        }
    }

    /// Any text is parsed, or refused at a place within it. A parsed quota's own text parses again.
    #[test]
    fn any_text_is_parsed_or_refused(text in prop_oneof![".*", "[0-9a-z/. ]{0,30}", "[0-9]{1,11}/[0-9.]{0,6}[a-z]{0,4}( burst [0-9]{0,11})?"]) {
        match text.parse::<Quota>() {
            Ok(quota) => prop_assert_eq!(quota.to_string().parse(), Ok(quota)),
            Err(
                ParseQuotaError::ExpectedNumber { at }
                | ParseQuotaError::NumberTooLarge { at }
                | ParseQuotaError::ExpectedSlash { at }
                | ParseQuotaError::UnknownUnit { at }
                | ParseQuotaError::InexactWindow { at }
                | ParseQuotaError::UnknownSetting { at }
                | ParseQuotaError::RepeatedSetting { at },
            ) => prop_assert!(text.is_char_boundary(at)),
            Err(_) => {}
        }
    }
}
