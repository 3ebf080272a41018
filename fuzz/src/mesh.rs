//! Mesh documents: any bytes, the protocol's own documents with an altered member, and deadlines.

use crate::input::MOST_STEPS;
use arbitrary::Arbitrary;
use damper::ManualClock;
use damper::mesh::{Fragment, ReadError, Receipt, Request, Response, Scope, SpecifiedDeadline};
use serde_json::{Value, json};
use std::fmt::Display;
use std::time::{Duration, SystemTime};

/// The input: bytes, an altered document, a deadline, a text, or the steps of a pacer.
#[derive(Arbitrary, Debug)]
pub enum MeshInput<'a> {
    Bytes(&'a [u8]),
    Altered { document: u8, member: u16, value: AnyValue<'a> },
    Deadline { value: u64, unit: u8, received: u32, elapsed: u64 },
    Text(&'a str),
    ScopePacer(Vec<(u8, u8, u16)>),
}

/// A replacement value.
#[derive(Arbitrary, Debug)]
pub enum AnyValue<'a> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'a str),
    Nested(u16),
    Missing,
    Duration { value: i64, unit: &'a str },
}

impl AnyValue<'_> {
    /// `None` removes the member.
    fn value(&self) -> Option<Value> {
        Some(match *self {
            Self::Null => Value::Null,
            Self::Bool(value) => json!(value),
            Self::Unsigned(value) => json!(value),
            Self::Signed(value) => json!(value),
            Self::Float(value) => json!(value),
            Self::Text(value) => json!(value),
            // Deeper than real documents, but not so deep that the test itself could not drop it.
            Self::Nested(depth) => (0..depth % 1_000).fold(json!(1), |inner, _| json!([inner])),
            Self::Missing => return None,
            Self::Duration { value, unit } => json!({ "value": value, "unit": unit }),
        })
    }
}

const DOCUMENTS: [&str; 14] = [
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/deadline_exceeded.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/deadline_propagated.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/deadline_request_absolute.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/deadline_request_relative.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/deadline_response.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/error_rate_limited.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/example_approaching.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/example_limited.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/example_normal.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/request_capabilities.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/response_capabilities.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/response_scopes.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/response_usage.json"),
    include_str!("../../crates/damper-mesh/tests/mesh/vectors/response_warning.json"),
];

/// The units of durations, in milliseconds.
const UNITS: [(&str, u64); 4] = [("millisecond", 1), ("second", 1_000), ("minute", 60_000), ("hour", 3_600_000)];

/// Reads the fuzzer's input. A document that can be read is written and read again.
pub fn mesh(input: MeshInput<'_>) {
    match input {
        MeshInput::Bytes(bytes) => read(bytes),
        MeshInput::Altered { document, member, value } => {
            let text = DOCUMENTS[usize::from(document) % DOCUMENTS.len()];
            let mut document: Value = serde_json::from_str(text).expect("the documents are JSON");
            let mut left = usize::from(member) % members(&document).max(1);
            alter(&mut document, &mut left, &value.value());
            read(document.to_string().as_bytes());
        }
        MeshInput::Deadline { value, unit, received, elapsed } => deadline(value, unit, received, elapsed),
        MeshInput::ScopePacer(steps) => crate::models::scope_pacer::run(&steps[..steps.len().min(MOST_STEPS)]),
        MeshInput::Text(text) => {
            for unit in ["iso8601", text] {
                let options = json!({ "value": text, "unit": unit });
                match SpecifiedDeadline::from_value(&options) {
                    Ok(deadline) => assert_eq!(deadline.to_value(), options, "the deadline keeps its form"),
                    Err(error) => short(&error),
                }
            }
        }
    }
}

/// Counts the values in a document, including itself.
fn members(value: &Value) -> usize {
    1 + match value {
        Value::Object(members) => members.values().map(self::members).sum(),
        Value::Array(items) => items.iter().map(self::members).sum(),
        _ => 0,
    }
}

/// Replaces the value with this number in a document. Returns whether there was one.
fn alter(value: &mut Value, left: &mut usize, other: &Option<Value>) -> bool {
    if *left == 0 {
        *value = other.clone().unwrap_or_default();
        return true;
    }
    *left -= 1;
    match value {
        Value::Object(members) => {
            for name in members.keys().cloned().collect::<Vec<_>>() {
                if *left == 0 && other.is_none() {
                    members.remove(&name);
                    return true;
                }
                if members.get_mut(&name).is_some_and(|member| alter(member, left, other)) {
                    return true;
                }
            }
            false
        }
        Value::Array(items) => items.iter_mut().any(|item| alter(item, left, other)),
        _ => false,
    }
}

