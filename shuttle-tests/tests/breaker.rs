//! The circuit breaker with a window: permits that are held over many transitions.
#![cfg(shuttle)]

use damper_core::breaker::{OnStateChange, Permit, State, StateChange, Window};
use damper_core::{BreakerConfig, CircuitBreaker};
use damper_shuttle_tests::{Time, advance, check, check_flawed, random, time, together};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PROBES: usize = 2;
const SUCCESSES: usize = 3;

/// Trips when half of at least four calls failed.
fn config(window: Window) -> BreakerConfig {
    BreakerConfig::builder()
        .failure_threshold(u32::MAX)
        .failure_rate(50)
        .window(window)
        .minimum_calls(4)
        .cooldown(Duration::from_millis(500))
        .max_probes(PROBES as u32)
        .successes_to_close(SUCCESSES as u32)
        .build()
        .unwrap()
}

#[derive(Clone, Debug, Default)]
struct RecordingListener(Arc<Mutex<Vec<StateChange>>>);

impl OnStateChange for RecordingListener {
    fn on_state_change(&self, change: StateChange) {
        self.0.lock().unwrap().push(change);
    }
}

type Breaker = Arc<CircuitBreaker<Time, RecordingListener>>;

/// A permit, and the generations that it may belong to.
struct HeldPermit {
    permit: Permit<Breaker>,
    generations: RangeInclusive<u32>,
}

#[derive(Default)]
struct SeenOutcomes {
    /// Permits in flight whose generation is known, and the most that there were at once.
    in_flight: BTreeMap<u32, usize>,
    most: BTreeMap<u32, usize>,
    /// The outcomes that may have been recorded in a generation.
    failures: BTreeMap<u32, usize>,
    successes: BTreeMap<u32, usize>,
}

struct Harness {
    breaker: Breaker,
    reported: RecordingListener,
    time: Time,
    seen: Mutex<SeenOutcomes>,
}

impl Harness {
    fn new(window: Window) -> Arc<Self> {
        let (reported, time) = (RecordingListener::default(), time());
        let breaker = CircuitBreaker::with_clock(config(window), Arc::clone(&time));
        let breaker = Arc::new(breaker.with_listener(reported.clone()));
        Arc::new(Self { breaker, reported, time, seen: Mutex::default() })
    }

    fn acquire(&self) -> Option<HeldPermit> {
        let before = self.breaker.status().generation();
        let permit = self.breaker.try_acquire_owned().ok()?;
        let generations = before..=self.breaker.status().generation();
        if generations.start() == generations.end() {
            let mut seen = self.seen.lock().unwrap();
            let in_flight = *seen.in_flight.entry(before).and_modify(|in_flight| *in_flight += 1).or_insert(1);
            let most = seen.most.entry(before).or_default();
            *most = in_flight.max(*most);
        }
        Some(HeldPermit { permit, generations })
    }

    fn record(&self, HeldPermit { permit, generations }: HeldPermit) {
        let verdict = random(8);
        {
            let mut seen = self.seen.lock().unwrap();
            if generations.start() == generations.end() {
                *seen.in_flight.get_mut(generations.start()).unwrap() -= 1;
            }
            for generation in generations {
                match verdict {
                    0 => {}
                    1..=4 => *seen.failures.entry(generation).or_default() += 1,
                    _ => *seen.successes.entry(generation).or_default() += 1,
                }
            }
        }
        match verdict {
            0 => drop(permit),
            1..=4 => permit.failure(),
            _ => permit.success(),
        }
    }

    /// Holds up to three permits at once, and records their outcomes in any order.
    fn calls(&self) {
        let mut held = Vec::new();
        for _ in 0..10 {
            match random(8) {
                0 | 1 => advance(&self.time),
                2..=4 if !held.is_empty() => self.record(held.swap_remove(random(held.len() as u64) as usize)),
                _ if held.len() < 3 => held.extend(self.acquire()),
                _ => {}
            }
        }
        for held in held {
            self.record(held);
        }
    }

    /// Checks that every change was reported once, with a cause in its own generation.
    ///
    /// Checks that probes were limited, too.
    fn check_causes(&self) {
        let mut changes = self.reported.0.lock().unwrap().clone();
        changes.sort_by_key(StateChange::generation);
        let seen = self.seen.lock().unwrap();
        let of = |counts: &BTreeMap<u32, usize>, generation| counts.get(&generation).copied().unwrap_or(0);
        let mut last = (0, State::Closed);
        for change in changes {
            let (generation, state) = last;
            assert_eq!((change.generation(), change.from()), (generation + 1, state), "reported once each");
            let (failures, successes) = (of(&seen.failures, generation), of(&seen.successes, generation));
            match (state, change.to()) {
                (State::Closed, State::Open) => assert!(failures >= 2, "tripped by {failures} failures of its own"),
                (State::Open, State::HalfOpen) => {}
                (State::HalfOpen, State::Open) => assert!(failures >= 1, "opened again by no failure of its own"),
                (State::HalfOpen, State::Closed) => {
                    assert!(successes >= SUCCESSES, "closed by {successes} successes of its own");
                }
                other => panic!("{other:?}"),
            }
            last = (change.generation(), change.to());
            if change.to() == State::HalfOpen {
                let most = of(&seen.most, change.generation());
                assert!(most <= PROBES, "{most} probes at once");
            }
        }
        assert_eq!(self.breaker.status().generation(), last.0, "all of them reported");
    }

    /// Checks that there is a permit after each cooldown, until the breaker is closed for good.
    ///
    /// No permit is held any more.
    fn check_recovery(&self) {
        for _ in 0..100 {
            self.time.advance(Duration::from_secs(1));
            self.breaker.try_acquire().expect("closed, or after the cooldown").success();
        }
        assert_eq!((self.breaker.state(), self.breaker.status().probes_in_flight()), (State::Closed, 0));
    }
}

fn outcomes(window: Window) {
    let calls = Harness::new(window);
    together(4, 1, &calls, |calls, _| calls.calls());
    calls.check_causes();
    calls.check_recovery();
}

fn register() {
    outcomes(Window::last_calls(8));
}

fn ring() {
    outcomes(Window::last_calls(60));
}

fn buckets() {
    outcomes(Window::last(Duration::from_secs(10)));
}

/// Four threads hold up to three permits each, over many generations.
///
/// Probes in flight are limited, every change is reported once and has a cause in its own generation, and no probe is
/// lost.
///
/// [Any generation; probes without a limit; notifications after a failed swap.]
#[test]
fn every_transition_has_a_cause_in_its_own_generation() {
    check(4_000, register);
}

#[test]
#[should_panic]
fn every_transition_has_a_cause_in_its_own_generation_unless_flawed() {
    check_flawed(register);
}

/// The same with a ring.
#[test]
fn every_transition_has_a_cause_with_a_ring() {
    check(4_000, ring);
}

#[test]
#[should_panic]
fn every_transition_has_a_cause_with_a_ring_unless_flawed() {
    check_flawed(ring);
}

/// The same with buckets of time.
#[test]
fn every_transition_has_a_cause_with_buckets() {
    check(4_000, buckets);
}

#[test]
#[should_panic]
fn every_transition_has_a_cause_with_buckets_unless_flawed() {
    check_flawed(buckets);
}
