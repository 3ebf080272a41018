//! The guard of skewed clocks: requests that race for a refusal.
//!
//! In brackets: the weakening of the code under which the model was seen to fail.
#![cfg(loom)]

use damper_core::Deadline;
use damper_core::deadline::{Arrival, SkewGuard};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

/// A request that arrives expired: 1 if it is refused.
fn expired<C: damper_core::Clock>(guard: &SkewGuard<C>) -> u32 {
    let deadline = Deadline::with_clock(Duration::ZERO, Stopped(7));
    u32::from(matches!(guard.arrived(&deadline), Arrival::Expired(_)))
}

/// After four requests in time, two race that arrive expired. (Under loom four requests are enough.)
fn refusal_model() {
    let guard = Arc::new(SkewGuard::with_clock(Stopped(7)));
    for _ in 0..4 {
        assert_eq!(guard.arrived(&Deadline::never(Stopped(7))), Arrival::InTime);
    }
    let rival = {
        let guard = Arc::clone(&guard);
        thread::spawn(move || expired(&guard))
    };
    let mine = expired(&guard);
    assert_eq!(mine + rival.join().unwrap(), 1, "one of five is refused");
    assert_eq!(guard.served_expired(), 1);
}

// WORD: The counts of a window of a skew guard
#[test]
fn one_request_of_five_is_refused() {
    check(refusal_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "one of five is refused")]
fn one_request_of_five_is_refused_unless_flawed() {
    check_flawed(Flaw::BlindExchange, refusal_model);
}

/// The counts of a window stay when a late thread counts in the one before the last.
///
/// Both windows have the same word.
fn late_thread_model() {
    let time = Time::at(0);
    let guard = Arc::new(SkewGuard::with_clock(time.clone()));
    let late = {
        let guard = Arc::clone(&guard);
        thread::spawn(move || guard.arrived(&Deadline::never(Stopped(7))))
    };
    time.advance(Duration::from_secs(20));
    let refused: u32 = (0..4).map(|_| expired(&guard)).sum();
    assert_eq!(late.join().unwrap(), Arrival::InTime);
    let refused = refused + expired(&guard) + expired(&guard);
    assert!(refused <= 3, "a late thread forgets no refusal: {refused}");
}

#[test]
fn late_thread_forgets_no_refusal() {
    check_preemptions(2, late_thread_model);
}
