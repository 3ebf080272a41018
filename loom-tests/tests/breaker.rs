//! The breaker breaker's word.
//!
//! In brackets: the weakenings of the code under which each model was seen to fail.
//!
//! The models run on the real breaker and, with a bug in it, on a small copy. The windows have models in
//! `breaker_windows.rs`.
#![cfg(loom)]

use damper_core::breaker::{
    BreakerConfigBuilder, Cause, OnStateChange, Permit, RecentChanges, State, StateChange, Verdict,
};
use damper_core::{BreakerConfig, CircuitBreaker};
use damper_loom_tests::outcomes::{Bug, ModelBreaker, Rules, SmallBreaker};
use damper_loom_tests::{Flaw, check, check_flawed, check_preemptions};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Shows a later second at every reading, so that a short cooldown is over at the next one.
#[derive(Debug, Default)]
struct Jump(std::sync::atomic::AtomicU64);

impl damper_core::Clock for Jump {
    fn now(&self) -> u64 {
        self.0.fetch_add(1_000_000_000, std::sync::atomic::Ordering::Relaxed)
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

/// Records the reported changes, without an interleaving of its own.
#[derive(Clone, Debug, Default)]
struct RecordingListener(Arc<Mutex<Vec<StateChange>>>);

impl OnStateChange for RecordingListener {
    fn on_state_change(&self, change: StateChange) {
        self.0.lock().unwrap().push(change);
    }
}

#[derive(Clone, Debug)]
struct Real {
    breaker: Arc<CircuitBreaker<Jump, RecordingListener>>,
    reported: RecordingListener,
}

impl Real {
    fn new(config: BreakerConfig) -> Self {
        let reported = RecordingListener::default();
        let breaker = CircuitBreaker::with_clock(config, Jump::default()).with_listener(reported.clone());
        // Computes what the clock's ticks are worth, once.
        breaker.force_open();
        breaker.reset();
        breaker.try_acquire().unwrap().failure();
        breaker.reset();
        _ = breaker.status();
        reported.0.lock().unwrap().clear();
        Self { breaker: Arc::new(breaker), reported }
    }

    fn of(rules: Rules) -> Self {
        Self::new(config(rules).build().unwrap())
    }
}

fn config(Rules { failures, probes, successes }: Rules) -> BreakerConfigBuilder {
    BreakerConfig::builder()
        .failure_threshold(failures)
        .cooldown(Duration::from_millis(1))
        .max_probes(probes)
        .successes_to_close(successes)
}

impl ModelBreaker for Real {
    type Permit = Permit<Arc<CircuitBreaker<Jump, RecordingListener>>>;

    fn acquire(&self) -> Option<Self::Permit> {
        self.breaker.try_acquire_owned().ok()
    }

    fn record(&self, permit: Self::Permit, verdict: Verdict) {
        permit.record(verdict);
    }

    fn force_open(&self) {
        self.breaker.force_open();
    }

    fn reset(&self) {
        self.breaker.reset();
    }

    fn state(&self) -> State {
        self.breaker.state()
    }

    fn reported(&self) -> Vec<(u32, State)> {
        self.reported.0.lock().unwrap().iter().map(|change| (change.generation(), change.to())).collect()
    }
}

/// Checks that every change was reported once, with a generation of its own.
///
/// Returns the new states in their order.
fn reported_states(breaker: &impl ModelBreaker) -> Vec<State> {
    let mut reported = breaker.reported();
    reported.sort_by_key(|&(generation, _)| generation);
    assert!(
        reported.windows(2).all(|two| two[0].0 + 1 == two[1].0),
        "reported once each, with consecutive generations: {reported:?}"
    );
    reported.into_iter().map(|(_, state)| state).collect()
}

/// Checks a model of the real breaker, with two threads, in every interleaving.
fn check_real(rules: Rules, model: fn(Real)) {
    check(move || model(Real::of(rules)));
}

/// As `check_real`, with three threads.
fn check_three(rules: Rules, model: fn(Real)) {
    check_preemptions(3, move || model(Real::of(rules)));
}

/// Runs a model of the real breaker on swaps that do not compare.
fn check_blind(rules: Rules, model: fn(Real)) {
    check_flawed(Flaw::BlindExchange, move || model(Real::of(rules)));
}

/// Checks a model of the copy.
fn check_small(bug: Bug, rules: Rules, model: fn(SmallBreaker)) {
    check_preemptions(3, move || model(SmallBreaker::new(bug, rules)));
}

/// Two successes are needed, so that only `probes` limits the probes in flight.
const ONE_PROBE: Rules = Rules { failures: 1, probes: 1, successes: 2 };

/// Three threads call a breaker whose cooldown is over.
///
/// One probe is in flight at a time, and a dropped probe frees its place.
///
/// [`admit_probe` without the test of `max_probes`; a store in place of the swap.]
fn probes_are_limited_model<C: ModelBreaker>(breaker: C) {
    breaker.failure();
    let in_flight = Arc::new(AtomicU32::new(0));
    let probe_once = |breaker: &C, in_flight: &AtomicU32| {
        if let Some(probe) = breaker.acquire() {
            assert_eq!(in_flight.fetch_add(1, Ordering::Relaxed), 0, "one probe at a time");
            in_flight.fetch_sub(1, Ordering::Relaxed);
            breaker.record(probe, Verdict::Ignored);
        }
    };
    let rivals: Vec<_> = (0..2)
        .map(|_| {
            let (breaker, in_flight) = (breaker.clone(), Arc::clone(&in_flight));
            thread::spawn(move || probe_once(&breaker, &in_flight))
        })
        .collect();
    probe_once(&breaker, &in_flight);
    for rival in rivals {
        rival.join().unwrap();
    }
    assert_eq!(breaker.state(), State::HalfOpen);
    assert!(breaker.acquire().is_some(), "every place is free again");
}

// CLAIM: CircuitBreaker
#[test]
fn probes_are_limited() {
    check_three(ONE_PROBE, probes_are_limited_model);
}

#[test]
#[should_panic(expected = "one probe at a time")]
fn probes_are_limited_unless_flawed() {
    check_blind(ONE_PROBE, probes_are_limited_model);
}

#[test]
#[should_panic(expected = "one probe at a time")]
fn unlimited_probes_are_noticed() {
    check_small(Bug::NoLimit, ONE_PROBE, probes_are_limited_model);
}

/// Two threads see that the cooldown is over: there is one transition, and it is reported once.
///
/// [`replace` that notifies after a failed swap; a store in place of the swap.]
fn cooldown_end_notifies_once_model<C: ModelBreaker>(breaker: C) {
    breaker.failure();
    let rival = {
        let breaker = breaker.clone();
        thread::spawn(move || breaker.acquire())
    };
    let probes = [breaker.acquire(), rival.join().unwrap()];
    assert_eq!(probes.iter().flatten().count(), 1, "one probe");
    assert_eq!(reported_states(&breaker), [State::Open, State::HalfOpen]);
    for probe in probes.into_iter().flatten() {
        breaker.record(probe, Verdict::Ignored);
    }
}

#[test]
fn cooldown_end_notifies_once() {
    check_preemptions(4, || cooldown_end_notifies_once_model(Real::of(ONE_PROBE)));
}

#[test]
#[should_panic(expected = "one probe")]
fn cooldown_end_notifies_once_unless_flawed() {
    check_blind(ONE_PROBE, cooldown_end_notifies_once_model);
}

#[test]
#[should_panic(expected = "reported once each")]
fn double_notification_of_cooldown_end_is_noticed() {
    check_small(Bug::NotifiesAnyway, ONE_PROBE, cooldown_end_notifies_once_model);
}

const FIRST_DECIDES: Rules = Rules { failures: 1, probes: 1, successes: 1 };

/// Results of calls that were permitted while closed race a probe: the probe alone decides.
///
/// [`settle` without the test of the generation.]
fn late_result_is_discarded_model<C: ModelBreaker>(breaker: C) {
    let late = [breaker.acquire().unwrap(), breaker.acquire().unwrap()];
    breaker.failure();
    let rival = {
        let breaker = breaker.clone();
        thread::spawn(move || {
            let [failure, dropped] = late;
            breaker.record(failure, Verdict::Failure);
            breaker.record(dropped, Verdict::Ignored);
        })
    };
    let probe = breaker.acquire().unwrap();
    assert!(breaker.acquire().is_none(), "a late drop frees no place");
    breaker.record(probe, Verdict::Success);
    rival.join().unwrap();
    assert_eq!(breaker.state(), State::Closed, "a late failure does not open it");
    assert_eq!(reported_states(&breaker), [State::Open, State::HalfOpen, State::Closed]);
}

// CLAIM: CircuitBreaker
#[test]
fn late_result_is_discarded() {
    check_real(FIRST_DECIDES, late_result_is_discarded_model);
}

#[test]
#[should_panic(expected = "a late")]
fn accepted_late_result_is_noticed() {
    check_small(Bug::AnyGeneration, FIRST_DECIDES, late_result_is_discarded_model);
}

const THIRD_TRIPS: Rules = Rules { failures: 3, probes: 1, successes: 1 };

/// Failures race at the threshold.
///
/// Every one counts, and the third trips the breaker, which is reported once.
///
/// [A store in place of the swap of the word; `replace` that notifies after a failed swap.]
fn every_failure_counts_model<C: ModelBreaker>(breaker: C) {
    let rivals: Vec<_> = (0..2)
        .map(|_| {
            let breaker = breaker.clone();
            let permit = breaker.acquire().unwrap();
            thread::spawn(move || breaker.record(permit, Verdict::Failure))
        })
        .collect();
    breaker.failure();
    for rival in rivals {
        rival.join().unwrap();
    }
    assert_eq!(reported_states(&breaker), [State::Open], "three failures");
}

#[test]
fn every_failure_counts() {
    check_three(THIRD_TRIPS, every_failure_counts_model);
}

#[test]
#[should_panic(expected = "three failures")]
fn every_failure_counts_unless_flawed() {
    check_blind(THIRD_TRIPS, every_failure_counts_model);
}

/// Two failures race at the threshold of one: the second one is of an older generation.
///
/// [`replace` that notifies after a failed swap; a store in place of the swap.]
fn trip_notifies_once_model<C: ModelBreaker>(breaker: C) {
    let permit = breaker.acquire().unwrap();
    let mine = breaker.acquire().unwrap();
    let rival = {
        let breaker = breaker.clone();
        thread::spawn(move || breaker.record(permit, Verdict::Failure))
    };
    breaker.record(mine, Verdict::Failure);
    rival.join().unwrap();
    assert_eq!(reported_states(&breaker), [State::Open], "it trips once");
}

#[test]
fn trip_notifies_once() {
    check_real(FIRST_DECIDES, trip_notifies_once_model);
}

#[test]
#[should_panic(expected = "reported once each")]
fn trip_notifies_once_unless_flawed() {
    check_blind(FIRST_DECIDES, trip_notifies_once_model);
}

#[test]
#[should_panic(expected = "reported once each")]
fn double_notification_of_trip_is_noticed() {
    check_small(Bug::NotifiesAnyway, FIRST_DECIDES, trip_notifies_once_model);
}

/// Two changes race, and a third thread reads what is recorded.
///
/// It shows only changes that were made, in their order.
///
/// Afterwards all are there, and every opening is counted.
///
/// [All changes kept in one place; the one that leaves the closed state stored relaxed; openings counted by a load and a store.]
#[test]
fn recorded_changes_are_those_that_were_made() {
    check_three(FIRST_DECIDES, |real| {
        let before = real.breaker.recent_changes();
        let rivals: [fn(&Real); 2] = [|real| real.breaker.trip(), |real| real.breaker.force_open()];
        let rivals = rivals.map(|change| {
            let real = real.clone();
            thread::spawn(move || change(&real))
        });
        let shown = |changes: &RecentChanges| changes.iter().map(|(change, _)| change).collect::<Vec<_>>();
        let during = shown(&real.breaker.recent_changes());
        rivals.into_iter().for_each(|rival| rival.join().unwrap());
        let after = real.breaker.recent_changes();
        let reported = real.reported.0.lock().unwrap().clone();
        let made = [shown(&before), reported.clone()].concat();
        assert!(during.iter().all(|change| made.contains(change)), "no change was made like one of {during:?}");
        assert!(during.is_sorted_by_key(|change| change.generation()), "in their order: {during:?}");
        let after_all = shown(&after);
        assert!(reported.iter().all(|change| after_all.contains(change)), "a change is missing: {after_all:?}");
        assert!(after_all.windows(2).all(|two| two[0].to() == two[1].from()), "in their order: {after_all:?}");
        let openings = reported.iter().filter(|change| matches!(change.to(), State::Open | State::ForcedOpen)).count();
        assert_eq!(after.openings() - before.openings(), openings as u32, "every opening is counted");
    });
}

/// One thread fails, succeeds and fails again, after a failure, while another fails.
///
/// In no order are three failures consecutive.
///
/// [`settle` that gives up when the swap of a success fails; a store in place of the swap.]
fn success_resets_consecutive_failures_model<C: ModelBreaker>(breaker: C) {
    breaker.failure();
    let permit = breaker.acquire().unwrap();
    let rival = {
        let breaker = breaker.clone();
        thread::spawn(move || breaker.record(permit, Verdict::Failure))
    };
    breaker.success();
    breaker.failure();
    rival.join().unwrap();
    assert_eq!(breaker.reported(), [], "two consecutive failures at most");
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn success_resets_consecutive_failures() {
    check_real(THIRD_TRIPS, success_resets_consecutive_failures_model);
}

#[test]
#[should_panic(expected = "two consecutive failures at most")]
fn success_resets_consecutive_failures_unless_flawed() {
    check_blind(THIRD_TRIPS, success_resets_consecutive_failures_model);
}

#[test]
#[should_panic(expected = "two consecutive failures at most")]
fn lost_success_is_noticed() {
    check_small(Bug::LostSuccess, THIRD_TRIPS, success_resets_consecutive_failures_model);
}

const SECOND_TRIPS: Rules = Rules { failures: 2, probes: 1, successes: 1 };

/// Two consecutive failures trip the breaker while another thread succeeds.
///
/// A success between the two prevents the trip; otherwise the breaker stays open. [A store in place of the swap.]
fn trip_survives_a_concurrent_success_model<C: ModelBreaker>(breaker: C) {
    let success = breaker.acquire().unwrap();
    let rival = {
        let breaker = breaker.clone();
        thread::spawn(move || breaker.record(success, Verdict::Success))
    };
    breaker.failure();
    breaker.failure();
    rival.join().unwrap();
    if breaker.state() == State::Closed {
        assert_eq!(reported_states(&breaker), [], "a trip stays");
        breaker.failure();
    }
    assert_eq!(reported_states(&breaker), [State::Open], "two consecutive failures");
}

#[test]
fn trip_survives_a_concurrent_success() {
    check_real(SECOND_TRIPS, trip_survives_a_concurrent_success_model);
}

#[test]
#[should_panic(expected = "a trip stays")]
fn trip_survives_a_concurrent_success_unless_flawed() {
    check_blind(SECOND_TRIPS, trip_survives_a_concurrent_success_model);
}

const TWO_PROBES: Rules = Rules { failures: 1, probes: 2, successes: 1 };

/// A success and a failure of two probes race.
///
/// The first decides, and the other is of an older generation by then.
///
/// [A transition that keeps its generation; `settle` without the test of it.]
fn first_verdict_decides_model<C: ModelBreaker>(breaker: C) {
    breaker.failure();
    let [success, failure] = [breaker.acquire().unwrap(), breaker.acquire().unwrap()];
    let rival = {
        let breaker = breaker.clone();
        thread::spawn(move || breaker.record(success, Verdict::Success))
    };
    breaker.record(failure, Verdict::Failure);
    rival.join().unwrap();
    match reported_states(&breaker)[..] {
        [State::Open, State::HalfOpen, State::Closed] => assert_eq!(breaker.state(), State::Closed),
        [State::Open, State::HalfOpen, State::Open] => {
            let two = [breaker.acquire(), breaker.acquire()];
            assert!(two.iter().all(Option::is_some), "the late success freed no place");
            assert!(breaker.acquire().is_none(), "and took none");
            for probe in two.into_iter().flatten() {
                breaker.record(probe, Verdict::Ignored);
            }
        }
        ref reported => panic!("two verdicts, one decision: {reported:?}"),
    }
}

// WORD: The PAYLOAD of 64 bits in the half-open state
#[test]
fn first_verdict_decides() {
    check_real(TWO_PROBES, first_verdict_decides_model);
}

#[test]
#[should_panic(expected = "two verdicts, one decision")]
fn deciding_second_verdict_is_noticed() {
    check_small(Bug::AnyGeneration, TWO_PROBES, first_verdict_decides_model);
}

#[test]
#[should_panic(expected = "reported once each")]
fn unchanged_generation_is_noticed() {
    check_small(Bug::KeepsGeneration, TWO_PROBES, first_verdict_decides_model);
}

/// A permit is dropped while another closes the breaker, which then trips again.
///
/// The drop frees its own place, or none.
///
/// [`settle` without the test of the generation; a store in place of the swap.]
fn dropped_permit_frees_only_its_own_place_model<C: ModelBreaker>(breaker: C) {
    breaker.failure();
    let [success, dropped] = [breaker.acquire().unwrap(), breaker.acquire().unwrap()];
    let rival = {
        let breaker = breaker.clone();
        thread::spawn(move || breaker.record(dropped, Verdict::Ignored))
    };
    breaker.record(success, Verdict::Success);
    assert_eq!(breaker.state(), State::Closed, "whether the other was dropped or not");
    breaker.failure();
    let probes = [breaker.acquire().unwrap(), breaker.acquire().unwrap()];
    assert!(breaker.acquire().is_none(), "a place of an earlier generation");
    rival.join().unwrap();
    assert!(breaker.acquire().is_none(), "a place of an earlier generation");
    for probe in probes {
        breaker.record(probe, Verdict::Ignored);
    }
}

#[test]
fn dropped_permit_frees_only_its_own_place() {
    check_real(TWO_PROBES, dropped_permit_frees_only_its_own_place_model);
}

#[test]
#[should_panic(expected = "a place of an earlier generation")]
fn dropped_permit_frees_only_its_own_place_unless_flawed() {
    check_blind(TWO_PROBES, dropped_permit_frees_only_its_own_place_model);
}

#[test]
#[should_panic(expected = "a place of an earlier generation")]
fn place_freed_in_later_generation_is_noticed() {
    check_small(Bug::AnyGeneration, TWO_PROBES, dropped_permit_frees_only_its_own_place_model);
}

/// The breaker is forced open and reset while a probe is in flight.
///
/// Its verdict counts before that or not at all, and every change is reported once.
///
/// [`settle` without the test of the generation; a store in place of the swap; a transition that keeps its generation.]
fn forced_state_stays_model<C: ModelBreaker>(breaker: C, verdict: Verdict, decision: State) {
    breaker.failure();
    let probe = breaker.acquire().unwrap();
    let rival = {
        let breaker = breaker.clone();
        thread::spawn(move || breaker.record(probe, verdict))
    };
    breaker.force_open();
    assert_eq!(breaker.state(), State::ForcedOpen, "a late verdict");
    breaker.reset();
    rival.join().unwrap();
    assert_eq!(breaker.state(), State::Closed, "a late verdict");
    let reported = reported_states(&breaker);
    let (before, after) = ([State::Open, State::HalfOpen], [State::ForcedOpen, State::Closed]);
    assert!(
        reported == [before, after].concat() || reported == [&before[..], &[decision], &after].concat(),
        "the reported changes: {reported:?}"
    );
}

fn success_while_forced_model<C: ModelBreaker>(breaker: C) {
    forced_state_stays_model(breaker, Verdict::Success, State::Closed);
}

fn failure_while_forced_model<C: ModelBreaker>(breaker: C) {
    forced_state_stays_model(breaker, Verdict::Failure, State::Open);
}

#[test]
fn forced_state_stays() {
    check_real(FIRST_DECIDES, success_while_forced_model);
    check_real(FIRST_DECIDES, failure_while_forced_model);
}

#[test]
#[should_panic(expected = "reported once each")]
fn forced_state_stays_unless_flawed() {
    check_blind(FIRST_DECIDES, success_while_forced_model);
}

#[test]
#[should_panic(expected = "a late verdict")]
fn late_failure_after_reset_is_noticed() {
    check_small(Bug::AnyGeneration, FIRST_DECIDES, failure_while_forced_model);
}

#[test]
#[should_panic(expected = "reported once each")]
fn unchanged_generation_when_forced_is_noticed() {
    check_small(Bug::KeepsGeneration, FIRST_DECIDES, success_while_forced_model);
}

/// Two threads force a breaker, one open and one closed again.
///
/// Each change is reported once, and the last stays.
///
/// [A store in place of the swap; `replace` that notifies after a failed swap.]
fn two_forced_changes_are_both_reported_model<C: ModelBreaker>(breaker: C) {
    let rival = {
        let breaker = breaker.clone();
        thread::spawn(move || breaker.force_open())
    };
    breaker.reset();
    rival.join().unwrap();
    let reported = reported_states(&breaker);
    assert!(reported.len() == 2 && reported[0] != reported[1], "one each: {reported:?}");
    assert_eq!(reported[1], breaker.state(), "the last one stays");
}

#[test]
fn two_forced_changes_are_both_reported() {
    check_real(FIRST_DECIDES, two_forced_changes_are_both_reported_model);
}

#[test]
#[should_panic(expected = "reported once each")]
fn two_forced_changes_are_both_reported_unless_flawed() {
    check_blind(FIRST_DECIDES, two_forced_changes_are_both_reported_model);
}

/// The time half-open is over while its probe returns.
///
/// Either the probe closes the breaker first, or the breaker opens again and the probe is late. Each change is reported
/// once.
///
/// [A store in place of the swap; `settle` without the test of the generation.]
#[test]
fn half_open_timeout_races_a_returning_probe() {
    check(half_open_too_long_model);
}

#[test]
#[should_panic(expected = "reported once each")]
fn half_open_timeout_races_a_returning_probe_unless_flawed() {
    check_flawed(Flaw::BlindExchange, half_open_too_long_model);
}

fn half_open_too_long_model() {
    // Every reading of the clock is a second later: so it is over at the first.
    let real = Real::new(config(FIRST_DECIDES).max_half_open(Duration::from_millis(600)).build().unwrap());
    real.failure();
    let probe = real.acquire().unwrap();
    let rival = thread::spawn(move || probe.success());
    let next = real.acquire();
    rival.join().unwrap();
    assert!(next.is_some(), "the cooldown after it is over too");
    let reported: Vec<_> = real.reported.0.lock().unwrap().iter().map(|change| (change.to(), change.cause())).collect();
    let states = reported_states(&real);
    if states.contains(&State::Closed) {
        assert_eq!(states, [State::Open, State::HalfOpen, State::Closed]);
        assert_eq!(real.state(), State::Closed);
    } else {
        assert_eq!(states, [State::Open, State::HalfOpen, State::Open, State::HalfOpen], "a late success");
        assert_eq!(reported[2].1, Cause::HalfOpenTooLong);
        assert_eq!(real.state(), State::Open, "at the next reading the second probe has taken too long as well");
        next.unwrap().success();
        assert_eq!(real.state(), State::Closed, "until it succeeds");
    }
}

#[test]
fn the_copy_is_right() {
    check_small(Bug::None, ONE_PROBE, probes_are_limited_model);
    check_small(Bug::None, ONE_PROBE, cooldown_end_notifies_once_model);
    check_small(Bug::None, FIRST_DECIDES, late_result_is_discarded_model);
    check_small(Bug::None, FIRST_DECIDES, trip_notifies_once_model);
    check_small(Bug::None, THIRD_TRIPS, every_failure_counts_model);
    check_small(Bug::None, THIRD_TRIPS, success_resets_consecutive_failures_model);
    check_small(Bug::None, SECOND_TRIPS, trip_survives_a_concurrent_success_model);
    check_small(Bug::None, TWO_PROBES, first_verdict_decides_model);
    check_small(Bug::None, TWO_PROBES, dropped_permit_frees_only_its_own_place_model);
    check_small(Bug::None, FIRST_DECIDES, success_while_forced_model);
    check_small(Bug::None, FIRST_DECIDES, failure_while_forced_model);
    check_small(Bug::None, FIRST_DECIDES, two_forced_changes_are_both_reported_model);
}
