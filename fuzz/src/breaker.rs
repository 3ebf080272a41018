//! The breaker against the plain model, with calls and controls from the fuzzer.

use crate::models::breaker::{self as model, Control, Due, Outcome, Plan, Step, WindowOf};
use arbitrary::Arbitrary;
use damper::BreakerConfig;
use std::time::Duration;

/// A breaker, and the steps of its run.
#[derive(Arbitrary, Debug)]
pub struct BreakerInput {
    /// `None` for never. Zero counts as one, here and below.
    failures: Option<u8>,
    failure_percent: Option<u8>,
    slow: Option<(u8, u32)>,
    minimum_calls: u8,
    /// In microseconds, like all times.
    cooldown: u32,
    /// In thousandths above 1.
    factor: u16,
    /// By how much the longest cooldown exceeds the first.
    max_cooldown: u32,
    max_retry_after: u32,
    probes: u8,
    successes: u8,
    probe_failure_percent: Option<u8>,
    max_half_open: Option<u32>,
    abandoned_probes_fail: bool,
    window: WindowInput,
    steps: Vec<BreakerStep>,
}

#[derive(Arbitrary, Debug)]
enum WindowInput {
    Few,
    Calls(u8),
    /// Up to the largest window.
    ManyCalls(u16),
    Time(u32),
    Interval(u32),
}

#[derive(Arbitrary, Debug)]
enum BreakerStep {
    Ask,
    Tell(bool, OutcomeInput),
    /// This many consecutive calls.
    Calls(u8, OutcomeInput),
    Pass(u32),
    PassUntil(DueInput, i8),
    Control(ControlInput),
    /// Changes the settings: the failure threshold, the cooldown and the window.
    SetConfig(u8, u32, WindowInput),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum OutcomeInput {
    Success,
    Failure,
    RetryAfter(u32),
    Ignored,
    Dropped,
}

#[derive(Arbitrary, Debug)]
enum DueInput {
    Cooldown,
    HalfOpen,
    Slow,
    Bucket,
    Window,
}

#[derive(Arbitrary, Debug)]
enum ControlInput {
    ForceOpen,
    ForceClosed,
    Disable,
    MetricsOnly,
    Reset,
    Trip,
    TripFor(u32),
}

/// The maximum number of steps, because the model scans all its calls after each.
const MOST_STEPS: usize = 2_000;

impl BreakerInput {
    fn plan(&self) -> Plan {
        let micros = |micros: u32| Duration::from_micros(u64::from(micros).max(1));
        let percent = |percent: u8| u32::from(percent % 100) + 1;
        let thousandths = 1_000 + u32::from(self.factor) % 9_001;
        let mut config = BreakerConfig::builder()
            .failure_threshold(self.failures.map_or(u32::MAX, |failures| u32::from(failures).max(1)))
            .minimum_calls(u32::from(self.minimum_calls).max(1))
            .cooldown(micros(self.cooldown))
            .cooldown_factor(f64::from(thousandths) / 1_000.0)
            .max_cooldown(micros(self.cooldown) + micros(self.max_cooldown))
            .max_retry_after(Duration::from_micros(self.max_retry_after.into()))
            .max_probes(u32::from(self.probes).max(1))
            .successes_to_close(u32::from(self.successes).max(1));
        if let Some(failures) = self.failure_percent {
            config = config.failure_rate(percent(failures));
        }
        if let Some((slow, duration)) = self.slow {
            config = config.slow_rate(percent(slow), micros(duration));
        }
        if let Some(failures) = self.probe_failure_percent {
            config = config.probe_failure_rate(percent(failures));
        }
        if let Some(longest) = self.max_half_open {
            config = config.max_half_open(micros(longest));
        }
        if self.abandoned_probes_fail {
            config = config.abandoned_probes_fail();
        }
        let window = self.window.window();
        if let Some(window) = window.window() {
            config = config.window(window);
        }
        let config = config.build().expect("every setting is in its range");
        Plan { config, factor: thousandths, window, ramp: None }
    }
}

impl WindowInput {
    fn window(&self) -> WindowOf {
        let micros = |micros: u32| Duration::from_micros(u64::from(micros).max(1));
        match *self {
            Self::Few => WindowOf::Few,
            Self::Calls(calls) => WindowOf::Calls(u32::from(calls).max(1)),
            Self::ManyCalls(calls) => WindowOf::Calls(u32::from(calls) % 4_096 + 1),
            Self::Time(time) => WindowOf::Time(micros(time.max(10))),
            Self::Interval(time) => WindowOf::Interval(micros(time)),
        }
    }
}

impl From<OutcomeInput> for Outcome {
    fn from(outcome: OutcomeInput) -> Self {
        match outcome {
            OutcomeInput::Success => Self::Success,
            OutcomeInput::Failure => Self::Failure,
            OutcomeInput::RetryAfter(micros) => Self::RetryAfter(Duration::from_micros(micros.into())),
            OutcomeInput::Ignored => Self::Ignored,
            OutcomeInput::Dropped => Self::Dropped,
        }
    }
}

/// Compares the breaker with the plain model.
pub fn breaker(input: BreakerInput) {
    let plan = input.plan();
    let other = |failures: u8, cooldown: u32, window: &WindowInput| {
        let window = window.window();
        let micros = Duration::from_micros(u64::from(cooldown).max(1));
        let mut config = BreakerConfig::builder().failure_threshold(u32::from(failures).max(1)).cooldown(micros);
        if let Some(window) = window.window() {
            config = config.failure_rate(u32::from(failures) % 100 + 1).window(window);
        }
        let config = config.build().expect("every setting is in its range");
        Plan { config, factor: 1_000, window, ramp: None }
    };
    let steps = input.steps.into_iter().flat_map(|step| {
        let (step, times) = match step {
            BreakerStep::Ask => (Step::Acquire, 1),
            BreakerStep::Tell(is_oldest, outcome) => (Step::Record(is_oldest, outcome.into()), 1),
            BreakerStep::Calls(times, outcome) => (Step::Call(outcome.into()), times),
            BreakerStep::Pass(nanos) => (Step::Pass(nanos), 1),
            BreakerStep::PassUntil(due, off) => {
                let due = match due {
                    DueInput::Cooldown => Due::Cooldown,
                    DueInput::HalfOpen => Due::HalfOpen,
                    DueInput::Slow => Due::Slow,
                    DueInput::Bucket => Due::Bucket,
                    DueInput::Window => Due::Window,
                };
                (Step::PassUntil(due, off), 1)
            }
            BreakerStep::Control(control) => {
                let control = match control {
                    ControlInput::ForceOpen => Control::ForceOpen,
                    ControlInput::ForceClosed => Control::ForceClosed,
                    ControlInput::Disable => Control::Disable,
                    ControlInput::MetricsOnly => Control::MetricsOnly,
                    ControlInput::Reset => Control::Reset,
                    ControlInput::Trip => Control::Trip,
                    ControlInput::TripFor(micros) => Control::TripFor(Duration::from_micros(micros.into())),
                };
                (Step::Control(control), 1)
            }
            BreakerStep::SetConfig(failures, cooldown, window) => {
                (Step::SetConfig(other(failures, cooldown, &window)), 1)
            }
        };
        std::iter::repeat_n(step, times.into())
    });
    model::compare(plan, steps.take(MOST_STEPS));
}