/// Reads bytes as each kind of document.
fn read(bytes: &[u8]) {
    match Request::from_json(bytes) {
        Ok(request) => {
            assert_eq!(Request::from_json(&request.to_json()).as_ref(), Ok(&request));
            match request.deadline() {
                Ok(Some(deadline)) => {
                    let again = request.with_deadline(&deadline).deadline();
                    assert_eq!(again, Ok(Some(deadline)));
                }
                Ok(None) => {}
                Err(error) => short(&error),
            }
        }
        Err(error) => short(&error),
    }
    match Response::from_json(bytes) {
        Ok(response) => {
            match response.meta_error() {
                None => assert_eq!(Response::from_json(&response.to_json()).as_ref(), Ok(&response)),
                Some(error) => short(error),
            }
            let hints = response.hints();
            // A failure that may not be retried is not.
            assert!(
                !hints.is_rejected()
                    || response.failure().is_some_and(|failure| failure.may_retry())
                    || response.errors.len() > 1
            );
            let errors: [Option<ReadError>; 3] =
                [response.deadline().err(), response.rate_limited().err(), response.capabilities().err()];
            errors.iter().flatten().for_each(short);
            let scopes = [Scope::Global, Scope::Service, Scope::Function, Scope::User];
            let scoped = scopes.into_iter().map(|scope| response.meta.usage(scope));
            let usages = core::iter::once(response.meta.rate_limit.as_ref()).chain(scoped);
            for usage in usages.flatten() {
                let pace = usage.pace(10);
                assert!(pace.is_none_or(|pace| pace <= usage.resets_in.duration()), "{usage:?}");
                assert!(
                    !hints.is_accepted() || hints.remaining.is_some_and(|left| left <= usage.remaining),
                    "{usage:?}"
                );
            }
        }
        Err(error) => short(&error),
    }
    if let Err(error) = Fragment::from_json(bytes) {
        short(&error);
    }
}

/// Checks that a message is short, however large the input is.
fn short(error: &impl Display) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.chars().count() < 400, "{text}");
}

/// Compares a deadline with arithmetic in whole milliseconds.
fn deadline(value: u64, unit: u8, received: u32, elapsed: u64) {
    let (unit, millis) = UNITS[usize::from(unit) % UNITS.len()];
    let read = SpecifiedDeadline::from_value(&json!({ "value": value, "unit": unit }));
    let Some(millis) = value.checked_mul(millis).filter(|millis| *millis > 0) else {
        let error = read.expect_err("zero and overflowing values");
        assert!(error.to_string().starts_with("deadline: value "), "{error}");
        return short(&error);
    };
    let clock = ManualClock::new();
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(received.into());
    let specified = read.expect("a positive number");
    let deadline = Receipt::dated(&clock, date).deadline(specified.clone());
    // Deadlines of damper last for at most 146 years.
    let elapsed = elapsed >> 2;
    clock.advance(Duration::from_nanos(elapsed));
    let budget = u128::from(millis) * 1_000_000;
    let left = budget.saturating_sub(elapsed.into());
    assert_eq!((deadline.remaining().as_nanos(), deadline.is_expired()), (left, left == 0));
    let report = deadline.report();
    assert_eq!(report.specified, specified);
    assert_eq!(report.remaining.duration().as_millis(), left / 1_000_000);
    assert_eq!(report.elapsed.duration().as_millis(), u128::from(elapsed).div_ceil(1_000_000));
    assert!((0.0..=1.0).contains(&report.utilization));
    let Some(sent) = deadline.downstream() else { return assert!(left < 1_000_000) };
    match (sent.duration(), sent.instant()) {
        (Some(sent), _) => assert_eq!(sent.duration().as_millis(), left / 1_000_000),
        (None, end) => {
            let end = end.expect("the deadline is otherwise an instant");
            assert!(left > 3_600_000_000_000);
            let sent = end.time_left(date + Duration::from_nanos(elapsed)).as_nanos();
            assert!(sent <= left && left - sent < 1_000_000, "{} for {left} ns", end.text());
        }
    }
}
