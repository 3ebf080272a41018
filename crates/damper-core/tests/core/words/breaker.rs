//! The breaker on a word against the breaker that has its words for itself.

use super::Ticking;
use crate::models::cases::cases;
use damper::breaker::{State, Window};
use damper::words::{AtomicU64, WordBreaker};
use damper::{BreakerConfig, CallError, CircuitBreaker, Clock, ManualClock};
use proptest::prelude::*;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A call of a process asks for a permit.
    Acquire(u8),
    /// Ends the oldest or the newest call in flight: as a success, a failure, ignored, or dropped.
    End(bool, u8),
    /// A call asks and ends at once.
    Call(u8, u8),
    Pass(u16),
}

fn configs() -> impl Strategy<Value = BreakerConfig> {
    let rate = proptest::option::of((1..=100u32, 1..=48u32, 1..=48u32));
    (1..8u32, rate, (1..4u32, 1..4u32), any::<bool>(), 1..=3u8).prop_map(
        |(threshold, rate, (probes, successes), abandoned, factor)| {
            let mut config = BreakerConfig::builder()
                .failure_threshold(threshold)
                .cooldown(Duration::from_secs(10))
                .max_cooldown(Duration::from_secs(60))
                .cooldown_factor(f64::from(factor))
                .max_probes(probes)
                .successes_to_close(successes)
                .max_half_open(Duration::from_secs(15));
            if let Some((percent, calls, minimum)) = rate {
                let threshold = if threshold > 5 { u32::MAX } else { threshold * 3 };
                config = config.failure_threshold(threshold).failure_rate(percent);
                config = config.window(Window::last_calls(calls)).minimum_calls(minimum);
            }
            if abandoned {
                config = config.abandoned_probes_fail();
            }
            config.build().unwrap()
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => any::<u8>().prop_map(Step::Acquire),
        4 => any::<(bool, u8)>().prop_map(|(is_oldest, outcome)| Step::End(is_oldest, outcome)),
        12 => any::<(u8, u8)>().prop_map(|(process, outcome)| Step::Call(process, outcome)),
        // Never at the very end of a time, which is rounded up in the word.
        3 => (0..40u16).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..300)
}

/// Ends a call.
macro_rules! end {
    ($permit:expr, $outcome:expr) => {
        match $outcome % 8 {
            0..=2 => $permit.success(),
            3..=5 => $permit.failure(),
            6 => $permit.ignore(),
            _ => drop($permit),
        }
    };
}

fn compare(config: &BreakerConfig, clock: &impl Clock, moved: &ManualClock, steps: &[Step]) {
    let word = AtomicU64::new(0);
    let processes = [(); 3].map(|()| WordBreaker::new(&word, config, clock).unwrap());
    let alone = CircuitBreaker::with_clock(*config, clock);
    let mut in_flight = Vec::new();
    // No call is older than the generations of either.
    for &step in steps.iter().take(200) {
        if let Step::Acquire(process) | Step::Call(process, _) = step {
            let (shared, own) = (processes[usize::from(process) % 3].try_acquire(), alone.try_acquire());
            assert_eq!(shared.is_ok(), own.is_ok(), "{:?} {:?} at {}", shared, own, moved.now());
            if let (Ok(shared), Ok(own)) = (shared, own) {
                match step {
                    Step::Call(_, outcome) => {
                        end!(shared, outcome);
                        end!(own, outcome);
                    }
                    _ => in_flight.push((shared, own)),
                }
            }
        }
        match step {
            Step::End(is_oldest, outcome) if !in_flight.is_empty() => {
                let (shared, own) = in_flight.remove(if is_oldest { 0 } else { in_flight.len() - 1 });
                end!(shared, outcome);
                end!(own, outcome);
            }
            // Times end at whole seconds, and these are a little beside them.
            Step::Pass(halves) => moved.advance(Duration::from_millis(u64::from(halves) * 500 + 7)),
            _ => {}
        }
        assert_eq!(processes[0].state(), alone.state(), "after {step:?} at {}", moved.now());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(200) })]

    // CLAIM: WordBreaker
    #[test]
    fn breaker_matches_one_of_a_process(config in configs(), steps in steps()) {
        let clock = ManualClock::new();
        compare(&config, &clock, &clock, &steps);
        let clock = Ticking(ManualClock::new());
        compare(&config, &clock, &clock.0, &steps);
    }
}

