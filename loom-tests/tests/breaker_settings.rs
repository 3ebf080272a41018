//! Changing the settings of a breaker, and of all keys' limits, while they are used.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::breaker::{BreakerConfigBuilder, SetConfigError, State, Window};
use damper_core::{BreakerConfig, CircuitBreaker, KeyedCircuitBreaker};
use damper_loom_tests::{Constant, Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Trips after so many failures, for so many seconds.
fn tripping(failures: u32, seconds: u64) -> BreakerConfig {
    BreakerConfig::builder().failure_threshold(failures).cooldown(secs(seconds)).build().unwrap()
}

fn breaker(config: BreakerConfig) -> Arc<CircuitBreaker<Stopped>> {
    let breaker = CircuitBreaker::with_clock(config, Stopped(1_000_000_000));
    // Computes what the clock's ticks are worth, once.
    breaker.force_open();
    _ = breaker.state();
    breaker.trip();
    breaker.reset();
    Arc::new(breaker)
}

/// A failure beside two changes trips by the first settings, for their cooldown, or not at all.
///
/// The cooldowns fall, and no change cuts the one that runs.
///
/// [`publish` without its Release fence, or `is_current` without its Acquire fence; `is_current` that is always true;
/// the epoch stored or loaded Relaxed.]
#[test]
fn settings_are_read_whole() {
    check_preemptions(2, settings_are_read_whole_model);
}

#[test]
#[should_panic(expected = "one configuration")]
fn settings_are_read_whole_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, settings_are_read_whole_model);
}

fn settings_are_read_whole_model() {
    let breaker = breaker(tripping(1, 30));
    let caller = {
        let breaker = Arc::clone(&breaker);
        thread::spawn(move || breaker.try_acquire().unwrap().failure())
    };
    breaker.set_config(&tripping(2, 20)).unwrap();
    breaker.set_config(&tripping(3, 10)).unwrap();
    caller.join().unwrap();
    let status = breaker.status();
    let seen = (status.state(), status.next_probe_in(), status.consecutive_failures());
    let valid = [(State::Open, Some(secs(30)), 0), (State::Closed, None, 1)];
    assert!(valid.contains(&seen), "one configuration: {seen:?}");
}

/// A failure while another thread makes two changes, and is stopped anywhere in them.
///
/// It is counted by one of the configurations, and the caller does not wait for that thread: what it sees is judged before the changes
/// are joined. [As for `settings_are_read_whole`: `is_current` that is always true.]
#[test]
fn stopped_changer_holds_no_call_back() {
    check_preemptions(2, || {
        let breaker = breaker(tripping(1, 30));
        let changer = {
            let breaker = Arc::clone(&breaker);
            thread::spawn(move || {
                breaker.set_config(&tripping(2, 20)).unwrap();
                breaker.set_config(&tripping(3, 10)).unwrap();
            })
        };
        breaker.try_acquire().unwrap().failure();
        let status = breaker.status();
        let seen = (status.state(), status.next_probe_in(), status.consecutive_failures());
        let valid = [(State::Open, Some(secs(30)), 0), (State::Closed, None, 1)];
        assert!(valid.contains(&seen), "a whole configuration: {seen:?}");
        changer.join().unwrap();
    });
}

/// The breaker is tripped by hand, or a probe of it fails, while the settings change twice.
///
/// The cooldown is of one configuration, and no change touches it. [A change that cuts the cooldown; `is_current` that is always true.]
#[test]
fn cooldown_is_of_one_configuration() {
    // Of 20 s, 90 s and 8 s after a probe failed; a mix of two of them lasts otherwise.
    let settings = |cooldown, factor| {
        BreakerConfig::builder().failure_threshold(1).cooldown(secs(cooldown)).cooldown_factor(factor).build().unwrap()
    };
    for is_probe in [false, true] {
        check_preemptions(2, move || {
            let clock = Time::at(1_000_000_000);
            let breaker = Arc::new(CircuitBreaker::with_clock(settings(10, 2.0), clock.clone()));
            let mut probe = None;
            if is_probe {
                breaker.trip_for(secs(1));
                clock.advance(secs(1));
                probe = Some(breaker.clone().try_acquire_owned().unwrap());
            }
            let rival = {
                let breaker = Arc::clone(&breaker);
                thread::spawn(move || match probe {
                    Some(probe) => probe.failure(),
                    None => breaker.trip(),
                })
            };
            breaker.set_config(&settings(30, 3.0)).unwrap();
            breaker.set_config(&settings(2, 4.0)).unwrap();
            rival.join().unwrap();
            let seen = breaker.status().next_probe_in().map(|wait| wait.as_secs());
            let valid = if is_probe { [20, 90, 8] } else { [10, 30, 2] };
            assert!(seen.is_some_and(|seen| valid.contains(&seen)), "one configuration: {seen:?}");
        });
    }
}

