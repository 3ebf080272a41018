//! Eight threads at once.
//!
//! The generation of a permit is known if the status shows the same one before and after the permit was given. A thread counts a permit
//! only after it got it and until it gives it back, so it never counts more permits than there are.

use crate::circuit_breaker::{by_rate, micros, millis, secs, trip};
use crate::models::part_of::part_of;
use crate::models::seed::seed;
use damper::breaker::{Cause, State, StateChange, Verdict, Window};
use damper::{BreakerConfig, CircuitBreaker, ManualClock};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

const THREADS: u32 = 8;

/// The number of generations after which they wrap.
const GENERATIONS: usize = 8_192;

/// Returns a window of every kind.
fn windows() -> Vec<Window> {
    [
        Window::last_calls(5),
        Window::last_calls(24),
        #[cfg(feature = "alloc")]
        Window::last_calls(48),
        #[cfg(feature = "alloc")]
        Window::last_calls(49),
        #[cfg(feature = "alloc")]
        Window::last_calls(100),
        #[cfg(feature = "alloc")]
        Window::last(millis(900)),
        #[cfg(feature = "alloc")]
        Window::interval(secs(1)),
    ]
    .into()
}

/// The threads' counts of the probes of one generation.
#[derive(Default)]
struct ProbeCounts {
    in_flight: AtomicU32,
    /// Probes in flight, and probes with an outcome.
    used: AtomicU32,
}

/// Pseudo-random numbers, with another sequence for each thread.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Lets eight threads trip the breaker, probe it, drop permits and force it, while one moves the clock.
///
/// It returns the reported changes, ordered by generation.
fn storm(config: BreakerConfig) -> Vec<StateChange> {
    let clock = ManualClock::new();
    let changes = Mutex::new(Vec::new());
    let breaker =
        CircuitBreaker::with_clock(config, &clock).on_state_change(|change| changes.lock().unwrap().push(change));
    let generations: Vec<ProbeCounts> = (0..GENERATIONS).map(|_| ProbeCounts::default()).collect();
    let sample = config.max_probes().max(config.successes_to_close());
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (breaker, clock, generations, seed) = (&breaker, &clock, &generations, seed());
            scope.spawn(move || {
                let mut random = Random(seed.wrapping_add(number.into()));
                for _ in 0..part_of(6_000) {
                    let before = breaker.status();
                    if before.generation() as usize > GENERATIONS - 500 {
                        return;
                    }
                    if number == 0 {
                        clock.advance(micros(random.below(20_000)));
                        if random.below(300) == 0 {
                            match random.below(6) {
                                0 => breaker.force_open(),
                                1 => breaker.force_closed(),
                                2 => breaker.disable(),
                                3 => breaker.metrics_only(),
                                _ => {}
                            }
                            thread::yield_now();
                            breaker.reset();
                        }
                    }
                    let Ok(permit) = breaker.try_acquire() else {
                        thread::yield_now();
                        continue;
                    };
                    let after = breaker.status();
                    assert!(after.probes_in_flight() <= config.max_probes());
                    assert!(after.probes_in_flight() + after.probes_succeeded() + after.probes_failed() <= sample);
                    let is_same = before.generation() == after.generation();
                    let is_next = before.generation() + 1 == after.generation() && before.state() == State::HalfOpen;
                    // A permit in metrics-only mode belongs to no generation.
                    let is_probe = after.state() == State::HalfOpen
                        && after.probes_in_flight() > 0
                        && (is_same || is_next)
                        && !before.is_metrics_only();
                    let probes = is_probe.then(|| &generations[after.generation() as usize]);
                    if let Some(probes) = probes {
                        let in_flight = 1 + probes.in_flight.fetch_add(1, Ordering::SeqCst);
                        let used = 1 + probes.used.fetch_add(1, Ordering::SeqCst);
                        assert!(in_flight <= config.max_probes(), "{in_flight} probes of {}", config.max_probes());
                        assert!(used <= sample, "{used} probes were used of {sample}");
                    }
                    let what = random.below(20);
                    if what < 3 {
                        thread::yield_now();
                    }
                    if let Some(probes) = probes {
                        probes.in_flight.fetch_sub(1, Ordering::SeqCst);
                        if what < 4 {
                            probes.used.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                    match what {
                        0..2 => drop(permit),
                        2..4 => permit.ignore(),
                        4..10 => permit.failure(),
                        _ => permit.success(),
                    }
                }
            });
        }
    });
    let (state, generation) = (breaker.status().state(), breaker.status().generation());
    let mut changes = std::mem::take(&mut *changes.lock().unwrap());
    changes.sort_by_key(StateChange::generation);
    assert_eq!(changes.len(), generation as usize, "each is reported once");
    let last = changes.last().expect("there were some").to();
    assert!(state == last || (state, last) == (State::HalfOpen, State::Open), "{state} after {last}");
    changes
}