/// By default the half-open state ends after five minutes, if no cooldown is longer.
// CLAIM: WordBreaker
#[test]
fn probes_of_the_dead_end_with_the_half_open_state() {
    let (word, clock) = (AtomicU64::new(0), ManualClock::new());
    let ten = Duration::from_secs(10);
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(ten).max_cooldown(ten).build().unwrap();
    let breaker = WordBreaker::new(&word, &config, &clock).unwrap();
    breaker.try_acquire().unwrap().failure();
    clock.advance(Duration::from_secs(11));
    core::mem::forget(breaker.try_acquire().unwrap());
    clock.advance(Duration::from_secs(299));
    assert_eq!((breaker.state(), breaker.try_acquire().is_err()), (State::HalfOpen, true));
    clock.advance(Duration::from_secs(2));
    assert_eq!((breaker.state(), breaker.try_acquire().is_err()), (State::Open, true));
    clock.advance(Duration::from_secs(11));
    breaker.try_acquire().unwrap().success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn settings_that_do_not_fit_are_named() {
    let (word, clock) = (AtomicU64::new(0), ManualClock::new());
    let message = |config: damper::breaker::BreakerConfigBuilder| {
        WordBreaker::new(&word, &config.build().unwrap(), &clock).map(|_| ()).unwrap_err().to_string()
    };
    let config = BreakerConfig::builder;
    let refusal = |setting| format!("{setting} is set, it must be left out (for a breaker in one word)");
    assert_eq!(message(config().slow_rate(50, Duration::from_secs(1))), refusal("slow_rate"));
    assert_eq!(message(config().cooldown_jitter(10)), refusal("cooldown_jitter"));
    assert_eq!(message(config().probe_failure_rate(10)), refusal("probe_failure_rate"));
    #[cfg(feature = "alloc")]
    assert_eq!(message(config().failure_rate(50).window(Window::last_calls(49))), refusal("window"));
}

#[test]
fn calls_of_a_breaker_on_a_word_are_recorded() {
    let (word, clock) = (AtomicU64::new(0), ManualClock::new());
    let config = BreakerConfig::builder().failure_threshold(2).build().unwrap();
    let breaker = WordBreaker::new(&word, &config, &clock).unwrap();
    assert_eq!(breaker.call(|| Ok::<_, &str>(7)), Ok(7));
    assert_eq!(breaker.call(|| Err::<(), _>("down")), Err(CallError::Failed("down")));
    let panicking = || _ = breaker.call(|| -> Result<(), ()> { panic!("a bug") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking)).is_err());
    assert_eq!(breaker.state(), State::Open, "a panic is a failure");
    assert!(breaker.call(|| Ok::<_, &str>(7)).unwrap_err().is_refused());
}

/// By default, a probe of a killed process holds its place for five minutes.
///
/// It holds it for the longest cooldown that the breaker reaches, if that is longer.
#[test]
fn killed_probe_blocks_for_five_minutes_or_the_longest_cooldown() {
    for (factor, longest) in [(1.0, 300), (1.5, 512)] {
        let (word, clock) = (AtomicU64::new(0), ManualClock::new());
        let config = BreakerConfig::builder().failure_threshold(1).cooldown_factor(factor).build().unwrap();
        let breaker = WordBreaker::new(&word, &config, &clock).unwrap();
        breaker.try_acquire().unwrap().failure();
        clock.advance(Duration::from_millis(30_001));
        core::mem::forget(breaker.try_acquire().unwrap());
        assert_eq!(breaker.state(), State::HalfOpen);
        clock.advance(Duration::from_secs(longest - 1));
        assert_eq!(breaker.state(), State::HalfOpen, "factor {factor}");
        clock.advance(Duration::from_secs(2));
        assert_eq!(breaker.state(), State::Open, "factor {factor}");
    }
}

/// By default, slow probes close a breaker on a word as they close one of a process.
#[test]
fn slow_probes_close_the_breaker_by_default() {
    let millis = Duration::from_millis;
    let one = millis(1_000);
    // The cooldown, the probes that have to succeed, how long each of them takes, and the time between two.
    for (cooldown, successes, lasts, pause) in
        [(one, 1, millis(1_500), one), (one, 3, millis(400), millis(0)), (30 * one, 2, millis(10), 40 * one)]
    {
        let (word, clock) = (AtomicU64::new(0), ManualClock::new());
        let config = BreakerConfig::builder().failure_threshold(1).cooldown(cooldown).successes_to_close(successes);
        let config = config.build().unwrap();
        let shared = WordBreaker::new(&word, &config, &clock).unwrap();
        let alone = CircuitBreaker::with_clock(config, &clock);
        shared.try_acquire().unwrap().failure();
        alone.try_acquire().unwrap().failure();
        clock.advance(cooldown + millis(1));
        for _ in 0..successes {
            let (of_shared, of_alone) = (shared.try_acquire().unwrap(), alone.try_acquire().unwrap());
            clock.advance(lasts.saturating_sub(millis(5)));
            // Another call asks during the probe.
            assert_eq!((shared.try_acquire().is_err(), alone.try_acquire().is_err()), (true, true));
            clock.advance(millis(5));
            of_shared.success();
            of_alone.success();
            clock.advance(pause);
        }
        assert_eq!((shared.state(), alone.state()), (State::Closed, State::Closed), "{cooldown:?} {lasts:?}");
    }
}
