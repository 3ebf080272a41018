//! The 32-bit breaker against a plain model.

use crate::models::cases::cases;
use crate::models::timer::Timer;
use crate::models::word32_breaker::{Outcome, Settings, Step, compare};
use damper::breaker::State;
use damper::{BreakerConfig, CircuitBreaker32};
use proptest::prelude::*;
use std::time::Duration;

/// A cooldown of a fractional number of microseconds keeps its length after each failed probe.
#[test]
fn repeated_nanosecond_cooldown_keeps_its_length() {
    for nanos in [1, 308, 1_900] {
        let timer = Timer::<1_000_000_000>::at(0);
        let cooldown = Duration::from_nanos(nanos);
        let config = BreakerConfig::builder().failure_threshold(1).cooldown(cooldown).max_cooldown(cooldown);
        let breaker = CircuitBreaker32::new(config.build().unwrap(), &timer).unwrap();
        breaker.try_acquire().unwrap().failure();
        for _ in 0..3 {
            timer.advance(nanos - 1);
            assert_eq!(breaker.state(), State::Open, "{nanos} ns");
            timer.advance(1);
            breaker.try_acquire().unwrap().failure();
        }
    }
}

fn times() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (1..3_000u64).prop_map(Duration::from_nanos),
        (1..3_000_000u64).prop_map(Duration::from_micros),
        (1..50 * 86_400u64).prop_map(Duration::from_secs),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    (1..5u32, times(), times(), 1_000..=10_000u32, (1..=31u32, 1..=31u32), proptest::option::of(times()), any::<bool>())
        .prop_map(|(failure_threshold, cooldown, more, factor, probes, max_half_open, abandoned_probes_fail)| {
            Settings {
                failure_threshold,
                cooldown,
                more,
                factor,
                max_probes: probes.0,
                successes_to_close: probes.1,
                max_half_open,
                abandoned_probes_fail,
            }
        })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = || {
        prop_oneof![
            3 => Just(Outcome::Success),
            4 => Just(Outcome::Failure),
            1 => Just(Outcome::Ignored),
            1 => Just(Outcome::Dropped)
        ]
    };
    let step = prop_oneof![
        6 => Just(Step::Acquire),
        6 => (any::<bool>(), outcome()).prop_map(|(is_oldest, outcome)| Step::Record(is_oldest, outcome)),
        12 => outcome().prop_map(Step::Call),
        2 => (0..1_000u64).prop_map(Step::Pass),
        1 => (0..1u64 << 50).prop_map(Step::Pass),
        8 => (-3..=3i8).prop_map(Step::Cooldown),
        3 => (-3..=3i8).prop_map(Step::HalfOpen),
        1 => Just(Step::ForceOpen),
        1 => Just(Step::ForceClosed),
        1 => Just(Step::Trip),
        1 => Just(Step::Reset),
    ];
    proptest::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(100) })]

    #[test]
    fn breaker_matches_the_model(settings in settings(), start in 0..1u64 << 62, steps in steps()) {
        compare::<1_000>(settings.plan(), start, steps.iter().copied());
        compare::<32_768>(settings.plan(), start, steps.iter().copied());
        compare::<1_000_000>(settings.plan(), start, steps.iter().copied());
        compare::<1_000_000_000>(settings.plan(), start, steps);
    }
}

/// An old cooldown seems to be open again when the times of the word circle.
///
/// That lasts for one cooldown at most.
#[test]
fn old_cooldown_seems_open_for_one_cooldown_at_most() {
    let timer = Timer::<1_000>::at(0);
    let breaker = CircuitBreaker32::new(BreakerConfig::DEFAULT, &timer).unwrap();
    breaker.trip();
    timer.advance(30_001);
    let mut open = 0;
    for second in 0..40 * 3_600 {
        open = if breaker.state() == State::Open { open + 1 } else { 0 };
        assert!(open <= 31, "open at {second} s");
        timer.advance(1_000);
    }
}
