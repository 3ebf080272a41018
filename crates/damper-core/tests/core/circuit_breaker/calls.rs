//! Calls, futures and permits.

use crate::circuit_breaker::{COOLDOWN, build, half_open, secs, trip};
use damper::breaker::{Run, State, Verdict};
use damper::{BreakerConfig, CallError, CircuitBreaker, CircuitOpen, ManualClock};
use std::cell::Cell;
use std::error::Error;
use std::future::{Ready, pending, poll_fn, ready};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn once() -> BreakerConfig {
    build(|config| config.failure_threshold(1))
}

/// Polls a future until it is ready. The future must not depend on other tasks.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn is_panic(what: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(what)).is_err()
}

#[test]
fn panic_in_a_call_counts_as_failure_and_propagates() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(once(), &clock);
    assert!(is_panic(|| _ = breaker.call(|| -> Result<(), ()> { panic!("on purpose") })));
    assert_eq!(breaker.state(), State::Open);
    clock.advance(COOLDOWN);
    assert!(is_panic(|| _ = breaker.call(|| -> Result<(), ()> { panic!("on purpose") })));
    assert_eq!((breaker.state(), breaker.status().probes_in_flight()), (State::Open, 0), "as a probe too");
}

#[test]
fn panic_in_a_future_counts_as_failure_and_propagates() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(once(), &clock);
    let panics = || poll_fn(|_| -> Poll<Result<(), ()>> { panic!("on purpose") });
    assert!(is_panic(|| _ = block_on(breaker.run(panics()))));
    assert_eq!(breaker.state(), State::Open);
    clock.advance(COOLDOWN);
    assert!(is_panic(|| _ = block_on(breaker.run(panics()))));
    assert_eq!((breaker.state(), breaker.status().probes_in_flight()), (State::Open, 0), "as a probe too");
}

/// A panic in a classifier is no success either.
#[test]
fn panic_in_a_classifier_counts_as_failure() {
    let clock = ManualClock::new();
    let classify = |_: &Result<(), ()>| -> Verdict { panic!("on purpose") };
    let called = CircuitBreaker::with_clock(once(), &clock);
    assert!(is_panic(|| _ = called.call_with(|| Ok(()), classify)));
    assert_eq!(called.state(), State::Open);
    let run = CircuitBreaker::with_clock(once(), &clock);
    assert!(is_panic(|| _ = block_on(run.run_with(ready(Ok(())), classify))));
    assert_eq!(run.state(), State::Open);
}

#[test]
fn future_is_admitted_when_polled_and_records_its_outcome() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(once(), &clock);
    let early = breaker.run(ready(Ok::<_, ()>(1)));
    assert_eq!(block_on(breaker.run(ready(Err::<(), _>("down")))), Err(CallError::Failed("down")));
    let polled = Cell::new(false);
    let refused = block_on(breaker.run(poll_fn(|_| {
        polled.set(true);
        Poll::Ready(Ok::<(), ()>(()))
    })));
    assert!(matches!(refused, Err(CallError::Refused(open)) if open.retry_after() == Some(COOLDOWN)));
    assert!(!polled.get());
    assert!(matches!(block_on(early), Err(CallError::Refused(_))), "made before the trip, polled after it");
    clock.advance(COOLDOWN);
    assert_eq!(block_on(breaker.run(ready(Ok::<_, ()>(7)))), Ok(7));
    assert_eq!(breaker.state(), State::Closed);
}

/// The future is kept in a struct without a box, and sent to another thread.
#[test]
fn type_of_a_future_can_be_named() {
    type Named<'a, T, E> = Run<&'a CircuitBreaker<ManualClock>, Ready<Result<T, E>>, fn(&Result<T, E>) -> Verdict>;
    struct Task<'a> {
        future: Named<'a, u32, ()>,
    }
    let breaker = CircuitBreaker::with_clock(once(), ManualClock::new());
    let task = Task { future: breaker.run(ready(Ok(7))) };
    let answer = std::thread::scope(|scope| scope.spawn(|| block_on(task.future)).join().unwrap());
    assert_eq!(answer, Ok(7));
}

