//! The history of a server's latency: outcomes that race for the counts of a window.
#![cfg(loom)]

use damper_core::deadline::UsualLatency;
use damper_loom_tests::{Flaw, Time, check, check_flawed};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

const LATENCY: Duration = Duration::from_millis(50);

/// Two threads record a success each. (Under loom two outcomes are enough for a window.)
fn counting_model() {
    let time = Time::at(0);
    let latency = Arc::new(UsualLatency::with_clock(time.clone()));
    let rival = {
        let latency = Arc::clone(&latency);
        thread::spawn(move || latency.record_success(LATENCY))
    };
    latency.record_success(LATENCY);
    rival.join().unwrap();
    assert_eq!(latency.p90(), Some(LATENCY), "every latency is counted");
    time.advance(Duration::from_secs(10));
    // The window had enough outcomes, so this one is not part of what it found.
    latency.record_success(LATENCY * 2);
    assert_eq!(latency.p90(), Some(LATENCY), "every outcome is counted");
}

// WORD: The outcomes of the present window of a usual latency, in one word
// WORD: The running estimate of a usual latency, in one word
#[test]
fn every_outcome_is_counted() {
    check(counting_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "is counted")]
fn every_outcome_is_counted_unless_flawed() {
    check_flawed(Flaw::BlindExchange, counting_model);
}
