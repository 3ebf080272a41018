//! The 32-bit breaker against a plain model, with calls and controls from the fuzzer.

use crate::models::word32_breaker::{Outcome, Settings, Step, compare};
use arbitrary::Arbitrary;
use std::time::Duration;

/// The maximum number of steps.
const MOST_STEPS: usize = 500;

/// A breaker, and the steps of its run.
#[derive(Arbitrary, Debug)]
pub struct Breaker32Input {
    failures: u8,
    /// Zero counts as one, here and in the other times.
    cooldown: Time,
    more: Time,
    /// In thousandths above 1.
    factor: u16,
    probes: u8,
    successes: u8,
    max_half_open: Option<Time>,
    abandoned_probes_fail: bool,
    frequency: Frequency,
    start: u64,
    steps: Vec<StepInput>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Time {
    Nanos(u32),
    Micros(u32),
    /// Up to 50 days. A cooldown is the sum of two.
    Seconds(u32),
}

/// Frequencies of timers, which are known at compile time.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Frequency {
    One,
    Millis,
    Crystal,
    Micros,
    Nanos,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum OutcomeInput {
    Success,
    Failure,
    Ignored,
    Dropped,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum StepInput {
    Ask,
    Tell(bool, OutcomeInput),
    /// This many consecutive calls.
    Calls(u8, OutcomeInput),
    Pass(u16),
    PassLong(u64),
    Cooldown(i8),
    HalfOpen(i8),
    ForceOpen,
    ForceClosed,
    Trip,
    Reset,
}

impl Time {
    fn duration(self) -> Duration {
        match self {
            Self::Nanos(nanos) => Duration::from_nanos(nanos.max(1).into()),
            Self::Micros(micros) => Duration::from_micros(micros.max(1).into()),
            Self::Seconds(seconds) => Duration::from_secs(u64::from(seconds) % (50 * 86_400) + 1),
        }
    }
}

impl From<OutcomeInput> for Outcome {
    fn from(outcome: OutcomeInput) -> Self {
        match outcome {
            OutcomeInput::Success => Self::Success,
            OutcomeInput::Failure => Self::Failure,
            OutcomeInput::Ignored => Self::Ignored,
            OutcomeInput::Dropped => Self::Dropped,
        }
    }
}

/// Compares the breaker with the plain model.
pub fn breaker32(input: Breaker32Input) {
    let settings = Settings {
        failure_threshold: u32::from(input.failures % 8) + 1,
        cooldown: input.cooldown.duration(),
        more: input.more.duration(),
        factor: 1_000 + u32::from(input.factor) % 9_001,
        max_probes: u32::from(input.probes % 31) + 1,
        successes_to_close: u32::from(input.successes % 31) + 1,
        max_half_open: input.max_half_open.map(Time::duration),
        abandoned_probes_fail: input.abandoned_probes_fail,
    };
    let steps = input.steps.into_iter().flat_map(|step| {
        let (step, times) = match step {
            StepInput::Ask => (Step::Acquire, 1),
            StepInput::Tell(is_oldest, outcome) => (Step::Record(is_oldest, outcome.into()), 1),
            StepInput::Calls(times, outcome) => (Step::Call(outcome.into()), times % 64),
            StepInput::Pass(ticks) => (Step::Pass(ticks.into()), 1),
            StepInput::PassLong(ticks) => (Step::Pass(ticks >> 8), 1),
            StepInput::Cooldown(off) => (Step::Cooldown(off), 1),
            StepInput::HalfOpen(off) => (Step::HalfOpen(off), 1),
            StepInput::ForceOpen => (Step::ForceOpen, 1),
            StepInput::ForceClosed => (Step::ForceClosed, 1),
            StepInput::Trip => (Step::Trip, 1),
            StepInput::Reset => (Step::Reset, 1),
        };
        std::iter::repeat_n(step, times.into())
    });
    let (plan, start, steps) = (settings.plan(), input.start >> 1, steps.take(MOST_STEPS));
    match input.frequency {
        Frequency::One => compare::<1>(plan, start, steps),
        Frequency::Millis => compare::<1_000>(plan, start, steps),
        Frequency::Crystal => compare::<32_768>(plan, start, steps),
        Frequency::Micros => compare::<1_000_000>(plan, start, steps),
        Frequency::Nanos => compare::<1_000_000_000>(plan, start, steps),
    }
}
