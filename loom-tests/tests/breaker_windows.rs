//! The windows of breakers.
//!
//! In brackets: the weakenings of the code under which each model was seen to fail.
//!
//! Every window is used as a breaker uses it. A model sees the state of a ring only after a whole lap. So there are
//! long parts in which one thread runs alone, which loom runs fast.
#![cfg(loom)]

use damper_core::breaker::{BreakerConfigBuilder, Permit, State, Window};
use damper_core::{BreakerConfig, CircuitBreaker, Clock};
use damper_loom_tests::{Flaw, Hand, Time};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

type Breaker<C = Hand> = Arc<CircuitBreaker<C>>;

/// Trips by rates alone.
fn rate(percent: u32, minimum_calls: u32) -> BreakerConfigBuilder {
    BreakerConfig::builder().failure_threshold(u32::MAX).failure_rate(percent).minimum_calls(minimum_calls)
}

/// With slow calls, of which there are none: so that a ring has 16 of them in a word.
fn rate_of_slow(percent: u32, minimum_calls: u32) -> BreakerConfigBuilder {
    rate(percent, minimum_calls).slow_rate(100, Duration::from_secs(1_000))
}

fn breaker<C: Clock + Clone>(config: BreakerConfigBuilder, window: Window, clock: &C) -> Breaker<C> {
    let breaker = CircuitBreaker::with_clock(config.window(window).build().unwrap(), clock.clone());
    // Computes what the clock's ticks are worth, once.
    _ = breaker.status();
    drop(breaker.try_acquire());
    Arc::new(breaker)
}

/// Records these outcomes; `F` is a failure.
fn record(breaker: &Breaker<impl Clock>, outcomes: &str) {
    for outcome in outcomes.chars() {
        let permit = breaker.try_acquire().unwrap();
        if outcome == 'F' { permit.failure() } else { permit.success() }
    }
}

/// Records a failure and successes until it has left a window of so many calls.
///
/// A window full of successes is not written. So the ring gets a whole lap only while the failure counts.
fn record_lap(breaker: &Breaker<impl Clock>, calls: u32, message: &str) {
    record(breaker, "F");
    for _ in 1..calls {
        record(breaker, "S");
    }
    assert_eq!(counted(breaker), (calls, 1), "{message}");
    record(breaker, "S");
    assert_eq!(counted(breaker), (calls, 0), "{message}");
}

fn permits<const N: usize, C: Clock>(breaker: &Breaker<C>) -> [Permit<Breaker<C>>; N] {
    std::array::from_fn(|_| breaker.try_acquire_owned().unwrap())
}

/// Calls and failures.
fn counted(breaker: &Breaker<impl Clock>) -> (u32, u32) {
    let status = breaker.status();
    (status.calls(), status.failures())
}

fn builder(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder
}

/// In both settings of damper's atomics, with a bound on preemptions.
fn check(preemptions: usize, model: fn()) {
    builder(preemptions).check(model);
    damper_core::sync::with_loads_as_rmw(|| builder(preemptions).check(model));
}

fn check_flawed(flaw: Flaw, model: fn()) {
    damper_core::sync::with_flaw(flaw, || builder(2).check(model));
}

/// Two threads record two outcomes each in a window of four.
///
/// It holds exactly those, and at no time three failures.
///
/// [A store in place of the swap.]
#[test]
fn register_counts_exactly() {
    check(3, register_counts_exactly_model);
}

#[test]
#[should_panic(expected = "two of four")]
fn register_counts_exactly_unless_flawed() {
    check_flawed(Flaw::BlindExchange, register_counts_exactly_model);
}

fn register_counts_exactly_model() {
    let breaker = breaker(rate(51, 1), Window::last_calls(4), &Hand::default());
    record(&breaker, "SFSS");
    let rival = {
        let [success, failure] = permits(&breaker);
        thread::spawn(move || {
            success.success();
            failure.failure();
        })
    };
    record(&breaker, "FS");
    rival.join().unwrap();
    assert_eq!(counted(&breaker), (4, 2), "two of four");
    assert_eq!(breaker.state(), State::Closed, "in no order were there three");
    record(&breaker, "SSSS");
    assert_eq!(counted(&breaker), (4, 0), "two of four");
}