/// Asserts that the changes have no gap and follow the state diagram.
fn is_legal_chain(changes: &[StateChange]) {
    let mut state = State::Closed;
    for (number, change) in (1..).zip(changes) {
        assert_eq!((change.generation(), change.from()), (number, state), "{change}");
        state = change.to();
        let is_legal = match change.cause() {
            Cause::ConsecutiveFailures | Cause::FailureRate | Cause::SlowRate => {
                (change.from(), state) == (State::Closed, State::Open)
            }
            Cause::CooldownOver => (change.from(), state) == (State::Open, State::HalfOpen),
            Cause::ProbesSucceeded => (change.from(), state) == (State::HalfOpen, State::Closed),
            Cause::ProbeFailed | Cause::HalfOpenTooLong => (change.from(), state) == (State::HalfOpen, State::Open),
            Cause::Control => !matches!(state, State::Open | State::HalfOpen),
            other => panic!("{other}"),
        };
        assert!(is_legal, "{change}");
    }
}

// CLAIM: CircuitBreaker
#[test]
fn probes_are_limited_and_changes_form_a_chain() {
    for (number, window) in (0..).zip(windows()) {
        let config = BreakerConfig::builder()
            .failure_threshold(4)
            .failure_rate(40)
            .window(window)
            .minimum_calls(5)
            .cooldown(millis(50))
            .max_probes(1 + number % 4)
            .successes_to_close(3);
        let config = if number % 2 == 0 { config } else { config.slow_rate(60, millis(40)) };
        let config = if number % 3 == 0 { config.probe_failure_rate(60) } else { config };
        let config = config.max_half_open(millis(500)).build().unwrap();
        let changes = storm(config);
        is_legal_chain(&changes);
        let closed = changes.iter().filter(|change| change.cause() == Cause::ProbesSucceeded).count();
        assert!(changes.len() > 50 && closed > 5, "{} changes, closed {closed} times", changes.len());
    }
}

/// However threads race, at most `max_probes` are in flight while half-open.
#[test]
fn racing_threads_share_the_probes() {
    let clock = ManualClock::new();
    let config = super::build(|config| config.failure_threshold(1).max_probes(4).successes_to_close(1_000));
    let breaker = CircuitBreaker::with_clock(config, &clock);
    trip(&breaker);
    clock.advance(config.cooldown());
    let out = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..20_000 {
                    if let Ok(probe) = breaker.try_acquire() {
                        let now = 1 + out.fetch_add(1, Ordering::SeqCst);
                        assert!(now <= 4, "{now} probes");
                        if round % 64 == 0 {
                            thread::yield_now();
                        }
                        out.fetch_sub(1, Ordering::SeqCst);
                        drop(probe);
                    }
                }
            });
        }
    });
    assert_eq!((breaker.state(), breaker.status().probes_in_flight()), (State::HalfOpen, 0));
}

/// Makes calls in all threads, each of which fails one call of four.
///
/// Among any nine calls there is a success, so the breaker never trips.
///
/// Returns how many calls there were and how many failed.
fn traffic(breaker: &CircuitBreaker<&ManualClock>, calls: u32) -> (u32, u32) {
    let (made, failed) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (made, failed) = (&made, &failed);
            scope.spawn(move || {
                for call in 0..calls / THREADS {
                    let permit = breaker.try_acquire().expect("nothing trips");
                    made.fetch_add(1, Ordering::Relaxed);
                    if (call + number) % 4 == 0 {
                        failed.fetch_add(1, Ordering::Relaxed);
                        permit.failure();
                    } else {
                        permit.success();
                    }
                }
            });
        }
    });
    assert_eq!(breaker.state(), State::Closed);
    (made.into_inner(), failed.into_inner())
}