/// The breaker is tripped for a time while the cooldown is lowered.
///
/// It lasts as long as it was said to. [A change that cuts the cooldown.]
#[test]
fn trip_for_is_not_cut_by_a_change() {
    check(|| {
        let breaker = breaker(tripping(9, 30));
        let rival = {
            let breaker = Arc::clone(&breaker);
            thread::spawn(move || breaker.trip_for(secs(3_600)))
        };
        breaker.set_config(&tripping(9, 5)).unwrap();
        rival.join().unwrap();
        assert_eq!(breaker.status().next_probe_in(), Some(secs(3_600)), "as long as it was tripped for");
    });
}

/// Two threads change the settings at once.
///
/// Each of them succeeds or is refused as busy, and what is in force is one of the configurations, whole. [A claim that
/// is always given; a claim that orders nothing.]
#[test]
fn changers_exclude_one_another() {
    check(changers_exclude_one_another_model);
}

#[test]
#[should_panic]
fn changers_exclude_one_another_unless_flawed() {
    check_flawed(Flaw::BlindExchange, changers_exclude_one_another_model);
}

fn changers_exclude_one_another_model() {
    let breaker = breaker(tripping(9, 10));
    let rival = {
        let breaker = Arc::clone(&breaker);
        thread::spawn(move || breaker.set_config(&tripping(1, 20)))
    };
    let results = [breaker.set_config(&tripping(2, 30)), rival.join().unwrap()];
    assert!(results.iter().all(|result| matches!(result, Ok(()) | Err(SetConfigError::Busy))));
    assert!(results.contains(&Ok(())));
    let failures = (1..=3).find(|_| {
        breaker.try_acquire().unwrap().failure();
        breaker.state() == State::Open
    });
    let seen = (failures, breaker.status().next_probe_in());
    let valid = [(Some(1), Some(secs(20))), (Some(2), Some(secs(30)))];
    assert!(valid.contains(&seen), "one of both: {seen:?}");
}

/// A breaker is tripped for longer than its settings ever say.
///
/// No call takes that for a cooldown that was over long ago. [Room made after the swap; a swap of the word that is
/// Relaxed; the longest cooldown loaded without the fence.]
#[test]
fn long_cooldown_is_not_taken_for_past() {
    check(long_cooldown_is_not_taken_for_past_model);
}

#[test]
#[should_panic(expected = "no probe")]
fn long_cooldown_is_not_taken_for_past_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, long_cooldown_is_not_taken_for_past_model);
}

fn long_cooldown_is_not_taken_for_past_model() {
    let short = BreakerConfig::builder().max_cooldown(secs(30)).max_retry_after(Duration::ZERO);
    let breaker = breaker(short.build().unwrap());
    // Publishes nothing. A load of it lets loom visit the interleaving in which the breaker is tripped: that thread loads the word
    // before it swaps it, and then loom does not try the swap before another thread's load.
    let is_tripped = Arc::new(AtomicBool::new(false));
    let rival = {
        let (breaker, is_tripped) = (Arc::clone(&breaker), Arc::clone(&is_tripped));
        thread::spawn(move || {
            breaker.trip_for(secs(3_600));
            is_tripped.store(true, Ordering::Relaxed);
        })
    };
    is_tripped.load(Ordering::Relaxed);
    _ = breaker.try_acquire().map(drop);
    rival.join().unwrap();
    assert_eq!(breaker.state(), State::Open, "no probe");
}

