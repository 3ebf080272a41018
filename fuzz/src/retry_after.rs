//! `Retry-After` as arbitrary bytes, or as a date with some bytes replaced.

use damper::wire::retry_after_in;
use date_model::{LAST, LAST_OF_TWO_DIGITS, forms};
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use std::time::Duration;

#[path = "../../crates/damper-http/tests/http/wire/date_model.rs"]
mod date_model;

/// Compares the parsed value with the model's.
///
/// The first 11 bytes are the form of a date, the date, and the response's date. The rest is the value, and also pairs
/// of a position in the date and its new byte.
pub fn retry_after(input: &[u8]) {
    let Some((&[form, ref times @ ..], rest)) = input.split_first_chunk::<11>() else { return };
    let seconds = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)) % (LAST + 1);
    let (mut at, date) = (seconds(&times[..5]), seconds(&times[5..]));
    let form = usize::from(form % 4);
    if form == 1 {
        at %= LAST_OF_TWO_DIGITS + 1;
    }
    let mut text = forms(at)[form].clone().into_bytes();
    assert_eq!(wait(&text, date), Some(Some(at.saturating_sub(date))), "{}", text.escape_ascii());
    for exchange in rest.chunks_exact(2).take(4) {
        let place = usize::from(exchange[0]) % text.len();
        text[place] = exchange[1];
        reads_as_the_model(&text, date);
    }
    reads_as_the_model(rest, date);
}

fn reads_as_the_model(value: &[u8], date: u64) {
    let Some(read) = wait(value, date) else { return };
    let expected = std::str::from_utf8(value).ok().and_then(|text| date_model::retry_after(text, date));
    assert_eq!(read, expected, "{}", value.escape_ascii());
}

/// Parses a value. Returns `None` if a header cannot contain it.
fn wait(value: &[u8], date: u64) -> Option<Option<u64>> {
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, HeaderValue::from_bytes(value).ok()?);
    headers.insert(DATE, HeaderValue::from_str(&forms(date)[0]).expect("a date is printable ASCII"));
    let wait = retry_after_in(&headers);
    assert!(wait.is_none_or(|wait| wait == Duration::from_secs(wait.as_secs())), "{wait:?} of whole seconds");
    Some(wait.map(|wait| wait.as_secs()))
}
