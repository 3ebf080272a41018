//! A pacer of the core over services of Mesh.

use crate::support::{SharedClock, post, serve_mesh};
use damper::Reads;
use damper::limit::FixedWindow;
use damper::mesh::{MeshDuration, MeshError, MeshHints, Request, Response, Scopes};
use damper::throttle::{Hints, Level, NoPacing, PacedRetry, Pacer, Strategy};
use damper::{KeyedAlgorithm, ManualClock, Quota, TokenBucket};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn read(document: &str) -> Response {
    Response::from_json(document.as_bytes()).unwrap()
}

#[test]
fn hints_are_those_of_the_protocols_documents() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let normal = read(include_str!("vectors/example_normal.json")).hints();
    assert_eq!(normal, Hints::ACCEPTED.remaining(Some(958)).limit(Some(1_000)).resets_in(seconds(47)));
    let approaching = read(include_str!("vectors/example_approaching.json")).hints();
    assert_eq!(approaching, Hints::ACCEPTED.remaining(Some(15)).limit(Some(1_000)).resets_in(seconds(12)));
    let refused = Hints::REJECTED.remaining(Some(0)).limit(Some(100)).retry_after(seconds(23));
    let limited = read(include_str!("vectors/example_limited.json"));
    assert_eq!(limited.hints(), refused);
    assert_eq!(MeshHints.read_from(&Ok::<_, Infallible>(limited)), refused);
    assert_eq!(MeshHints.read_from(&Err::<Response, _>("no connection")), Hints::UNKNOWN);
    assert_eq!(read(include_str!("vectors/deadline_response.json")).hints(), Hints::ACCEPTED, "no usage");
    assert_eq!(read(include_str!("vectors/deadline_exceeded.json")).hints(), Hints::UNKNOWN, "no limit was asked");
}

#[test]
fn hints_are_those_of_the_limit_with_the_least_left() {
    let duration = |value: u64, unit| json!({ "value": value, "unit": unit });
    let usage = |remaining: u64, resets_in: Value| {
        json!({
            "limit": 100, "used": 100 - remaining, "remaining": remaining,
            "window": duration(1, "hour"), "resets_in": resets_in,
        })
    };
    let hints = |rate_limits: Value, errors: Value| {
        let document = json!({
            "protocol": { "name": "mesh", "version": "0.1.0" },
            "id": "a", "result": null, "errors": errors, "meta": { "rate_limits": rate_limits },
        });
        read(&document.to_string()).hints()
    };
    let all = json!({
        "global": usage(50, duration(9, "second")),
        "user": usage(3, duration(2, "second")),
        "function": usage(3, duration(4, "second")),
    });
    let expected = Hints::ACCEPTED.remaining(Some(3)).limit(Some(100)).resets_in(Some(Duration::from_secs(4)));
    assert_eq!(hints(all.clone(), json!([])), expected, "of equal ones, the one that resets last");
    // Its usage may be that of another limit, and a pacer would stop until nothing of that is used any more.
    let refused = json!([{ "code": "RATE_LIMITED", "message": "", "retryable": true }]);
    assert_eq!(hints(all.clone(), refused), Hints::REJECTED.remaining(Some(0)));
    let broken = json!([{ "code": "DOWNSTREAM_RATE_LIMITED", "message": "", "retryable": false }]);
    assert_eq!(hints(all, broken), expected, "its own limit accepted the call");
    let never = json!({ "user": usage(0, json!(MeshDuration::NEVER)) });
    assert_eq!(hints(never, json!([])), Hints::ACCEPTED.remaining(Some(0)).limit(Some(100)));
}

#[test]
fn refusals_that_no_wait_ends_are_not_retried() {
    let refusal = |details: Value| MeshError::new("RATE_LIMITED", "").retryable().details(details);
    let hints = |error: MeshError| Response::error(None, error).hints();
    let wait = json!({ "value": 2, "unit": "second" });
    let rejected = Hints::REJECTED.remaining(Some(0));
    assert_eq!(hints(refusal(json!({ "retry_after": wait }))), rejected.retry_after(Some(Duration::from_secs(2))));
    assert_eq!(hints(refusal(Value::Null)), rejected, "a refusal that says nothing of its wait");
    assert_eq!(hints(refusal(json!({ "retry_after": MeshDuration::NEVER }))), Hints::UNKNOWN);
    assert_eq!(hints(MeshError::new("RATE_LIMITED", "").details(json!({ "retry_after": wait }))), Hints::UNKNOWN);
}

