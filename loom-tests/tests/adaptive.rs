//! Adaptive limits: the windows of samples.
//!
//! In brackets: the weakening of the code under which each model was seen to fail. (`loom-tests/weaken --list
//! adaptive`)
#![cfg(loom)]

use damper_core::AdaptiveLimit;
use damper_core::concurrency::{LimitRule, WindowPlan, WindowSummary};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::cell::Cell;
use std::time::Duration;

std::thread_local! {
    /// The calls of all windows, the peak of the last one, and how many there were.
    ///
    /// All threads of a model run on one thread of the system.
    static CALLS: Cell<u32> = const { Cell::new(0) };
    static PEAK: Cell<u32> = const { Cell::new(0) };
    static WINDOWS: Cell<u32> = const { Cell::new(0) };
    /// The logarithm of the last window's latency in microseconds.
    static LATENCY: Cell<Option<f64>> = const { Cell::new(None) };
}

/// Plans windows of at least so many calls, and looks whether they had them.
///
/// All but the first have this length.
#[derive(Clone, Copy, Debug)]
struct Windows {
    fewest: u32,
    length: Duration,
}

impl LimitRule for Windows {
    fn first(&self) -> WindowPlan {
        WindowPlan { samples: self.fewest, length: Duration::ZERO, ..WindowPlan::new(5) }
    }

    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        let calls = window.successes + window.overloaded;
        assert!(calls >= self.fewest, "a window has the calls that were planned");
        CALLS.set(CALLS.get() + calls);
        PEAK.set(window.peak_in_flight);
        WINDOWS.set(WINDOWS.get() + 1);
        LATENCY.set(window.log2_latency);
        WindowPlan { length: self.length, ..self.first() }
    }
}

type Limit = AdaptiveLimit<Windows, Stopped>;

/// A limit whose first window has begun, by a call that is in none.
fn begun(fewest: u32, length: Duration) -> Arc<Limit> {
    let limit = Arc::new(AdaptiveLimit::with_rule(Windows { fewest, length }, Stopped(7)));
    limit.try_acquire().unwrap().success();
    CALLS.set(0);
    PEAK.set(0);
    WINDOWS.set(0);
    limit
}

fn succeed(limit: &Limit) {
    limit.try_acquire().unwrap().success();
}

fn drop_one(limit: &Limit) {
    limit.try_acquire().unwrap().overloaded();
}

/// One thread makes two calls while another makes one, which may be late for its window.
///
/// Later windows have it.
fn counted_model(call: impl Fn(&Limit) + Copy + Send + 'static) {
    let limit = begun(1, Duration::ZERO);
    let rival = {
        let limit = Arc::clone(&limit);
        thread::spawn(move || call(&limit))
    };
    call(&limit);
    call(&limit);
    rival.join().unwrap();
    call(&limit);
    call(&limit);
    assert_eq!(CALLS.get(), 5, "every sample is counted once");
}

/// [A bank that is read and then emptied, and not swapped.]
// CLAIM: AdaptiveLimit
#[test]
fn every_sample_is_counted_once() {
    check_preemptions(1, || counted_model(succeed));
}

/// [The same of overloaded calls.]
// CLAIM: AdaptiveLimit
#[test]
fn every_drop_is_counted_once() {
    check_preemptions(1, || counted_model(drop_one));
}

/// Two threads end a call each, and either of these may end the window.
fn once_model() {
    let limit = begun(2, Duration::ZERO);
    succeed(&limit);
    let rival = {
        let limit = Arc::clone(&limit);
        thread::spawn(move || succeed(&limit))
    };
    succeed(&limit);
    rival.join().unwrap();
}

/// [A claim that several have; no second look with the claim.]
#[test]
fn no_window_ends_twice() {
    check_preemptions(2, once_model);
}

/// [A claim that is stored and not swapped.]
#[test]
#[should_panic(expected = "a window has the calls that were planned")]
fn no_window_ends_twice_unless_flawed() {
    check_flawed(Flaw::BlindExchange, once_model);
}

