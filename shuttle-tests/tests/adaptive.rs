//! Adaptive limits: calls of several threads, over many windows.
#![cfg(shuttle)]

use damper_core::AdaptiveLimit;
use damper_core::concurrency::{LimitRule, Outcome, WindowPlan, WindowSummary};
use damper_shuttle_tests::{Time, check, check_flawed, random, time, together};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

std::thread_local! {
    /// The successes and the overloaded calls of all windows.
    ///
    /// All threads of a history run on one thread of the system.
    static SEEN: Cell<[u32; 2]> = const { Cell::new([0; 2]) };
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
}

const FEWEST: u32 = 3;

/// Goes through some limits, whatever the calls are like.
#[derive(Clone, Copy, Debug)]
struct Wandering {
    windows: u32,
}

impl LimitRule for Wandering {
    fn first(&self) -> WindowPlan {
        WindowPlan { samples: FEWEST, length: Duration::ZERO, ..WindowPlan::new(1 + self.windows % 4) }
    }

    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        assert!(!IS_ASKED.replace(true), "one thread at a time asks the rule");
        let [successes, overloaded] = SEEN.get();
        SEEN.set([successes + window.successes, overloaded + window.overloaded]);
        assert!(window.successes + window.overloaded >= FEWEST, "a window has the calls that were planned");
        // Another thread may run here.
        shuttle::thread::yield_now();
        self.windows += 1;
        assert!(IS_ASKED.replace(false));
        self.first()
    }
}

struct Calls {
    limit: AdaptiveLimit<Wandering, Time>,
    made: [AtomicU32; 2],
}

impl Calls {
    fn end_one(&self, outcome: Outcome) {
        let Ok(permit) = self.limit.try_acquire() else { return };
        assert!(self.limit.in_flight() <= 4, "no limit was above 4");
        match outcome {
            Outcome::Success => self.made[0].fetch_add(1, Ordering::Relaxed),
            _ => self.made[1].fetch_add(1, Ordering::Relaxed),
        };
        permit.record(outcome);
    }
}

/// Four threads with six calls each.
///
/// Every call is in one window, however late its sample is. [A bank that is stored; a claim that several have.]
#[test]
fn every_call_is_in_one_window() {
    check(12_000, calls);
}

#[test]
#[should_panic]
fn every_call_is_in_one_window_unless_flawed() {
    check_flawed(calls);
}

fn calls() {
    SEEN.set([0; 2]);
    IS_ASKED.set(false);
    let limit = AdaptiveLimit::with_rule(Wandering { windows: 2 }, time());
    limit.try_acquire().unwrap().success();
    let calls = Arc::new(Calls { limit, made: Default::default() });
    together(4, 6, &calls, |calls, _| {
        calls.end_one(if random(3) == 0 { Outcome::Overloaded } else { Outcome::Success });
    });
    // The samples left in either bank: each window takes one, and leaves it empty.
    for _ in 0..3 {
        let before = SEEN.get();
        while SEEN.get() == before {
            calls.end_one(Outcome::Success);
        }
    }
    assert_eq!(
        SEEN.get(),
        calls.made.each_ref().map(|made| made.load(Ordering::Relaxed)),
        "every call is counted once"
    );
    assert_eq!(calls.limit.in_flight(), 0);
}
