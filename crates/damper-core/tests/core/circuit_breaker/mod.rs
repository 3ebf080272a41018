//! The circuit breaker through its public API: examples of each setting, and a plain model.
//!
//! | file | covers |
//! |---|---|
//! | `tripping` | consecutive failures, rates, the minimum number of calls |
//! | `windows` | the last calls exactly, the last seconds by buckets, intervals, and what they take |
//! | `cooldown` | the length of the cooldown |
//! | `half_open` | the half-open state |
//! | `returning` | the gradual return after the probes |
//! | `calls` | `call`, `run`, permits, errors |
//! | `forced_states` | forced states, resets, the listener and the status |
//! | `settings` | invalid settings |
//! | `set_config` | settings changed while in use, and manual trips |
//! | `clock_reads` | when the breaker reads the clock |
//! | `recent_changes` | the last changes, read afterwards |
//! | `threads` | eight threads |

mod calls;
mod clock_reads;
mod cooldown;
mod forced_states;
mod half_open;
#[cfg(feature = "std")]
mod keyed;
mod peer_bugs;
mod recent_changes;
mod returning;
mod set_config;
mod settings;
mod threads;
mod tripping;
mod windows;

use crate::models::breaker::{self, Control, Due, Outcome, Plan, RampOf, Step, WindowOf};
use crate::models::cases::cases;
use damper::breaker::{BreakerConfigBuilder, OnStateChange, Verdict};
use damper::{BreakerConfig, CircuitBreaker, Clock, ManualClock};
use proptest::prelude::*;
use std::time::Duration;

/// The default cooldown.
const COOLDOWN: Duration = Duration::from_secs(30);

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn build(configure: impl FnOnce(BreakerConfigBuilder) -> BreakerConfigBuilder) -> BreakerConfig {
    configure(BreakerConfig::builder()).build().unwrap()
}

/// A configuration that trips by rates alone.
fn by_rate(configure: impl FnOnce(BreakerConfigBuilder) -> BreakerConfigBuilder) -> BreakerConfig {
    configure(BreakerConfig::builder().failure_threshold(u32::MAX)).build().unwrap()
}

fn trip<C: Clock, L: OnStateChange>(breaker: &CircuitBreaker<C, L>) {
    while let Ok(permit) = breaker.try_acquire() {
        permit.failure();
    }
}

/// Makes calls that end at once.
fn make<C: Clock, L: OnStateChange>(breaker: &CircuitBreaker<C, L>, calls: usize, is_failure: impl Fn(usize) -> bool) {
    for call in 0..calls {
        let permit = breaker.try_acquire().unwrap();
        permit.record(Verdict::failure_if(is_failure(call)));
    }
}

/// A half-open breaker without a probe in flight.
fn half_open(config: BreakerConfig, clock: &ManualClock) -> CircuitBreaker<&ManualClock> {
    let breaker = CircuitBreaker::with_clock(config, clock);
    trip(&breaker);
    clock.advance(config.max_cooldown());
    breaker
}

/// Durations of every size.
fn times() -> impl Strategy<Value = Duration> {
    prop_oneof![1..50u64, 50..5_000u64, 5_000..5_000_000u64].prop_map(micros)
}

fn windows() -> impl Strategy<Value = WindowOf> {
    let calls = prop_oneof![3 => 1..=12u32, 2 => 20..=60u32, 1 => Just(100u32)];
    let at_calls = calls.prop_map(|calls| WindowOf::Calls(if cfg!(feature = "alloc") { calls } else { calls.min(24) }));
    #[cfg(not(feature = "alloc"))]
    return prop_oneof![1 => Just(WindowOf::Few), 4 => at_calls];
    #[cfg(feature = "alloc")]
    prop_oneof![
        1 => Just(WindowOf::Few),
        4 => at_calls,
        2 => times().prop_map(|time| WindowOf::Time(time.max(micros(10)))),
        1 => times().prop_map(WindowOf::Interval),
    ]
}

