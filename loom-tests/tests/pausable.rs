//! Pauses of a limiter: pauses that race one another, and checks.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::{Limiter, Pausable, Quota, RateLimiter, TokenBucket};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn polite<C: damper_core::Clock + Clone>(clock: C) -> Arc<Pausable<RateLimiter<TokenBucket, C>, C>> {
    Arc::new(Pausable::with_clock(RateLimiter::with_clock(Quota::per_second(10), clock.clone()), clock))
}

/// Two first pauses race.
fn longer_stands_model() {
    let polite = polite(Stopped(7));
    let rival = {
        let polite = Arc::clone(&polite);
        thread::spawn(move || {
            polite.pause_for(SECOND);
            assert!(polite.pause_left() >= SECOND, "its own pause stands");
        })
    };
    polite.pause_for(2 * SECOND);
    rival.join().unwrap();
    assert_eq!(polite.pause_left(), 2 * SECOND, "the longer pause stands");
}

#[test]
fn longer_of_two_pauses_stands() {
    check(longer_stands_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "the longer pause stands")]
fn longer_of_two_pauses_stands_unless_flawed() {
    check_flawed(Flaw::BlindExchange, longer_stands_model);
}

/// A pause stands, and one thread makes it longer while another one checks.
///
/// The pausing thread is loom's first: loom runs no other thread between a load and a swap of it, but a later load may see
/// old values.
fn no_gap_model() {
    let polite = polite(Stopped(7));
    polite.pause_for(SECOND);
    let rival = {
        let polite = Arc::clone(&polite);
        thread::spawn(move || assert!(polite.try_acquire(1).is_err(), "one of the pauses stands"))
    };
    polite.pause_for(2 * SECOND);
    rival.join().unwrap();
}

#[test]
fn longer_pause_leaves_no_gap() {
    check(no_gap_model);
}

/// [Nothing is ordered, so that the longer pause is seen before how long it is.]
#[test]
#[should_panic(expected = "one of the pauses stands")]
fn longer_pause_leaves_no_gap_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, no_gap_model);
}

/// A pause stands, one thread makes it longer, and another one pauses for no longer than before.
fn longer_kept_model() {
    let polite = polite(Stopped(7));
    polite.pause_for(SECOND);
    let rival = {
        let polite = Arc::clone(&polite);
        thread::spawn(move || polite.pause_for(SECOND))
    };
    polite.pause_for(2 * SECOND);
    rival.join().unwrap();
    assert_eq!(polite.pause_left(), 2 * SECOND, "the longer pause is kept");
}

#[test]
fn longer_pause_is_kept() {
    check(longer_kept_model);
}

/// [Nothing is ordered.]
#[test]
#[should_panic(expected = "the longer pause is kept")]
fn longer_pause_is_kept_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, longer_kept_model);
}

/// A second pause moves the end while another thread checks.
///
/// It is as long as the one before, and time has passed. [The clock is read before the end.]
#[test]
fn pause_that_grows_while_it_is_read_still_stands() {
    check(|| {
        let time = Time::at(7);
        let polite = polite(time.clone());
        polite.pause_for(SECOND);
        let rival = {
            let polite = Arc::clone(&polite);
            thread::spawn(move || assert!(polite.try_acquire(1).is_err(), "one of the pauses stands"))
        };
        time.advance(SECOND / 2);
        polite.pause_for(SECOND);
        rival.join().unwrap();
        assert_eq!(polite.pause_left(), SECOND, "the later pause stands");
    });
}

/// Time passes between two pauses that race: the one that ends later stands, whichever is stored last.
///
/// [The clock is read once, before the end.]
#[test]
fn pause_that_ends_later_stands() {
    check(|| {
        let time = Time::at(7);
        let polite = polite(time.clone());
        let rival = {
            let polite = Arc::clone(&polite);
            thread::spawn(move || polite.pause_for(SECOND))
        };
        time.advance(2 * SECOND);
        polite.pause_for(2 * SECOND);
        rival.join().unwrap();
        assert_eq!(polite.pause_left(), 2 * SECOND, "the pause that ends later stands");
    });
}
