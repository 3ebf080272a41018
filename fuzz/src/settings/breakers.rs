//! Breakers of any configuration.

use super::{AnyDuration, MOST_CALLS, Pass, names};
use crate::models::timer::Timer;
use arbitrary::Arbitrary;
use damper::breaker::{BreakerConfigBuilder, Window};
use damper::{BreakerConfig, CircuitBreaker, CircuitBreaker32, ManualClock, OutOfRange};
use std::time::Duration;

const LONGEST: Duration = Duration::from_hours(100 * 24);

#[derive(Arbitrary, Debug)]
pub(super) struct BreakersInput {
    settings: Vec<Setting>,
    window: Option<WindowInput>,
    calls: Vec<(Pass, Call)>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Setting {
    FailureThreshold(u32),
    FailureRate(u32),
    SlowRate(u32, AnyDuration),
    MinimumCalls(u32),
    Cooldown(AnyDuration),
    CooldownFactor(f64),
    MaxCooldown(AnyDuration),
    CooldownJitter(u32),
    MaxRetryAfter(AnyDuration),
    MaxProbes(u16),
    SuccessesToClose(u16),
    ProbeFailureRate(u32),
    MaxHalfOpen(AnyDuration),
    AbandonedProbesFail,
    /// A small number.
    Few(u8, u8),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum WindowInput {
    Calls(u32),
    Time(AnyDuration),
    Interval(AnyDuration),
}

impl WindowInput {
    /// The window, whether it is in its range, and how an error names it.
    fn window(self) -> (Window, bool, String) {
        match self {
            Self::Calls(calls) => (Window::last_calls(calls), (1..=4_096).contains(&calls), calls.to_string()),
            Self::Time(time) => {
                let time = time.duration();
                (Window::last(time), time >= Duration::from_micros(10) && time <= LONGEST, shown(time))
            }
            Self::Interval(time) => {
                let time = time.duration();
                (Window::interval(time), time >= Duration::from_micros(1) && time <= LONGEST, shown(time))
            }
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Call {
    Success,
    Failure,
    RetryAfter(AnyDuration),
    Ignored,
    Dropped,
    ForceOpen,
    ForceClosed,
    Disable,
    MetricsOnly,
    Reset,
}

/// The settings out of their range, by name, with their values.
#[derive(Debug, Default)]
struct Refused(Vec<(&'static str, String)>);

impl Refused {
    /// A repeated setting replaces the previous value.
    fn set(&mut self, setting: &'static str, value: String, is_in_range: bool) {
        self.0.retain(|(other, _)| *other != setting);
        if !is_in_range {
            self.0.push((setting, value));
        }
    }
}

impl BreakersInput {
    pub(super) fn run(&self, clock: &ManualClock) {
        let Some(config) = self.config() else { return };
        let breaker = CircuitBreaker::with_clock(config, clock);
        for &(pass, call) in self.calls.iter().take(MOST_CALLS) {
            pass.on(clock);
            match (breaker.try_acquire(), call) {
                (_, Call::ForceOpen) => breaker.force_open(),
                (_, Call::ForceClosed) => breaker.force_closed(),
                (_, Call::Disable) => breaker.disable(),
                (_, Call::MetricsOnly) => breaker.metrics_only(),
                (_, Call::Reset) => breaker.reset(),
                (Ok(permit), Call::Success) => permit.success(),
                (Ok(permit), Call::Failure) => permit.failure(),
                (Ok(permit), Call::RetryAfter(wait)) => permit.failure_with_retry_after(wait.duration()),
                (Ok(permit), Call::Ignored) => permit.ignore(),
                (Ok(permit), Call::Dropped) => drop(permit),
                (Err(open), _) => {
                    let longest = config.max_cooldown().max(config.max_retry_after());
                    assert!(open.retry_after().is_none_or(|wait| wait <= longest + Duration::from_micros(1)));
                    assert!(open.to_string().starts_with("circuit "));
                }
            }
            let status = breaker.status();
            assert!(status.to_string().starts_with("circuit ") && status.failures() <= status.calls());
        }
        self.small(config);
    }

    /// Returns the configuration, if it is valid.
    fn config(&self) -> Option<BreakerConfig> {
        let (mut builder, mut refused) = (BreakerConfig::builder(), Refused::default());
        let (mut cooldown, mut max_cooldown) = (BreakerConfig::DEFAULT.cooldown(), None);
        for &setting in &self.settings {
            builder = setting.of(builder, &mut refused);
            match setting {
                Setting::Cooldown(time) => cooldown = time.duration(),
                Setting::MaxCooldown(most) => max_cooldown = Some(most.duration()),
                _ => {}
            }
        }
        if let Some(input) = self.window {
            let (window, is_in_range, value) = input.window();
            builder = builder.window(window);
            refused.set("window", value, is_in_range);
        }
        if let Some(most) = max_cooldown {
            let is_in_range = is_duration(most) && most >= cooldown;
            refused.set("max_cooldown", shown(most), is_in_range);
        }
        match builder.build() {
            Ok(config) => {
                assert!(refused.0.is_empty(), "{refused:?}");
                assert_eq!((config.cooldown(), config.max_cooldown() >= cooldown), (cooldown, true));
                Some(config)
            }
            Err(error) => {
                let (setting, found) = (error.setting(), error.value().to_string());
                let is_named =
                    refused.0.iter().any(|(name, value)| name.split(',').next() == Some(setting) && *value == found);
                assert!(is_named, "`{error}` names none of {refused:?}");
                None
            }
        }
    }

    /// Runs a 32-bit breaker, if it supports these settings.
    fn small(&self, config: BreakerConfig) {
        let timer = Timer::<1_000_000>::at(0);
        let breaker = match CircuitBreaker32::new(config, &timer) {
            Ok(breaker) => breaker,
            Err(error) => {
                let (value, most) = match error.setting() {
                    "failure_threshold" => (config.failure_threshold(), (1 << 21) - 1),
                    "max_probes" => (config.max_probes(), 31),
                    "successes_to_close" => (config.successes_to_close(), 31),
                    setting => {
                        assert_eq!(error.value().to_string(), "set", "{error}");
                        return names(&error, &[setting, "left out"]);
                    }
                };
                assert!(value > most, "{error}");
                return names(&error, &[&value.to_string(), &most.to_string()]);
            }
        };
        for &(pass, call) in self.calls.iter().take(MOST_CALLS) {
            if let Pass::Any(ticks) = pass {
                timer.advance(ticks);
            }
            match (breaker.try_acquire(), call) {
                (_, Call::ForceOpen) => breaker.force_open(),
                (_, Call::ForceClosed) => breaker.force_closed(),
                (_, Call::Reset) => breaker.reset(),
                (Ok(permit), Call::Success) => permit.success(),
                (Ok(permit), Call::Failure) => permit.failure(),
                (Ok(permit), Call::Ignored) => permit.ignore(),
                (Ok(permit), _) => drop(permit),
                (Err(open), _) => assert!(open.to_string().starts_with("circuit ")),
            }
            _ = breaker.state();
        }
    }
}

/// Returns the text of a duration in an error.
fn shown(time: Duration) -> String {
    match OutOfRange::check_duration("time", time, Duration::MAX..=Duration::ZERO) {
        Ok(()) => unreachable!("the range is empty"),
        Err(error) => error.value().to_string(),
    }
}

fn is_duration(time: Duration) -> bool {
    !time.is_zero() && time <= LONGEST
}

impl Setting {
    fn of(self, builder: BreakerConfigBuilder, refused: &mut Refused) -> BreakerConfigBuilder {
        let is_percentage = |percent: u32| (1..=100).contains(&percent);
        match self {
            Self::FailureThreshold(failures) => {
                refused.set("failure_threshold", failures.to_string(), failures > 0);
                builder.failure_threshold(failures)
            }
            Self::FailureRate(percent) => {
                refused.set("failure_rate", percent.to_string(), is_percentage(percent));
                builder.failure_rate(percent)
            }
            Self::SlowRate(percent, time) => {
                let time = time.duration();
                refused.set("slow_rate", percent.to_string(), is_percentage(percent));
                refused.set("slow_rate, its duration", shown(time), !time.is_zero());
                builder.slow_rate(percent, time)
            }
            Self::MinimumCalls(calls) => {
                refused.set("minimum_calls", calls.to_string(), calls > 0);
                builder.minimum_calls(calls)
            }
            Self::Cooldown(time) => {
                let time = time.duration();
                refused.set("cooldown", shown(time), is_duration(time));
                builder.cooldown(time)
            }
            Self::CooldownFactor(factor) => {
                refused.set("cooldown_factor", format!("{factor:?}"), (1.0..=10.0).contains(&factor));
                builder.cooldown_factor(factor)
            }
            // Checked together with the cooldown.
            Self::MaxCooldown(most) => builder.max_cooldown(most.duration()),
            Self::CooldownJitter(percent) => {
                refused.set("cooldown_jitter", percent.to_string(), percent <= 100);
                builder.cooldown_jitter(percent)
            }
            Self::MaxRetryAfter(most) => {
                let most = most.duration();
                refused.set("max_retry_after", shown(most), most <= LONGEST);
                builder.max_retry_after(most)
            }
            Self::MaxProbes(probes) => {
                refused.set("max_probes", probes.to_string(), (1..=1_023).contains(&probes));
                builder.max_probes(probes.into())
            }
            Self::SuccessesToClose(successes) => {
                refused.set("successes_to_close", successes.to_string(), (1..=1_023).contains(&successes));
                builder.successes_to_close(successes.into())
            }
            Self::ProbeFailureRate(percent) => {
                refused.set("probe_failure_rate", percent.to_string(), is_percentage(percent));
                builder.probe_failure_rate(percent)
            }
            Self::MaxHalfOpen(longest) => {
                let longest = longest.duration();
                refused.set("max_half_open", shown(longest), is_duration(longest));
                builder.max_half_open(longest)
            }
            Self::AbandonedProbesFail => builder.abandoned_probes_fail(),
            Self::Few(which, value) => [
                Self::FailureThreshold(value.into()),
                Self::FailureRate(value.into()),
                Self::SlowRate(value.into(), AnyDuration::Nanos(value.into())),
                Self::MinimumCalls(value.into()),
                Self::CooldownFactor(f64::from(value) / 10.0),
                Self::CooldownJitter(value.into()),
                Self::MaxProbes(value.into()),
                Self::SuccessesToClose(value.into()),
                Self::ProbeFailureRate(value.into()),
            ][usize::from(which % 9)]
            .of(builder, refused),
        }
    }
}