fn quiet(clock: &ManualClock, window: Window, slow: bool) -> CircuitBreaker<&ManualClock> {
    let config = by_rate(|config| {
        let config = config.failure_rate(100).minimum_calls(9).window(window);
        if slow { config.slow_rate(100, secs(1)) } else { config }
    });
    CircuitBreaker::with_clock(config, clock)
}

/// Once the threads have stopped, the count of failures matches the window's outcomes.
///
/// They leave the window one by one, until none is left.
#[test]
fn counts_are_exact_once_threads_stop() {
    let sizes: &[u32] = if cfg!(feature = "alloc") { &[24, 48, 49, 100, 500, 4_096] } else { &[24] };
    for &calls in sizes {
        for slow in [false, true] {
            let clock = ManualClock::new();
            let breaker = quiet(&clock, Window::last_calls(calls), slow);
            for _ in 0..5 {
                traffic(&breaker, 20_000);
                let mut failures = breaker.status().failures();
                assert_eq!(breaker.status().calls(), calls);
                assert!(failures <= calls);
                for _ in 0..calls {
                    breaker.try_acquire().unwrap().success();
                    let now = breaker.status().failures();
                    assert!(now == failures || now + 1 == failures, "{now} after {failures}");
                    failures = now;
                }
                assert_eq!(failures, 0, "of {calls}");
            }
        }
    }
}

/// The calls of one register, repeated: no call is lost or counted twice.
#[test]
fn register_counts_every_call() {
    const EACH: u32 = 3;
    for slow in [false, true] {
        let clock = ManualClock::new();
        let breaker = quiet(&clock, Window::last_calls(EACH * THREADS), slow);
        let (ready, done) = (Barrier::new(THREADS as usize), Barrier::new(THREADS as usize));
        // Checked afterwards: a thread at a barrier would wait for one that has panicked.
        let found = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (breaker, ready, done, found) = (&breaker, &ready, &done, &found);
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        ready.wait();
                        for call in 0..EACH {
                            if let Ok(permit) = breaker.try_acquire() {
                                permit.record(Verdict::failure_if(call == number % 4));
                            }
                        }
                        done.wait();
                        if number == 0 {
                            let status = breaker.status();
                            found.lock().unwrap().push((status.calls(), status.failures()));
                            breaker.reset();
                        }
                    }
                });
            }
        });
        // All but two of the eight threads fail one of their calls.
        let expected = (EACH * THREADS, THREADS - 2);
        assert!(found.into_inner().unwrap().into_iter().all(|counts| counts == expected));
    }
}

/// A window that is larger than the number of calls contains all of them.
#[cfg(feature = "alloc")]
#[test]
fn window_of_all_calls_counts_every_call() {
    let windows = [Window::last_calls(4_096), Window::last(secs(10)), Window::interval(secs(10))];
    for window in windows {
        for slow in [false, true] {
            let clock = ManualClock::new();
            let breaker = quiet(&clock, window, slow);
            for _ in 0..20 {
                breaker.reset();
                let (calls, failed) = traffic(&breaker, 4_096);
                let status = breaker.status();
                assert_eq!((status.calls(), status.failures(), status.slow_calls()), (calls, failed, 0));
                clock.advance(millis(1));
            }
        }
    }
}

/// No outcome in the window is lost while the clock moves and buckets change.
#[cfg(feature = "alloc")]
#[test]
fn buckets_count_every_call_while_the_clock_moves() {
    for slow in [false, true] {
        let clock = ManualClock::new();
        let breaker = quiet(&clock, Window::last(secs(1)), slow);
        for _ in 0..20 {
            breaker.reset();
            // All calls are in the window, but not in one bucket.
            clock.advance(secs(1));
            let (calls, failed) = thread::scope(|scope| {
                let traffic = scope.spawn(|| traffic(&breaker, 8_000));
                for _ in 0..80 {
                    clock.advance(millis(10));
                    thread::sleep(micros(50));
                }
                traffic.join().unwrap()
            });
            let status = breaker.status();
            assert_eq!((status.calls(), status.failures()), (calls, failed));
        }
    }
}