/// Two threads end a call each, in a window without a length.
///
/// The next window is a minute long, and the clock stands still.
fn length_model() {
    let limit = begun(1, Duration::from_secs(60));
    let rival = {
        let limit = Arc::clone(&limit);
        thread::spawn(move || succeed(&limit))
    };
    succeed(&limit);
    rival.join().unwrap();
    assert_eq!(WINDOWS.get(), 1, "a window lasts as long as was planned");
}

/// [A claim that does not order.]
#[test]
fn no_window_ends_before_its_time() {
    check_preemptions(2, length_model);
}

/// Two permits at once, of two threads: whichever records the peak last.
fn peak_model() {
    let limit: &'static Limit =
        Box::leak(Box::new(AdaptiveLimit::with_rule(Windows { fewest: 1, length: Duration::ZERO }, Stopped(7))));
    succeed(limit);
    let rival = thread::spawn(|| limit.try_acquire().unwrap());
    let mine = limit.try_acquire().unwrap();
    let rivals = rival.join().unwrap();
    mine.success();
    assert_eq!(PEAK.get(), 2, "both were in flight at once");
    drop(rivals);
}

/// [A peak that is stored without a look at the old one.]
// WORD: The header of an adaptive limit's window
#[test]
fn a_peak_is_the_highest_of_all_threads() {
    check(peak_model);
}

/// Plans a limit of 5 for a window of one call, and then one of 1 for as long as the model runs.
#[derive(Clone, Copy, Debug)]
struct Falling;

impl LimitRule for Falling {
    fn first(&self) -> WindowPlan {
        WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(5) }
    }

    fn next(&mut self, _: &WindowSummary) -> WindowPlan {
        WindowPlan::new(1)
    }
}

/// A call holds the only slot for 10 s. Then two threads ask for one, and again if they are refused.
fn stall_model() {
    let time = Time::at(0);
    let limit = std::sync::Arc::new(AdaptiveLimit::with_rule(Falling, time.clone()));
    limit.try_acquire().unwrap().success();
    limit.try_acquire().unwrap().success();
    let _held = limit.try_acquire_owned().unwrap();
    assert!(limit.try_acquire_owned().is_err());
    time.advance(Duration::from_secs(10));
    let rival = {
        let limit = std::sync::Arc::clone(&limit);
        thread::spawn(move || limit.try_acquire_owned().or_else(|_| limit.try_acquire_owned()))
    };
    let mine = limit.try_acquire_owned().or_else(|_| limit.try_acquire_owned());
    let rivals = rival.join().unwrap();
    assert_eq!(limit.limit(), 2, "one call more than one");
    drop((mine, rivals));
}

/// [No second look with the claim.]
#[test]
fn a_stall_lets_one_call_in() {
    check_preemptions(2, stall_model);
}

/// Calls of one and of three microseconds end at once, on two threads.
///
/// From then on a call that takes no tick counts as half of the least latency.
fn least_model() {
    let time = Time::at(0);
    let rule = Windows { fewest: 1, length: Duration::ZERO };
    let limit = std::sync::Arc::new(AdaptiveLimit::with_rule(rule, time.clone()));
    let long = limit.try_acquire_owned().unwrap();
    time.advance(Duration::from_micros(2));
    let short = limit.try_acquire_owned().unwrap();
    time.advance(Duration::from_micros(1));
    let rival = thread::spawn(move || long.success());
    short.success();
    rival.join().unwrap();
    // Samples that came late are in the windows of the first ones.
    for _ in 0..3 {
        limit.try_acquire().unwrap().success();
    }
    let latency = LATENCY.get().unwrap();
    assert!((latency + 1.0).abs() < 0.1, "half of the least latency counts: 2^{latency} microseconds");
}

/// [The least latency that is stored and not swapped.]
#[test]
fn least_latency_is_that_of_all_threads() {
    check_preemptions(2, least_model);
}