prop_compose! {
    fn plans()(
        failures in prop_oneof![1..5u32, 5..30u32, Just(u32::MAX)],
        failure_rate in proptest::option::of(1..=100u32),
        slow_rate in proptest::option::of((1..=100u32, times())),
        minimum_calls in prop_oneof![1..8u32, 1..120u32],
        (cooldown, factor, more) in (times(), prop_oneof![Just(1_000u32), 1_000..3_000u32, Just(10_000u32)], times()),
        max_retry_after in times(),
        (probes, successes) in (1..5u32, 1..6u32),
        probe_failure_rate in proptest::option::weighted(0.3, 1..=100u32),
        max_half_open in proptest::option::weighted(0.5, times()),
        abandoned_probes_fail: bool,
        window in windows(),
        ramp in proptest::option::weighted(0.5, prop_oneof![
            times().prop_map(RampOf::Steps),
            times().prop_map(RampOf::Linear),
        ]),
    ) -> Plan {
        let mut config = BreakerConfig::builder()
            .failure_threshold(failures)
            .minimum_calls(minimum_calls)
            .cooldown(cooldown)
            .cooldown_factor(f64::from(factor) / 1_000.0)
            .max_cooldown(cooldown + more)
            .max_retry_after(max_retry_after)
            .max_probes(probes)
            .successes_to_close(successes);
        if let Some(percent) = failure_rate {
            config = config.failure_rate(percent);
        }
        if let Some((percent, duration)) = slow_rate {
            config = config.slow_rate(percent, duration);
        }
        if let Some(percent) = probe_failure_rate {
            config = config.probe_failure_rate(percent);
        }
        if let Some(longest) = max_half_open {
            config = config.max_half_open(longest);
        }
        if abandoned_probes_fail {
            config = config.abandoned_probes_fail();
        }
        if let Some(window) = window.window() {
            config = config.window(window);
        }
        if let Some(ramp) = ramp {
            config = config.ramp(ramp.ramp());
        }
        Plan { config: config.build().unwrap(), factor, window, ramp }
    }
}

/// Fewer than `most` steps. `failing` percent of the outcomes are failures.
fn steps(failing: u32, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let outcome = move || {
        prop_oneof![
            failing => Just(Outcome::Failure),
            failing / 8 + 1 => times().prop_map(Outcome::RetryAfter),
            101 - failing => Just(Outcome::Success),
            8 => Just(Outcome::Ignored),
            8 => Just(Outcome::Dropped),
        ]
    };
    let control = prop_oneof![
        1 => Just(Control::ForceOpen),
        1 => Just(Control::ForceClosed),
        2 => Just(Control::Disable),
        2 => Just(Control::MetricsOnly),
        3 => Just(Control::Reset),
        1 => Just(Control::Trip),
        1 => times().prop_map(Control::TripFor),
    ];
    let due = prop_oneof![
        6 => Just(Due::Cooldown),
        2 => Just(Due::HalfOpen),
        3 => Just(Due::Ramp),
        2 => Just(Due::Slow),
        2 => Just(Due::Bucket),
        1 => Just(Due::Window),
    ];
    let step = prop_oneof![
        20 => Just(Step::Acquire),
        18 => (any::<bool>(), outcome()).prop_map(|(is_oldest, outcome)| Step::Record(is_oldest, outcome)),
        60 => outcome().prop_map(Step::Call),
        2 => prop_oneof![0..2_000u32, 0..2_000_000_000u32].prop_map(Step::Pass),
        10 => (due, -1..=1i8).prop_map(|(due, off)| Step::PassUntil(due, off)),
        1 => control.prop_map(Step::Control),
    ];
    proptest::collection::vec(step, 1..most)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(100) })]

    #[test]
    fn breaker_matches_the_model(
        plan in plans(),
        steps in prop_oneof![Just(0u32), 1..100u32, Just(40)].prop_flat_map(|failing| steps(failing, 500)),
    ) {
        breaker::compare(plan, steps);
    }

    #[test]
    fn breaker_matches_the_model_while_its_settings_change(
        plan in plans(),
        first in (1..100u32).prop_flat_map(|failing| steps(failing, 40)),
        changes in proptest::collection::vec((plans(), (1..100u32).prop_flat_map(|failing| steps(failing, 60))), 1..7),
    ) {
        let later = changes.into_iter().flat_map(|(plan, steps)| [Step::SetConfig(plan)].into_iter().chain(steps));
        breaker::compare(plan, first.into_iter().chain(later));
    }
}