/// A probe of an earlier half-open state records late when that began.
///
/// The newer state ends in its own time. [A time that is written whatever the generation.]
#[test]
fn late_prober_leaves_a_newer_half_open_state_its_time() {
    check_preemptions(3, || {
        let clock = Time::at(1_000_000_000);
        let config = BreakerConfig::builder().max_half_open(secs(10)).build().unwrap();
        let breaker = Arc::new(CircuitBreaker::with_clock(config, clock.clone()));
        breaker.trip_for(secs(1));
        clock.advance(secs(1));
        let rival = {
            let breaker = Arc::clone(&breaker);
            thread::spawn(move || _ = breaker.try_acquire().map(drop))
        };
        breaker.trip_for(secs(1));
        clock.advance(secs(1));
        let probe = breaker.try_acquire();
        rival.join().unwrap();
        // Of the rival's call or of this one's, at the same time.
        clock.advance(secs(9));
        assert_eq!(breaker.state(), State::HalfOpen);
        clock.advance(secs(1));
        assert_eq!(breaker.state(), State::Open, "in its own time");
        drop(probe);
    });
}

/// A call is recorded while the window changes from one bit for each call to two.
///
/// It counts in the old window or not at all, so that the counts are those of calls. [Settings that go on in a window of another
/// shape.]
#[test]
fn outcomes_of_another_shape_are_not_counted() {
    check_preemptions(2, || {
        let rated =
            |config: BreakerConfigBuilder| config.failure_threshold(u32::MAX).failure_rate(100).minimum_calls(3);
        let breaker = breaker(rated(BreakerConfig::builder()).build().unwrap());
        breaker.try_acquire().unwrap().failure();
        let rival = {
            let breaker = Arc::clone(&breaker);
            thread::spawn(move || breaker.try_acquire().unwrap().failure())
        };
        breaker.set_config(&rated(BreakerConfig::builder()).slow_rate(100, secs(1)).build().unwrap()).unwrap();
        breaker.try_acquire().unwrap().failure();
        rival.join().unwrap();
        let status = breaker.status();
        let counts = (status.calls(), status.failures(), status.slow_calls());
        assert!([(1, 1, 0), (2, 2, 0)].contains(&counts), "calls of the new window: {counts:?}");
    });
}

/// A success in a window full of successes comes beside two changes of the window.
///
/// It counts in the new window or in an old one. Those after it count in the new one. [`is_healthy` with the number of the window that the
/// breaker began with.]
#[test]
fn success_in_a_healthy_window_beside_a_change() {
    check_preemptions(2, || {
        let rated = |calls: u32| {
            let config = BreakerConfig::builder().failure_threshold(u32::MAX).failure_rate(100).minimum_calls(calls);
            config.window(Window::last_calls(calls))
        };
        let small = rated(4).build().unwrap();
        let breaker = breaker(small);
        for _ in 0..48 {
            breaker.try_acquire().unwrap().success();
        }
        let rival = {
            let breaker = Arc::clone(&breaker);
            thread::spawn(move || breaker.try_acquire().unwrap().success())
        };
        breaker.set_config(&rated(4).slow_rate(100, secs(1)).build().unwrap()).unwrap();
        breaker.set_config(&small).unwrap();
        rival.join().unwrap();
        let early = breaker.status().calls();
        assert!(early <= 1, "the rival's, or none");
        breaker.try_acquire().unwrap().success();
        breaker.try_acquire().unwrap().failure();
        let status = breaker.status();
        assert_eq!((status.calls(), status.failures()), (early + 2, 1), "the new window counts");
    });
}

/// A key gets its breaker while the settings of all are changed twice.
///
/// As soon as the last change is made, it has the last ones. [A new breaker that is inserted without a look for changes; breakers that are
/// gone through before the change.]
#[test]
fn new_key_gets_the_changed_settings() {
    check_preemptions(3, || {
        let hosts = KeyedCircuitBreaker::<u32, _, _>::with_clock_and_hasher(tripping(9, 10), 1, Stopped(7), Constant);
        let hosts = Arc::new(hosts.unwrap());
        let rival = {
            let hosts = Arc::clone(&hosts);
            thread::spawn(move || drop(hosts.get_or_create(&7)))
        };
        hosts.set_config(&tripping(5, 20)).unwrap();
        hosts.set_config(&tripping(1, 30)).unwrap();
        let breaker = hosts.get_or_create(&7);
        breaker.try_acquire().unwrap().failure();
        assert_eq!(breaker.state(), State::Open, "the settings of all");
        rival.join().unwrap();
        assert!(Arc::ptr_eq(&breaker, &hosts.get_or_create(&7)));
    });
}
