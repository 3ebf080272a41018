//! Pacers: answers and calls of several threads at once.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::Quota;
use damper_core::throttle::{Hints, Moment, NoPacing, Pacer, RemainingDecrease, Strategy};
use damper_loom_tests::{Flaw, Stopped, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Counts answers in both halves of its word, and gives each call a place of its own.
#[derive(Debug)]
struct Counting;

const BOTH_HALVES: u64 = 1 << 32 | 1;

impl Strategy for Counting {
    fn before_call(&self, learned: u64, _: Moment) -> Duration {
        assert_eq!(learned >> 32, learned & 0xFFFF_FFFF, "no word is half of one state and half of another");
        Duration::from_secs(learned >> 32)
    }

    fn answered(&self, learned: &mut u64, _: &Hints, _: Moment) -> Duration {
        *learned += BOTH_HALVES;
        Duration::ZERO
    }

    fn schedule(&self, schedule: &mut u64, _: u64, _: Duration, _: Moment) -> Duration {
        *schedule += 1;
        Duration::from_secs(*schedule)
    }
}

/// Two threads learn from an answer each.
fn answers_model() {
    let pacer = Arc::new(Pacer::with_clock(Counting, Stopped(7), 1));
    let rival = {
        let pacer = Arc::clone(&pacer);
        thread::spawn(move || _ = pacer.answered(&Hints::ACCEPTED))
    };
    pacer.answered(&Hints::ACCEPTED);
    rival.join().unwrap();
    assert_eq!(pacer.peek(), 2 * SECOND, "both answers are learned from");
}

#[test]
fn no_answer_is_lost() {
    check(answers_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "both answers are learned from")]
fn no_answer_is_lost_unless_flawed() {
    check_flawed(Flaw::BlindExchange, answers_model);
}

/// The same of a strategy that is used: two rejections, of which each adds 0.8 s and multiplies by 1.2.
#[test]
fn both_rejections_lengthen_the_sleep() {
    check(|| {
        let strategy = RemainingDecrease::new(Quota::per_hour(4_500));
        let pacer = Arc::new(Pacer::with_clock(strategy, Stopped(7), 1));
        let rival = {
            let pacer = Arc::clone(&pacer);
            thread::spawn(move || pacer.answered(&Hints::REJECTED).unwrap())
        };
        let mine = pacer.answered(&Hints::REJECTED).unwrap();
        let rivals = rival.join().unwrap();
        let (first, second) = (mine.min(rivals), mine.max(rivals));
        let of_the_second = Duration::from_millis(1_760)..=Duration::from_micros(1_936_001);
        assert!(
            first < Duration::from_millis(881) && of_the_second.contains(&second),
            "both answers are learned from: {first:?}, {second:?}"
        );
        assert!(pacer.peek() >= Duration::from_millis(2_112), "both answers are learned from");
    });
}

/// Two calls take a place each. [A place that is stored and not swapped.]
fn places_model() {
    let pacer = Arc::new(Pacer::with_clock(Counting, Stopped(7), 1));
    let rival = {
        let pacer = Arc::clone(&pacer);
        thread::spawn(move || pacer.before_call())
    };
    let mine = pacer.before_call();
    let rivals = rival.join().unwrap();
    assert_eq!(mine.min(rivals), SECOND);
    assert_eq!(mine.max(rivals), 2 * SECOND, "each call has a place of its own");
}

#[test]
fn calls_get_places_of_their_own() {
    check(places_model);
}

#[test]
#[should_panic(expected = "each call has a place of its own")]
fn calls_get_places_of_their_own_unless_flawed() {
    check_flawed(Flaw::BlindExchange, places_model);
}

/// The service asks one thread for 5 s and another for 60 s. [A pause that is stored and not swapped.]
fn pauses_model() {
    let pacer = Arc::new(Pacer::with_clock(NoPacing, Stopped(7), 1));
    let rejected = |seconds| Hints::REJECTED.retry_after(Some(Duration::from_secs(seconds)));
    let rival = {
        let pacer = Arc::clone(&pacer);
        thread::spawn(move || pacer.answered(&rejected(60)).unwrap())
    };
    let mine = pacer.answered(&rejected(5)).unwrap();
    let rivals = rival.join().unwrap();
    assert!(
        mine >= Duration::from_secs(5) && rivals >= Duration::from_secs(60),
        "a retry waits for what its answer asked for"
    );
    assert!(pacer.before_call() >= Duration::from_secs(60), "the longest pause stays");
}

#[test]
fn longest_pause_stays() {
    check_preemptions(3, pauses_model);
}

#[test]
#[should_panic(expected = "the longest pause stays")]
fn longest_pause_stays_unless_flawed() {
    check_flawed(Flaw::BlindExchange, pauses_model);
}
