//! The adaptive throttle: calls and probes that race.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::throttle::AdaptiveThrottle;
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

/// Two calls of one bucket end at once.
fn no_call_lost_model() {
    let throttle = std::sync::Arc::new(AdaptiveThrottle::with_clock(Stopped(7), 1));
    let (mine, rivals) = (throttle.try_acquire_owned().unwrap(), throttle.try_acquire_owned().unwrap());
    let rival = thread::spawn(move || rivals.rejected());
    mine.accepted();
    rival.join().unwrap();
    let status = throttle.status();
    assert_eq!((status.requests(), status.accepted()), (2, 1), "both calls are counted");
}

// WORD: The counts of a throttle's bucket
#[test]
fn no_call_is_lost() {
    check(no_call_lost_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "both calls are counted")]
fn no_call_is_lost_unless_flawed() {
    check_flawed(Flaw::BlindExchange, no_call_lost_model);
}

/// Two calls of an outage find that a second has passed since the last one was sent.
///
/// One of them is sent.
///
/// [The moment is stored and not swapped.]
#[test]
fn one_probe_is_sent() {
    check_preemptions(2, || {
        let time = Time::at(0);
        // With this seed the generator sends none of the first calls.
        let throttle = Arc::new(AdaptiveThrottle::with_clock(time.clone(), 1));
        for _ in 0..10 {
            throttle.try_acquire().unwrap().rejected();
        }
        time.advance(Duration::from_secs(2));
        let rival = {
            let throttle = Arc::clone(&throttle);
            thread::spawn(move || throttle.try_acquire().err())
        };
        let mine = throttle.try_acquire().err();
        let refused: Vec<_> = [mine, rival.join().unwrap()].into_iter().flatten().collect();
        assert_eq!(refused.len(), 1, "one probe a second");
        assert_eq!(refused[0].retry_after(), Duration::from_secs(1), "the next probe is a second after this one");
    });
}

/// Two threads change one setting each, of 20 calls of which the service accepted half.
fn settings_model() {
    let throttle = Arc::new(AdaptiveThrottle::with_clock(Stopped(7), 1));
    for _ in 0..10 {
        throttle.try_acquire().unwrap().accepted();
        throttle.try_acquire().unwrap().rejected();
    }
    let rival = {
        let throttle = Arc::clone(&throttle);
        thread::spawn(move || throttle.set_max_refused(0.25).unwrap())
    };
    throttle.set_multiplier(1.1).unwrap();
    rival.join().unwrap();
    assert_eq!(throttle.status().share_refused(), 0.25, "both changes are made");
}

// WORD: The settings of a throttle
#[test]
fn changes_of_two_settings_are_both_made() {
    check(settings_model);
}

/// [The settings are stored and not swapped.]
#[test]
#[should_panic(expected = "both changes are made")]
fn changes_of_two_settings_are_both_made_unless_flawed() {
    check_flawed(Flaw::BlindExchange, settings_model);
}