/// The record of calls: their sleeps, and the tokens left when the service responded.
struct Calls {
    slept: Vec<Duration>,
    left: Vec<u64>,
    refusals: usize,
}

const QUOTA: Quota = Quota::per_minute(60).burst(40);

/// Makes this many calls of a service with such a limit, one after the other.
///
/// Each call is retried until it succeeds.
async fn paced<A: KeyedAlgorithm + 'static>(strategy: impl Strategy, calls: usize) -> Calls {
    let clock: SharedClock = Arc::new(ManualClock::new());
    let scopes = Scopes::with_clock(Arc::clone(&clock)).algorithm::<A>().global(QUOTA).build().unwrap();
    let address = serve_mesh(scopes, |_| std::future::ready(Ok(json!("ok")))).await;
    let pacer = Pacer::with_clock(strategy, Arc::clone(&clock), 7);
    let refusals = AtomicUsize::new(0);
    let mut made = Calls { slept: Vec::new(), left: Vec::new(), refusals: 0 };
    let retry = PacedRetry::DEFAULT;
    for _ in 0..calls {
        let total = Mutex::new(Duration::ZERO);
        let attempt = async |_| {
            let (_, _, document) = post(address, Request::new("req_1", "f", "1", json!({})).to_json()).await;
            let answer = read(&document.to_string());
            refusals.fetch_add(usize::from(!answer.errors.is_empty()), Ordering::Relaxed);
            Ok::<_, Infallible>(answer)
        };
        let sleep = |wait| {
            *total.lock().unwrap() += wait;
            clock.advance(wait);
            std::future::ready(())
        };
        let answer = pacer.run(&retry, MeshHints, attempt).sleeping_by(sleep).await.unwrap();
        assert!(answer.errors.is_empty(), "every call succeeds in the end");
        made.left.push(answer.hints().remaining.unwrap());
        made.slept.push(total.into_inner().unwrap());
    }
    Calls { refusals: refusals.into_inner(), ..made }
}

impl Calls {
    /// The mean of the sleeps before the last hundred calls, in seconds.
    fn mean_sleep(&self) -> f64 {
        self.slept[self.slept.len() - 100..].iter().map(Duration::as_secs_f64).sum::<f64>() / 100.0
    }
}

#[tokio::test]
async fn level_slows_down_before_the_limit() {
    let level = Level::new(QUOTA).start(Duration::from_secs(13)).unwrap();
    let made = paced::<TokenBucket>(level, 200).await;
    assert_eq!(made.refusals, 0);
    // It begins with the sleep that it was given, because it knows nothing yet.
    for (left, slept) in made.left.iter().zip(&made.slept[1..]) {
        assert!(*left < 30 || *slept < Duration::from_secs(1), "{slept:?} with {left} of 40 left");
    }
    let least = *made.left.iter().min().unwrap();
    assert!(least > 2, "{least} are kept in reserve");
    assert!((0.9..1.1).contains(&made.mean_sleep()), "as the bucket refills: {} s", made.mean_sleep());
}

#[tokio::test]
async fn level_learns_from_the_first_refusal() {
    let unpaced = paced::<TokenBucket>(NoPacing, 200).await.refusals;
    assert!(unpaced > 100, "{unpaced}");
    let made = paced::<TokenBucket>(Level::new(QUOTA), 200).await;
    assert_eq!(made.refusals, 1, "the one that it learns from");
    assert!(made.left[100..].iter().all(|left| *left > 0), "{:?}", made.left);
}

#[tokio::test]
async fn level_learns_from_the_first_refusal_of_a_fixed_window() {
    let made = paced::<FixedWindow>(Level::new(QUOTA), 200).await;
    assert_eq!(made.refusals, 1, "the one that it learns from");
    assert!((0.9..1.2).contains(&made.mean_sleep()), "as the window allows: {} s", made.mean_sleep());
}
