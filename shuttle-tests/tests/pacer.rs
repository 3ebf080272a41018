//! Pacers: answers and calls of several threads, over many of them.
#![cfg(shuttle)]

use damper_core::throttle::{Hints, Moment, Pacer, Strategy};
use damper_shuttle_tests::{check, check_flawed, random, time, together};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Counts rejections and successes in the halves of one word, and gives each call a place of its own.
#[derive(Debug)]
struct Counting;

impl Strategy for Counting {
    fn before_call(&self, learned: u64, _: Moment) -> Duration {
        Duration::from_nanos(learned)
    }

    fn answered(&self, learned: &mut u64, hints: &Hints, _: Moment) -> Duration {
        // Another thread may run here.
        shuttle::thread::yield_now();
        *learned += if hints.is_rejected() { 1 } else { 1 << 32 };
        Duration::ZERO
    }

    fn schedule(&self, schedule: &mut u64, _: u64, _: Duration, _: Moment) -> Duration {
        shuttle::thread::yield_now();
        *schedule += 1;
        Duration::from_nanos(*schedule)
    }
}

struct Calls<C> {
    pacer: Pacer<Counting, C>,
    /// The places that calls got, and the word that answers should have made.
    seen: Mutex<(BTreeSet<Duration>, u64)>,
}

/// Four threads with six calls each. [A word that is stored and not swapped, either one.]
#[test]
fn every_answer_counts_and_every_call_has_its_place() {
    check(6_000, calls);
}

#[test]
#[should_panic]
fn every_answer_counts_and_every_call_has_its_place_unless_flawed() {
    check_flawed(calls);
}

fn calls() {
    let calls = Arc::new(Calls { pacer: Pacer::with_clock(Counting, time(), 1), seen: Mutex::default() });
    together(4, 6, &calls, |calls, _| {
        let mut places = vec![calls.pacer.before_call()];
        let is_rejected = random(3) == 0;
        let hints = if is_rejected { Hints::REJECTED } else { Hints::ACCEPTED };
        places.extend(calls.pacer.answered(&hints));
        let mut seen = calls.seen.lock().unwrap();
        for place in places {
            assert!(seen.0.insert(place), "each call has a place of its own");
        }
        seen.1 += if is_rejected { 1 } else { 1 << 32 };
    });
    let seen = calls.seen.lock().unwrap();
    assert_eq!(calls.pacer.peek(), Duration::from_nanos(seen.1), "every answer is learned from");
}