/// Three threads record an outcome each in a full ring, two of them replacing a failure.
///
/// Its rate is never reached. After another lap, what each of them wrote is where it belongs.
///
/// [A store in place of the swap of the head; `record` that does not write the last outcome.]
#[test]
fn ring_counts_exactly() {
    check(2, ring_counts_exactly_model);
}

#[test]
#[should_panic(expected = "exact")]
fn ring_counts_exactly_unless_flawed() {
    check_flawed(Flaw::BlindExchange, ring_counts_exactly_model);
}

fn ring_counts_exactly_model() {
    // Three failures of 25 are 12 %.
    let breaker = breaker(rate_of_slow(12, 25), Window::last_calls(25), &Hand::default());
    record(&breaker, "FFSSSSSSSSSSSSSSSSSSSSSSS");
    let [failure, success] = permits(&breaker);
    let rivals = [thread::spawn(|| failure.failure()), thread::spawn(|| success.success())];
    record(&breaker, "S");
    for rival in rivals {
        rival.join().unwrap();
    }
    assert_eq!(counted(&breaker), (25, 1), "exact");
    assert_eq!(breaker.state(), State::Closed, "in no order were there three");
    record_lap(&breaker, 25, "exact, and so is the ring");
}

/// One thread goes round the ring while another reads its head.
///
/// It replaces the outcome that the ring holds then.
///
/// [`record` that does not write the last outcome; every access Relaxed, and no fence.]
#[test]
fn ring_matches_its_head() {
    check(0, ring_matches_its_head_model);
}

#[test]
#[should_panic(expected = "the failure was replaced once")]
fn ring_matches_its_head_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, ring_matches_its_head_model);
}

fn ring_matches_its_head_model() {
    // The last one has a word of its own, which is written once a lap: loom remembers few stores of a location.
    let breaker = breaker(rate_of_slow(50, 33), Window::last_calls(33), &Hand::default());
    record(&breaker, "SSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSS");
    let [permit] = permits(&breaker);
    let rival = thread::spawn(|| permit.success());
    record(&breaker, "F");
    record(&breaker, "SSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSS");
    rival.join().unwrap();
    record(&breaker, "S");
    assert_eq!(counted(&breaker), (33, 0), "the failure was replaced once");
    assert_eq!(breaker.state(), State::Closed);
}

/// A record is late, and the ring has begun another generation.
///
/// The late record overwrites no newer outcome.
///
/// [`write_last` without the fence, or without checking the head again; Release of the swap of the ring's word, Acquire
/// of the head's load, or Release of its swap, as Relaxed.]
#[test]
fn late_record_leaves_newer_ring_intact() {
    check(3, late_record_leaves_newer_ring_intact_model);
}

#[test]
#[should_panic(expected = "nothing of the older generation")]
fn late_record_leaves_newer_ring_intact_unless_flawed() {
    check_flawed(Flaw::NoFences, late_record_leaves_newer_ring_intact_model);
}

fn late_record_leaves_newer_ring_intact_model() {
    let breaker = breaker(rate_of_slow(50, 2), Window::last_calls(25), &Hand::default());
    record(&breaker, "F");
    let [late] = permits(&breaker);
    let rival = thread::spawn(|| late.success());
    breaker.reset();
    record(&breaker, "SS");
    rival.join().unwrap();
    assert_eq!(counted(&breaker), (2, 0));
    record_lap(&breaker, 25, "nothing of the older generation");
    assert_eq!(breaker.state(), State::Closed, "nothing of the older generation");
}

/// A late record swaps a word that the next generation writes as well.
///
/// The newer outcome is written nevertheless.
///
/// [`write_last` that takes a failed swap for one of another thread.]
#[test]
fn newer_outcome_survives_a_late_record() {
    check(2, newer_outcome_survives_a_late_record_model);
}

#[test]
#[should_panic(expected = "nothing of the older generation")]
fn newer_outcome_survives_a_late_record_unless_flawed() {
    check_flawed(Flaw::BlindExchange, newer_outcome_survives_a_late_record_model);
}