#[test]
fn cancelled_future_frees_its_probe_place() {
    let clock = ManualClock::new();
    let breaker = half_open(once(), &clock);
    {
        let mut probe = pin!(breaker.run(pending::<Result<(), ()>>()));
        assert!(poll_once(probe.as_mut()).is_pending());
        assert!(poll_once(probe.as_mut()).is_pending());
        assert_eq!(breaker.status().probes_in_flight(), 1);
        assert!(breaker.try_acquire().is_err());
    }
    assert_eq!((breaker.state(), breaker.status().probes_in_flight()), (State::HalfOpen, 0));
    drop(breaker.run(pending::<Result<(), ()>>()));
    breaker.try_acquire().unwrap().success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn cancelled_future_is_a_failed_probe_where_configured() {
    let clock = ManualClock::new();
    let breaker = half_open(build(|config| config.failure_threshold(1).abandoned_probes_fail()), &clock);
    assert!(poll_once(pin!(breaker.run(pending::<Result<(), ()>>()))).is_pending());
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn classifier_decides_what_is_a_failure() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(once(), &clock);
    let classify = |answer: &Result<u16, ()>| match answer {
        Ok(503) => Verdict::RetryAfter(secs(50)),
        Ok(429) => Verdict::Ignored,
        Ok(500..) => Verdict::Failure,
        Ok(_) | Err(()) => Verdict::Success,
    };
    for answer in [Ok(200), Ok(404), Ok(429), Err(())] {
        assert_eq!(breaker.call_with(|| answer, classify), answer.map_err(CallError::Failed));
        assert_eq!(block_on(breaker.run_with(ready(answer), classify)), answer.map_err(CallError::Failed));
    }
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(breaker.call_with(|| Ok(503), classify), Ok(503), "the answer stays the caller's");
    assert_eq!(breaker.status().next_probe_in(), Some(secs(50)));
}

#[test]
fn permit_records_a_result() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(once(), &clock);
    breaker.try_acquire().unwrap().record_result(&Ok::<(), ()>(()));
    assert_eq!(breaker.state(), State::Closed);
    breaker.try_acquire().unwrap().record_result(&Err::<(), ()>(()));
    assert_eq!(breaker.state(), State::Open);
}

#[cfg(feature = "alloc")]
#[test]
fn owned_permit_outlives_the_borrow() {
    let breaker = std::sync::Arc::new(CircuitBreaker::with_clock(once(), ManualClock::new()));
    let permit = breaker.try_acquire_owned().unwrap();
    std::thread::spawn(move || permit.record_result(&Err::<(), ()>(()))).join().unwrap();
    assert_eq!(breaker.state(), State::Open);
    assert!(breaker.try_acquire_owned().is_err());
}

#[test]
fn refusal_is_found_in_a_chain_of_sources() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(once(), &clock);
    let failed = breaker.call(|| Err::<(), _>(io::Error::other("down"))).unwrap_err();
    assert_eq!((failed.to_string(), failed.source().unwrap().to_string()), ("call failed".into(), "down".into()));
    assert_eq!(CircuitOpen::find_in(&failed), None);
    let refused = breaker.call(|| Err::<(), _>(io::Error::other("down"))).unwrap_err();
    assert_eq!(refused.to_string(), "call refused");
    assert_eq!(refused.source().unwrap().to_string(), "circuit open, next probe in 30 s");
    let open = CircuitOpen::find_in(&refused).copied().unwrap();
    assert_eq!(open.retry_after(), Some(COOLDOWN));
    assert_eq!(CircuitOpen::find_in(&open), Some(&open), "itself");
    // A refusal behind two breakers, wrapped in an error of another library.
    let wrapped = io::Error::other(CallError::<io::Error>::Failed(io::Error::other(refused)));
    assert_eq!(CircuitOpen::find_in(&wrapped), Some(&open));
}

#[test]
fn call_error_returns_the_error_of_the_call() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(once(), &clock);
    let failed = breaker.call(|| Err::<(), _>("down")).unwrap_err();
    assert_eq!((failed.is_refused(), failed.refusal(), failed.into_failed()), (false, None, Some("down")));
    let refused = breaker.call(|| Err::<(), _>("down")).unwrap_err();
    assert_eq!(refused.refusal().and_then(CircuitOpen::retry_after), Some(COOLDOWN));
    assert_eq!((refused.is_refused(), refused.into_failed()), (true, None));
}

#[test]
fn trip_during_a_call_survives_its_success() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(once(), &clock);
    let done = breaker.call(|| {
        trip(&breaker);
        Ok::<_, ()>(7)
    });
    assert_eq!((done, breaker.state()), (Ok(7), State::Open));
}
