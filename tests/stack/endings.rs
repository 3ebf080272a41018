//! One table of endings gives what each layer's judge said of a response before there was one.
//!
//! The functions of `before` are those judges. Where an answer differs, the test says so.

use core::error::Error;
use core::time::Duration;
use damper::breaker::Verdict;
use damper::concurrency::Outcome;
use damper::gate::{self, Ending};
use damper::http::{EveryStatus, ResponseHead, Statuses};
use damper::retry::Failure;
use damper::tonic::{GrpcEndings, rejection, unavailability};
use damper::{Bulkhead, CircuitBreaker, Deadline, Quota, RateLimiter, is_refusal};
use http::{Response, StatusCode};
use std::io;
use tonic::{Code, Status};

mod before {
    use super::*;

    pub(super) fn server_errors(status: u16, retry_after: Option<Duration>) -> Verdict {
        match (status, retry_after) {
            (500..=599, Some(wait)) => Verdict::RetryAfter(wait),
            (504, None) => Verdict::DeadlineExceeded,
            (500..=599, None) => Verdict::Failure,
            _ => Verdict::Success,
        }
    }

    pub(super) fn rejections(status: u16) -> Verdict {
        match status {
            429 => Verdict::Ignored,
            502 | 503 => Verdict::Failure,
            504 => Verdict::DeadlineExceeded,
            _ => Verdict::Success,
        }
    }

    pub(super) fn load_signs(status: u16, grpc: Option<&str>) -> Outcome {
        match (grpc, status) {
            (None | Some("0"), 200..=299) => Outcome::Success,
            (Some("4" | "14"), _) | (_, 503 | 504) => Outcome::Overloaded,
            (None, status) if !(400..=599).contains(&status) => Outcome::Success,
            _ => Outcome::Ignored,
        }
    }

    pub(super) fn retries(status: u16, retry_after: Option<Duration>) -> Option<Failure> {
        match status {
            408 | 502 | 503 | 504 => Some(Failure::TRANSIENT.retry_after(retry_after)),
            429 => Some(Failure::THROTTLED.retry_after(retry_after)),
            _ => None,
        }
    }

    pub(super) fn unavailability(code: Code) -> Verdict {
        match code {
            Code::DeadlineExceeded => Verdict::DeadlineExceeded,
            Code::Unavailable | Code::ResourceExhausted => Verdict::Failure,
            _ => Verdict::Success,
        }
    }

    pub(super) fn rejection(code: Code) -> Verdict {
        if code == Code::ResourceExhausted { Verdict::Ignored } else { unavailability(code) }
    }
}

/// Whether a throttle took a verdict for an accepted call, before it read endings.
fn is_accepted(verdict: Verdict) -> Option<bool> {
    match verdict {
        Verdict::Success => Some(true),
        Verdict::Ignored => None,
        _ => Some(false),
    }
}

fn response(status: u16, grpc: Option<&str>, retry_after: Option<Duration>) -> Response<()> {
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    if let Some(grpc) = grpc {
        response = response.header("grpc-status", grpc);
    }
    if let Some(wait) = retry_after {
        response = response.header("retry-after", wait.as_secs());
    }
    response.body(()).unwrap()
}

#[test]
fn statuses_mean_what_they_meant_to_each_layer() {
    for status in 100..=999 {
        for retry_after in [None, Some(Duration::from_secs(2))] {
            let response = response(status, None, retry_after);
            let head = ResponseHead::of(&response);
            let now = Statuses::judge(Ok(&head));
            assert_eq!(Verdict::from(&now), before::server_errors(status, retry_after), "{status}");
            assert_eq!(now.ending.is_accepted(), is_accepted(before::rejections(status)), "{status}");
            assert_eq!(Statuses::failure(Ok(&head)), before::retries(status, retry_after), "{status}");
        }
    }
}

#[test]
fn grpc_statuses_in_heads_mean_what_they_meant_to_adaptive_limits() {
    let codes: Vec<_> = (0..=17).map(|code| code.to_string()).chain([String::new(), "x".into()]).collect();
    for status in 100..=999 {
        for grpc in codes.iter().map(|code| Some(&**code)).chain([None]) {
            let response = response(status, grpc, None);
            let now = Outcome::from(&EveryStatus::judge(Ok(&ResponseHead::of(&response))));
            let before = before::load_signs(status, grpc);
            // gRPC has no such responses: `OK` with another status than 200. The status of HTTP decides.
            let is_odd = grpc == Some("0") && !(200..=299).contains(&status) && !(400..=599).contains(&status);
            if is_odd {
                assert_eq!((before, now), (Outcome::Ignored, Outcome::Success), "{status}");
            } else {
                assert_eq!(now, before, "{status} {grpc:?}");
            }
        }
    }
}

#[test]
fn codes_mean_what_they_meant_to_grpc_breakers_and_throttles() {
    for code in (0..=17).map(Code::from) {
        assert_eq!(Verdict::from(&unavailability(code).into()), before::unavailability(code), "{code:?}");
        assert_eq!(rejection(code).is_accepted(), is_accepted(before::rejection(code)), "{code:?}");
    }
}