fn newer_outcome_survives_a_late_record_model() {
    let breaker = breaker(rate_of_slow(50, 25), Window::last_calls(25), &Hand::default());
    // The second word has two of these, the last of which is to be written.
    record(&breaker, "SSSSSSSSSSSSSSSSFS");
    let [late] = permits(&breaker);
    let rival = thread::spawn(|| late.success());
    breaker.reset();
    record(&breaker, "SSSSSSSSSSSSSSSSSS");
    rival.join().unwrap();
    assert_eq!(counted(&breaker), (18, 0), "nothing of the older generation");
    record_lap(&breaker, 25, "nothing of the older generation");
    assert_eq!(breaker.state(), State::Closed, "nothing of the older generation");
}

/// A success in a window full of successes comes beside a failure.
///
/// The window is as if one had come before the other. So the failure leaves it after as many calls as the window has, or one more.
///
/// [`is_healthy` that ignores failures, slow calls, the generation, or that the ring is not full yet.]
fn success_in_a_healthy_window_model(calls: u32, builder: BreakerConfigBuilder) {
    let breaker = breaker(builder.minimum_calls(calls), Window::last_calls(calls), &Hand::default());
    for _ in 0..MOST_IN_A_REGISTER.max(calls) {
        record(&breaker, "S");
    }
    let [success, failure] = permits(&breaker);
    let rival = thread::spawn(|| failure.failure());
    success.success();
    rival.join().unwrap();
    for _ in 2..calls {
        record(&breaker, "S");
    }
    assert_eq!(counted(&breaker), (calls, 1), "the failure is one of the last calls");
    record(&breaker, "SS");
    assert_eq!(counted(&breaker), (calls, 0), "the failure has left");
    breaker.reset();
    record(&breaker, "S");
    assert_eq!(counted(&breaker), (1, 0), "another generation counts its own");
}

/// A register keeps so many outcomes, however few count.
const MOST_IN_A_REGISTER: u32 = 48;

#[test]
fn success_in_a_healthy_window() {
    check(3, || success_in_a_healthy_window_model(4, rate(100, 1)));
    check(3, || success_in_a_healthy_window_model(48, rate(100, 1)));
    check(3, || success_in_a_healthy_window_model(24, rate_of_slow(100, 1)));
    check(3, || success_in_a_healthy_window_model(49, rate(100, 1)));
    check(3, || success_in_a_healthy_window_model(25, rate_of_slow(100, 1)));
}

/// A slow call in a full window is not taken for a success.
#[test]
fn slow_call_in_a_healthy_window() {
    check(1, || {
        for calls in [24, 25] {
            let clock = Hand::default();
            let breaker = breaker(rate_of_slow(100, calls), Window::last_calls(calls), &clock);
            for _ in 0..2 * calls {
                record(&breaker, "S");
            }
            let [slow] = permits(&breaker);
            clock.advance(Duration::from_secs(1_000));
            slow.success();
            for _ in 1..calls {
                record(&breaker, "S");
            }
            assert_eq!(breaker.status().slow_calls(), 1, "the slow one is one of the last calls");
            record(&breaker, "S");
            assert_eq!(breaker.status().slow_calls(), 0, "the slow one has left");
        }
    });
}

/// A failure of the generation before a reset comes while the next generation records its first.
///
/// Neither is counted in the other's, and together they trip nothing.
///
/// [`is_current` that is always true; in a register and in buckets the fence before it; the Release of the swap as
/// Relaxed, in a ring also the Acquire of the head.]
fn older_generation_never_clears_a_newer_window_model(window: Window) {
    let breaker = breaker(rate(100, 2), window, &Hand::default());
    let [late] = permits(&breaker);
    let rival = thread::spawn(|| late.failure());
    breaker.reset();
    record(&breaker, "F");
    rival.join().unwrap();
    assert_eq!((counted(&breaker), breaker.state()), ((1, 1), State::Closed), "one call of this generation");
}

fn late_in_a_register() {
    older_generation_never_clears_a_newer_window_model(Window::last_calls(4));
}

fn late_in_a_ring() {
    older_generation_never_clears_a_newer_window_model(Window::last_calls(49));
}

fn late_in_buckets() {
    older_generation_never_clears_a_newer_window_model(Window::last(Duration::from_secs(1)));
}

fn late_in_an_interval() {
    older_generation_never_clears_a_newer_window_model(Window::interval(Duration::from_secs(1)));
}

