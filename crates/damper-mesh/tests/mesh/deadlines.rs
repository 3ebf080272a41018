//! Deadlines: the time left, and the timeout that is sent downstream.

use damper::mesh::{Iso8601, MeshDuration, Receipt, SpecifiedDeadline, TimeUnit};
use damper::{Deadline, ManualClock};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

const RECEIVED: SystemTime = SystemTime::UNIX_EPOCH;

fn instant(text: &str) -> SpecifiedDeadline {
    SpecifiedDeadline::at(Iso8601::parse(text).unwrap())
}

#[test]
fn time_starts_when_the_request_was_received() {
    let clock = ManualClock::new();
    let receipt = Receipt::with_clock(&clock);
    clock.advance(Duration::from_secs(2));
    let deadline = receipt.deadline(SpecifiedDeadline::after(Duration::from_secs(5)));
    assert_eq!((deadline.elapsed(), deadline.remaining()), (Duration::from_secs(2), Duration::from_secs(3)));
    assert_eq!(deadline.deadline().remaining(), Duration::from_secs(3));
    clock.advance(Duration::from_secs(3));
    assert!(deadline.is_expired() && deadline.downstream().is_none());
    assert_eq!(deadline.report().remaining, MeshDuration::millis(0));
}

#[test]
fn instants_are_read_with_offsets_and_fractions() {
    let left = |text| Iso8601::parse(text).unwrap().time_left(RECEIVED);
    assert_eq!(left("1970-01-01T00:00:30Z"), Duration::from_secs(30));
    assert_eq!(left("1970-01-01T01:00:30.250+01:00"), Duration::from_millis(30_250));
    assert_eq!(left("1969-12-31T19:30:30-04:30"), Duration::from_secs(30));
    assert_eq!(left("1969-12-31T23:59:59Z"), Duration::ZERO, "in the past");
    for text in
        ["", "tomorrow", "1970-01-01", "1970-01-01T00:00:30", "PT30S", "99999-01-01T00:00:00Z", "1970-13-01T00:00:00Z"]
    {
        assert_eq!(Iso8601::parse(text), None, "{text}");
    }
}

#[test]
fn instant_is_echoed_and_passed_on_as_it_came() {
    let clock = ManualClock::new();
    let specified = instant("1970-01-01T02:00:04.000+02:00");
    let deadline = Receipt::dated(&clock, RECEIVED).deadline(specified.clone());
    clock.advance(Duration::from_secs(1));
    assert_eq!(deadline.downstream(), Some(specified.clone()));
    let report = deadline.report();
    assert_eq!(report.specified, specified);
    assert_eq!((report.elapsed.to_string(), report.remaining.to_string()), ("1 second".into(), "3 second".into()));
    assert!((report.utilization - 0.25).abs() < 1e-9, "relative to the budget at receipt");
}

#[test]
fn instant_in_the_past_has_expired_at_receipt() {
    let clock = ManualClock::new();
    let deadline = Receipt::dated(&clock, RECEIVED).deadline(instant("1969-12-31T23:00:00Z"));
    let report = deadline.report();
    assert!(deadline.is_expired());
    assert_eq!((report.elapsed, report.remaining), (MeshDuration::millis(0), MeshDuration::millis(0)));
    assert!((report.utilization - 1.0).abs() < 1e-9);
}

#[test]
fn more_than_an_hour_is_sent_as_an_instant() {
    let clock = ManualClock::new();
    let hours = SpecifiedDeadline::lasting(MeshDuration::new(2, TimeUnit::Hour).unwrap()).unwrap();
    let deadline = Receipt::dated(&clock, RECEIVED).deadline(hours);
    assert_eq!(deadline.downstream(), Some(instant("1970-01-01T02:00:00Z")));
    clock.advance(Duration::from_mins(30));
    assert_eq!(deadline.downstream(), Some(instant("1970-01-01T02:00:00Z")), "the end stays the same");
    clock.advance(Duration::from_mins(30));
    let hour = SpecifiedDeadline::lasting(MeshDuration::new(1, TimeUnit::Hour).unwrap()).unwrap();
    assert_eq!(deadline.downstream(), Some(hour), "exactly an hour is not more than an hour");
}

#[test]
fn deadline_of_no_time_cannot_be_written() {
    assert_eq!(SpecifiedDeadline::lasting(MeshDuration::millis(0)), None);
    assert_eq!(SpecifiedDeadline::after(Duration::ZERO).to_string(), "1 millisecond");
    let minute = MeshDuration::new(1, TimeUnit::Minute).unwrap();
    assert_eq!(SpecifiedDeadline::lasting(minute).unwrap().duration(), Some(minute));
}

#[test]
fn earlier_deadline_counts() {
    let clock = ManualClock::new();
    let receipt = Receipt::with_clock(&clock);
    let of = |seconds| receipt.deadline(SpecifiedDeadline::after(Duration::from_secs(seconds)));
    for earlier in [of(3).earlier(of(5)), of(5).earlier(of(3))] {
        assert_eq!(earlier.remaining(), Duration::from_secs(3));
    }
}

#[test]
fn report_of_a_deadline_of_damper_has_its_own_figures() {
    let clock = ManualClock::new();
    let deadline = Deadline::with_clock(Duration::from_secs(2), &clock);
    clock.advance(Duration::from_millis(500));
    let report = serde_json::to_value(damper::mesh::DeadlineReport::of(&deadline)).unwrap();
    let duration = |value: u64, unit| -> Value { json!({ "value": value, "unit": unit }) };
    let expected = json!({
        "specified": duration(2, "second"),
        "elapsed": duration(500, "millisecond"),
        "remaining": duration(1_500, "millisecond"),
        "utilization": 0.25,
    });
    assert_eq!(report, expected);
}

proptest! {
    #[test]
    fn elapsed_and_remaining_add_up_to_the_specified_time(millis in 1u64..100_000_000, nanos in 0u64..200_000_000_000_000) {
        let clock = ManualClock::new();
        let specified = SpecifiedDeadline::after(Duration::from_millis(millis));
        let deadline = Receipt::with_clock(&clock).deadline(specified);
        clock.advance(Duration::from_nanos(nanos));
        let report = deadline.report();
        let (elapsed, remaining) = (report.elapsed.duration(), report.remaining.duration());
        prop_assert!((0.0..=1.0).contains(&report.utilization));
        if remaining.is_zero() {
            prop_assert!(elapsed >= Duration::from_millis(millis));
        } else {
            prop_assert_eq!(elapsed + remaining, Duration::from_millis(millis));
        }
        if let Some(sent) = deadline.downstream().and_then(|sent| sent.duration()) {
            prop_assert!(sent.duration() <= deadline.remaining() && deadline.remaining().saturating_sub(sent.duration()) < Duration::from_millis(1));
        }
    }
}