/// The verdicts of all layers on an error.
struct Judged {
    breaker: Verdict,
    throttle: Option<bool>,
    load: Outcome,
    plain: Verdict,
}

fn judged(error: &(dyn Error + 'static)) -> Judged {
    Judged {
        breaker: Verdict::from(&Statuses::judge(Err(error))),
        throttle: Statuses::judge(Err(error)).ending.is_accepted(),
        load: Outcome::from(&EveryStatus::judge(Err(error))),
        plain: Verdict::from(&gate::Verdict::of(Ending::of_error(error))),
    }
}

#[test]
fn refusals_say_nothing_of_the_server() {
    let breaker = CircuitBreaker::default();
    breaker.force_open();
    let limiter = RateLimiter::new(Quota::per_hour(1).burst(1));
    limiter.check().unwrap();
    let refusals: [Box<dyn Error + Send + Sync>; 3] = [
        Box::new(breaker.try_acquire().unwrap_err()),
        Box::new(Bulkhead::new(0).try_acquire().unwrap_err()),
        Box::new(limiter.check().unwrap_err()),
    ];
    for refusal in refusals.map(io::Error::other) {
        let Judged { breaker, throttle, load, plain } = judged(&refusal);
        assert_eq!((breaker, throttle, load, plain), (Verdict::Ignored, None, Outcome::Ignored, Verdict::Ignored));
        assert_eq!(Statuses::failure(Err(&refusal)), Some(Failure::FATAL));
        assert!(is_refusal(&refusal));
    }
}

#[test]
fn broken_connections_are_failures_but_no_overload() {
    for kind in [io::ErrorKind::ConnectionReset, io::ErrorKind::ConnectionRefused, io::ErrorKind::Other] {
        let error = io::Error::from(kind);
        let Judged { breaker, throttle, load, plain } = judged(&error);
        assert_eq!(
            (breaker, throttle, load, plain),
            (Verdict::Failure, Some(false), Outcome::Ignored, Verdict::Failure)
        );
    }
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    assert_eq!(Statuses::failure(Err(&refused)), Some(Failure::TRANSIENT.unprocessed()));
    assert!(!Statuses::judge(Err(&refused)).may_be_processed);
}

/// It was a plain failure for breakers and throttles before.
///
/// Their layers do not count it now if the deadline left the call too little time.
#[test]
fn timeouts_are_failures_by_deadline() {
    let late = Deadline::after(Duration::ZERO).check().unwrap_err();
    let error = io::Error::other(late);
    let Judged { breaker, throttle, load, plain } = judged(&error);
    let by_deadline = Verdict::DeadlineExceeded;
    assert_eq!((breaker, throttle, load, plain), (by_deadline, Some(false), Outcome::Overloaded, by_deadline));
    assert_eq!(Statuses::failure(Err(&error)), Some(Failure::FATAL));
}

#[test]
fn statuses_as_errors_are_overload_if_their_codes_are() {
    for code in (0..=16).map(Code::from) {
        let error = io::Error::other(Status::new(code, "no"));
        let judged = GrpcEndings::judge(Err(&error));
        let judged = (Verdict::from(&judged), judged.ending.is_accepted(), Outcome::from(&judged));
        let expected = match code {
            Code::DeadlineExceeded => (Verdict::DeadlineExceeded, Some(false), Outcome::Overloaded),
            Code::Unavailable => (Verdict::Failure, Some(false), Outcome::Overloaded),
            _ => (Verdict::Failure, Some(false), Outcome::Ignored),
        };
        assert_eq!(judged, expected, "{code:?}");
    }
}

#[test]
fn each_gate_reads_an_ending_as_the_table_says() {
    let readings = [
        (Ending::Success, Verdict::Success, Some(true), Outcome::Success, None),
        (Ending::Declined, Verdict::Success, Some(true), Outcome::Ignored, None),
        (Ending::Limited, Verdict::Success, None, Outcome::Ignored, Some(Failure::THROTTLED)),
        (Ending::Unavailable, Verdict::Failure, Some(false), Outcome::Overloaded, Some(Failure::TRANSIENT)),
        (Ending::BadGateway, Verdict::Failure, Some(false), Outcome::Ignored, Some(Failure::TRANSIENT)),
        (Ending::Failed, Verdict::Failure, Some(true), Outcome::Ignored, None),
        (Ending::Broken, Verdict::Failure, Some(false), Outcome::Ignored, Some(Failure::TRANSIENT)),
        (Ending::TimedOut, Verdict::DeadlineExceeded, Some(false), Outcome::Overloaded, Some(Failure::TRANSIENT)),
        (Ending::NotSent, Verdict::Ignored, None, Outcome::Ignored, Some(Failure::FATAL)),
    ];
    for (ending, breaker, throttle, load, retry) in readings {
        let verdict = damper::gate::Verdict::of(ending);
        assert_eq!(Verdict::from(&verdict), breaker, "{ending:?}");
        assert_eq!(ending.is_accepted(), throttle, "{ending:?}");
        assert_eq!(Outcome::from(&verdict), load, "{ending:?}");
        assert_eq!(Failure::of_verdict(&verdict), retry, "{ending:?}");
    }
}