#[test]
fn older_generation_never_clears_a_newer_window() {
    for model in [late_in_a_register, late_in_a_ring, late_in_buckets, late_in_an_interval] {
        check(3, model);
    }
}

#[test]
#[should_panic(expected = "one call of this generation")]
fn older_generation_never_clears_a_newer_register_unless_flawed() {
    check_flawed(Flaw::NoFences, late_in_a_register);
}

#[test]
#[should_panic(expected = "one call of this generation")]
fn older_generation_never_clears_a_newer_ring_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, late_in_a_ring);
}

#[test]
#[should_panic(expected = "one call of this generation")]
fn older_generation_never_clears_newer_buckets_unless_flawed() {
    check_flawed(Flaw::NoFences, late_in_buckets);
}

#[test]
#[should_panic(expected = "one call of this generation")]
fn older_generation_never_clears_a_newer_interval_unless_flawed() {
    check_flawed(Flaw::NoFences, late_in_an_interval);
}

/// The record that trips the breaker races another of the same generation and a reset.
///
/// An outcome from before the reset is not counted after it, and trips no second time.
///
/// [`is_current` that is always true; `settle` without the test of the generation.]
fn trip_counts_once_model(window: Window) -> u32 {
    let breaker = breaker(rate(100, 2), window, &Hand::default());
    record(&breaker, "F");
    let permits: [_; 2] = permits(&breaker);
    let [mine, others] = permits;
    let rival = thread::spawn(|| others.failure());
    mine.failure();
    breaker.reset();
    let generation = breaker.status().generation();
    record(&breaker, "F");
    rival.join().unwrap();
    assert_eq!((counted(&breaker), breaker.state()), ((1, 1), State::Closed), "one call of this generation");
    assert_eq!(breaker.status().generation(), generation, "no second trip");
    generation
}

#[test]
fn trip_counts_once() {
    check(3, || assert_eq!(trip_counts_once_model(Window::last_calls(4)), 2, "a trip, a reset"));
    check(3, || assert_eq!(trip_counts_once_model(Window::last_calls(49)), 2, "a trip, a reset"));
    // A thread that interrupts another's sum sums up later, perhaps only after the reset.
    check(2, || assert!(trip_counts_once_model(Window::last(Duration::from_secs(1))) <= 2));
}

#[test]
#[should_panic(expected = "one call of this generation")]
fn trip_counts_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || _ = trip_counts_once_model(Window::last_calls(4)));
}

/// Neither a late call of an older generation nor one of a clock that was ahead is counted.
///
/// The late call is recorded when its bucket is already used by a newer generation. [`count` without its fence, or
/// without checking the line again; Release of the swap of a bucket as Relaxed; a shift of one window's length.]
#[test]
fn buckets_of_an_older_generation_are_ignored() {
    check(3, buckets_of_an_older_generation_are_ignored_model);
}

#[test]
#[should_panic(expected = "one call of this generation")]
fn buckets_of_an_older_generation_are_ignored_unless_flawed() {
    check_flawed(Flaw::NoFences, buckets_of_an_older_generation_are_ignored_model);
}

#[test]
#[should_panic(expected = "one call of this generation")]
fn buckets_of_an_older_generation_are_ignored_unless_blind() {
    check_flawed(Flaw::BlindExchange, buckets_of_an_older_generation_are_ignored_model);
}

fn buckets_of_an_older_generation_are_ignored_model() {
    let clock = Hand::default();
    let breaker = breaker(rate(100, 3), Window::last(Duration::from_secs(1)), &clock);
    clock.advance(Duration::from_millis(200));
    let [late] = permits(&breaker);
    clock.advance(Duration::from_millis(100));
    // A bucket ahead.
    record(&breaker, "F");
    clock.step_back(Duration::from_millis(100));
    let rival = thread::spawn(|| late.failure());
    breaker.reset();
    record(&breaker, "F");
    rival.join().unwrap();
    assert_eq!((counted(&breaker), breaker.state()), ((1, 1), State::Closed), "one call of this generation");
}

/// Two threads record in the same bucket and in the next one.
///
/// All four calls are counted, and no false rate appears.
///
/// [A store in place of the swap.]
#[test]
fn buckets_count_exactly() {
    check(2, buckets_count_exactly_model);
}

