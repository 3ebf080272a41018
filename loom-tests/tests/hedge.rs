//! Hedges: counts of extra requests and of latencies that race.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::retry::{Hedge, HedgeConfig};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::cell::Cell;
use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Fails until no attempt is left, and returns the extra requests.
fn extra_requests(hedge: &Hedge<Stopped>) -> u32 {
    let attempts = Cell::new(0);
    let call = hedge.run(|attempt| {
        attempts.set(attempt);
        async { Err::<Infallible, _>(std::fmt::Error) }
    });
    assert!(ready(call.sleeping_by(never)).is_err());
    attempts.get() - 1
}

/// A sleep that does not end.
fn never(_: Duration) -> std::future::Pending<()> {
    std::future::pending()
}

/// The result of a future that is ready at once.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it is ready at once"),
    }
}

/// Of ten extra requests nine are made. Two threads race for the last one.
fn bounded_model() {
    let config = HedgeConfig::builder().max_extra(0.001).max_attempts(2).fixed_delay(Duration::from_secs(1));
    let hedge = Arc::new(Hedge::with_clock(config.build().unwrap(), Stopped(7)));
    for _ in 0..9 {
        assert_eq!(extra_requests(&hedge), 1);
    }
    let rival = {
        let hedge = Arc::clone(&hedge);
        thread::spawn(move || extra_requests(&hedge))
    };
    let mine = extra_requests(&hedge);
    assert_eq!(mine + rival.join().unwrap(), 1, "one is left, one is made");
}

#[test]
fn extra_requests_are_bounded() {
    check(bounded_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "one is left, one is made")]
fn extra_requests_are_bounded_unless_flawed() {
    check_flawed(Flaw::BlindExchange, bounded_model);
}

/// A call that takes so long, on a clock that its operation moves.
fn call_of(hedge: &Hedge<Time>, time: &Time, latency: Duration) {
    let call = hedge.run(|_| {
        time.advance(latency);
        async { Ok::<_, Infallible>(()) }
    });
    ready(call.sleeping_by(never)).unwrap();
}

/// A call, and two of two threads: with all there are enough to say what is slow.
///
/// (For models three are.)
fn counted_model() {
    let time = Time::at(0);
    let hedge = Arc::new(Hedge::with_clock(HedgeConfig::DEFAULT, time.clone()));
    call_of(&hedge, &time, Duration::from_millis(1));
    let rival = {
        let (hedge, time) = (Arc::clone(&hedge), time.clone());
        thread::spawn(move || call_of(&hedge, &time, Duration::from_millis(1)))
    };
    call_of(&hedge, &time, Duration::from_millis(1));
    rival.join().unwrap();
    time.advance(Duration::from_secs(1));
    assert!(hedge.delay().is_some(), "all calls are counted");
}

#[test]
fn every_latency_is_counted() {
    check_preemptions(1, counted_model);
}

/// Thirty seconds after two slow calls two threads make a fast one each.
///
/// Theirs are known, or too few; never the old ones.
fn cleared_model() {
    let time = Time::at(0);
    let hedge = Arc::new(Hedge::with_clock(HedgeConfig::DEFAULT, time.clone()));
    call_of(&hedge, &time, Duration::from_micros(1_900));
    call_of(&hedge, &time, Duration::from_micros(1_900));
    time.advance(Duration::from_secs(30));
    let rival = {
        let (hedge, time) = (Arc::clone(&hedge), time.clone());
        thread::spawn(move || call_of(&hedge, &time, Duration::ZERO))
    };
    call_of(&hedge, &time, Duration::ZERO);
    rival.join().unwrap();
    call_of(&hedge, &time, Duration::ZERO);
    call_of(&hedge, &time, Duration::ZERO);
    time.advance(Duration::from_secs(1));
    let delay = hedge.delay().expect("one of the two is counted, whichever thread cleared the slice");
    assert_eq!(delay, Duration::from_millis(1), "the old calls are gone");
}

#[test]
fn old_latencies_are_cleared() {
    check_preemptions(1, cleared_model);
}
