//! `Retry-After` as a server sends it.

use super::date_model::{self, LAST, LAST_OF_TWO_DIGITS, forms};
use damper::wire::retry_after_in;
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn headers(retry_after: &str, date: Option<&str>) -> HeaderMap {
    let lines = [(RETRY_AFTER, Some(retry_after)), (DATE, date)];
    lines.into_iter().filter_map(|(name, text)| Some((name, HeaderValue::from_str(text?).unwrap()))).collect()
}

fn parsed(retry_after: &str, date: Option<&str>) -> Option<u64> {
    let wait = retry_after_in(&headers(retry_after, date))?;
    assert_eq!(wait.subsec_nanos(), 0, "both are whole seconds");
    Some(wait.as_secs())
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
    for (value, wait) in [
        ("0", Some(0)),
        ("120", Some(120)),
        (" 120\t", Some(120)),
        ("007", Some(7)),
        ("18446744073709551615", Some(u64::MAX)),
        // Overflowing values saturate.
        ("99999999999999999999999", Some(u64::MAX)),
        ("Sun, 06 Nov 1994 08:51:37 GMT", Some(120)),
        ("Sunday, 06-Nov-94 08:51:37 GMT", Some(120)),
        ("Sun Nov  6 08:51:37 1994", Some(120)),
        ("Mon, 07 Nov 1994 08:49:37 GMT", Some(86_400)),
        // A date in the past is no wait.
        ("Sun, 06 Nov 1994 08:49:36 GMT", Some(0)),
        ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("1 s", None),
        ("0x10", None),
        ("Sun, 06 Nov 1994 08:51:37 CET", None),
        ("Mon, 06 Nov 1994 08:51:37 GMT", None),
        ("Sun, 31 Feb 1994 08:51:37 GMT", None),
        ("Sun, 06 Nov 1994 24:51:37 GMT", None),
    ] {
        assert_eq!(parsed(value, date), wait, "{value:?}");
    }
    assert_eq!(retry_after_in(&HeaderMap::new()), None);
}

/// The response's own `Date` comes from the server's clock.
///
/// So neither the server's nor the client's clock has to be right.
#[test]
fn skewed_clocks_keep_the_wait() {
    for server_time in ["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:00:00 GMT"] {
        let now = date_model::seconds_of(server_time).unwrap();
        assert_eq!(parsed(&forms(now + 90)[0], Some(server_time)), Some(90));
    }
}

/// Without a valid `Date`, a date is compared with the system's clock.
#[test]
fn system_clock_replaces_a_missing_date() {
    let since_1970 = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    for date in [None, Some("yesterday"), Some("0")] {
        let at = since_1970().as_secs() + 1_000;
        let earliest = since_1970();
        let wait = retry_after_in(&headers(&forms(at)[0], date)).unwrap();
        let latest = since_1970();
        let at = Duration::from_secs(at);
        assert!(at.saturating_sub(latest) <= wait && wait <= at.saturating_sub(earliest), "{wait:?}");
        assert_eq!(parsed("Sun, 06 Nov 1994 08:49:37 GMT", date), Some(0));
    }
}

proptest! {
    #[test]
    fn every_date_form_is_parsed(at in 0..=LAST, ahead in 0..100_000u64, form in 0..4usize, other in 0..4usize) {
        let two_digits = form == 1 || other == 1;
        let at = if two_digits { at % (LAST_OF_TWO_DIGITS + 1) } else { at };
        let date = at.saturating_sub(ahead);
        let (retry_after, date_text) = (&forms(at)[form], &forms(date)[other]);
        prop_assert_eq!(parsed(retry_after, Some(date_text)), Some(at - date), "{} at {}", retry_after, date_text);
        prop_assert_eq!(parsed(date_text, Some(retry_after)), Some(0), "the past");
    }

    /// Every value is parsed as the model parses it.
    #[test]
    fn parsed_values_match_the_model(
        value in prop_oneof![
            "[0-9]{0,25}",
            "[ -~]{0,40}",
            "(Mon|Sun|Sunday)(,| |, )[ 0-9]{0,2}( |-)(Nov|Feb|xyz)( |-)[0-9]{2,4} [0-9]{2}:[0-9]{2}:[0-9]{2}( GMT|)",
            (0..=LAST, 0..4usize, any::<prop::sample::Index>(), b' '..=b'~').prop_map(|(at, form, place, byte)| {
                let mut text = forms(at)[form].clone().into_bytes();
                let place = place.index(text.len());
                text[place] = byte;
                String::from_utf8(text).unwrap()
            }),
        ],
        date in 0..=LAST,
    ) {
        let read = parsed(&value, Some(&forms(date)[0]));
        prop_assert_eq!(read, date_model::retry_after(&value, date), "{:?}", value);
    }
}