#[test]
#[should_panic(expected = "two of six")]
fn buckets_count_exactly_unless_flawed() {
    check_flawed(Flaw::BlindExchange, buckets_count_exactly_model);
}

fn buckets_count_exactly_model() {
    let clock = Hand::default();
    // Two of five are 40 %.
    let breaker = breaker(rate(41, 1), Window::last(Duration::from_secs(1)), &clock);
    record(&breaker, "SS");
    let [failure, success, others] = permits(&breaker);
    clock.advance(Duration::from_millis(100));
    let [next] = permits(&breaker);
    let rival = thread::spawn(|| {
        others.success();
        next.failure();
    });
    failure.failure();
    success.success();
    rival.join().unwrap();
    assert_eq!((counted(&breaker), breaker.state()), ((6, 2), State::Closed), "two of six");
}

/// Time moves to the next interval while a call of this one is recorded.
///
/// The next one holds its own call alone.
///
/// [A store in place of the swap; `count` that replaces a later number by an earlier one.]
#[test]
fn late_call_stays_out_of_the_next_interval() {
    check(3, late_call_stays_out_of_the_next_interval_model);
}

#[test]
#[should_panic(expected = "its own call alone")]
fn late_call_stays_out_of_the_next_interval_unless_flawed() {
    check_flawed(Flaw::BlindExchange, late_call_stays_out_of_the_next_interval_model);
}

fn late_call_stays_out_of_the_next_interval_model() {
    let clock = Time::at(0);
    let breaker = breaker(rate(100, 2), Window::interval(Duration::from_secs(1)), &clock);
    let [late, others] = permits(&breaker);
    others.failure();
    let rival = thread::spawn(|| late.success());
    // Far enough to be out of a window of ten.
    clock.advance(Duration::from_secs(100));
    record(&breaker, "F");
    rival.join().unwrap();
    assert_eq!((counted(&breaker), breaker.state()), ((1, 1), State::Closed), "its own call alone");
}

/// One thread records two successes in a bucket and then a failure in the next one.
///
/// Another thread, which reads the first bucket before and the second one after them, sums up: it sees the successes
/// too. [`sum` of one pass; Acquire of its first pass, or Release of the swap of a bucket, as Relaxed.]
#[test]
fn buckets_show_only_real_rates() {
    check(2, buckets_show_only_real_rates_model);
}

#[test]
#[should_panic(expected = "two of five at the most")]
fn buckets_show_only_real_rates_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, buckets_show_only_real_rates_model);
}

fn buckets_show_only_real_rates_model() {
    let clock = Hand::default();
    let breaker = breaker(rate(50, 4), Window::last(Duration::from_secs(1)), &clock);
    record(&breaker, "FS");
    let successes: [_; 2] = permits(&breaker);
    clock.advance(Duration::from_millis(100));
    let [failure, others] = permits(&breaker);
    let rival = thread::spawn(|| others.success());
    for success in successes {
        success.success();
    }
    failure.failure();
    rival.join().unwrap();
    assert_eq!(breaker.state(), State::Closed, "two of five at the most");
    assert_eq!(counted(&breaker), (6, 2));
}

/// A sum whose first bucket was reused before the second pass decides nothing.
///
/// The thread then does not know how many successes there were. [`sum` that is always taken for whole.]
#[test]
fn overtaken_sum_is_not_judged() {
    check(2, overtaken_sum_is_not_judged_model);
}

#[test]
#[should_panic(expected = "half of them at the most")]
fn overtaken_sum_is_not_judged_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, overtaken_sum_is_not_judged_model);
}

fn overtaken_sum_is_not_judged_model() {
    let clock = Time::at(0);
    let breaker = breaker(rate(60, 4), Window::last(Duration::from_secs(1)), &clock);
    record(&breaker, "F");
    let successes: [_; 3] = permits(&breaker);
    clock.advance(Duration::from_millis(100));
    let [one, other, others] = permits(&breaker);
    let rival = thread::spawn(|| others.success());
    for success in successes {
        success.success();
    }
    one.failure();
    other.failure();
    clock.advance(Duration::from_millis(900));
    record(&breaker, "S");
    rival.join().unwrap();
    assert_eq!(breaker.state(), State::Closed, "half of them at the most");
}
