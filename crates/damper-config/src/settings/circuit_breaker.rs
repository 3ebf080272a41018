//! Circuit breakers.

use super::DAY;
use crate::kind::Kind;
use crate::section::{Conflict, Instead, section};
use crate::setting::{Choice, choice};
use damper_core::breaker::{BreakerConfig, Window};
use damper_core::{OutOfRange, Ramp};
use std::time::Duration;

const PERCENT: Kind = Kind::Percent { min: 1, max: 100 };
const COOLDOWN: Kind = Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(100 * 24 * 3600) };
const RAMP: Kind = Kind::Duration { min: Duration::from_millis(1), max: DAY };
const PROBES: Kind = Kind::Count { min: 1, max: 1023 };

/// How the share of the calls grows after the probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum RampShape {
    /// [`Ramp::linear`].
    #[default]
    Linear,
    /// [`Ramp::steps`].
    Steps,
}

choice! { RampShape {
    "linear" => RampShape::Linear,
    "steps" => RampShape::Steps,
} }

section! {
    /// When a client stops calling a server that fails, and for how long.
    CircuitBreakerSettings {
        /// How many consecutive failures trip the breaker.
        failure_threshold: u32 = 5, Kind::Count { min: 1, max: 1_000 }, Live;
        /// Which part of the calls in the window trips the breaker if they fail.
        ///
        /// Unset: none does.
        failure_rate: Option<u32> = None, PERCENT, Live;
        /// Which part of the calls in the window trips the breaker if they are slow.
        ///
        /// Unset: none does.
        slow_rate: Option<u32> = None, PERCENT, Live;
        /// From which duration on a call is slow.
        slow_call: Duration = Duration::from_secs(1), Kind::Duration { min: Duration::from_micros(1), max: DAY }, Live;
        /// Over how many of the last calls the rates are taken.
        ///
        /// Unset: over 48, or over 24 where slow calls count.
        window_calls: Option<u32> = None, Kind::Count { min: 1, max: 4096 }, Live;
        /// Over which time the rates are taken, instead of `window_calls`.
        window_time: Option<Duration> = None, Kind::Duration { min: Duration::from_millis(1), max: DAY }, Live;
        /// How many calls there must be in the window for a rate to count.
        minimum_calls: u32 = 20, Kind::Count { min: 1, max: 4096 }, Live;
        /// How long the breaker stays open before a probe.
        cooldown: Duration = Duration::from_secs(30), COOLDOWN, Live;
        /// By what the cooldown grows each time that probes fail.
        cooldown_factor: f64 = 1.0, Kind::Number { min: 1.0, max: 10.0 }, Live;
        /// The most that the cooldown grows to. Unset: one hour, or the cooldown if that is longer.
        max_cooldown: Option<Duration> = None, COOLDOWN, Live;
        /// By what part the cooldown may be shorter, by chance.
        cooldown_jitter: u32 = 0, Kind::Percent { min: 0, max: 90 }, Live;
        /// The most that a server's `Retry-After` extends the cooldown to.
        max_retry_after: Duration = Duration::from_secs(5 * 60), Kind::Duration { min: Duration::ZERO, max: DAY }, Live;
        /// How many probes may be in flight while the breaker is half-open.
        half_open_max_requests: u32 = 1, PROBES, Live;
        /// How many probes must succeed to close the breaker.
        successes_to_close: u32 = 1, PROBES, Live;
        /// Which part of the probes opens the breaker again if they fail. Unset: any failure does.
        probe_failure_rate: Option<u32> = None, PERCENT, Live;
        /// How long the breaker may be half-open before it opens again. Unset: for ever.
        max_half_open: Option<Duration> = None, COOLDOWN, Live;
        /// Whether a probe without a result has failed.
        abandoned_probes_fail: bool = false, Kind::Flag, Live;
        /// The time after the probes in which the share of the calls that pass grows to all.
        ///
        /// Unset: all pass at once.
        ramp: Option<Duration> = None, RAMP, Live;
        /// How the share grows: in proportion to the time, or by steps of 0.1, 1, 5, 10, 25 and 50 percent.
        ///
        /// Only with `ramp`.
        ramp_shape: RampShape = RampShape::Linear, RampShape::KIND, Live private;
        /// For how many hosts breakers are kept, where each host has one.
        max_hosts: u32 = 1024, Kind::Count { min: 1, max: 1 << 24 }, Restart;
    }
    instead |_| Instead {
        key: "window_time",
        others: &["window_calls"],
        conflict: Conflict {
            keys: &["window_time", "window_calls"],
            looser: &["window_calls"],
            expected: "window_time stands instead of window_calls, give one or the other",
        },
    };
    check |settings| settings.contradiction_of_values();
}

impl CircuitBreakerSettings {
    fn contradiction_of_values(&self) -> Option<Conflict> {
        if self.max_cooldown.is_some_and(|most| most < self.cooldown) {
            return Some(Conflict {
                keys: &["max_cooldown", "cooldown"],
                looser: &[],
                expected: "max_cooldown must be no less than cooldown",
            });
        }
        (self.ramp_shape != RampShape::default() && self.ramp.is_none()).then_some(Conflict {
            keys: &["ramp_shape", "ramp"],
            looser: &[],
            expected: "ramp_shape needs a ramp",
        })
    }

    /// Builds the settings of a breaker.
    #[must_use]
    pub fn config(&self) -> BreakerConfig {
        // Never falls back to the default: the keys have the same ranges. `Settings::buildable` is tested with both ends and with mixtures.
        self.try_config().unwrap_or_default()
    }

    pub(crate) fn try_config(&self) -> Result<BreakerConfig, OutOfRange> {
        let mut builder = BreakerConfig::builder()
            .failure_threshold(self.failure_threshold)
            .minimum_calls(self.minimum_calls)
            .cooldown(self.cooldown)
            .cooldown_factor(self.cooldown_factor)
            .cooldown_jitter(self.cooldown_jitter)
            .max_retry_after(self.max_retry_after)
            .max_probes(self.half_open_max_requests)
            .successes_to_close(self.successes_to_close);
        if let Some(percent) = self.failure_rate {
            builder = builder.failure_rate(percent);
        }
        if let Some(percent) = self.slow_rate {
            builder = builder.slow_rate(percent, self.slow_call);
        }
        if let Some(calls) = self.window_calls {
            builder = builder.window(Window::last_calls(calls));
        }
        if let Some(time) = self.window_time {
            builder = builder.window(Window::last(time));
        }
        if let Some(percent) = self.probe_failure_rate {
            builder = builder.probe_failure_rate(percent);
        }
        if let Some(longest) = self.max_half_open {
            builder = builder.max_half_open(longest);
        }
        if self.abandoned_probes_fail {
            builder = builder.abandoned_probes_fail();
        }
        if let Some(length) = self.ramp {
            builder = builder.ramp(match self.ramp_shape {
                RampShape::Steps => Ramp::steps(length),
                RampShape::Linear => Ramp::linear(length),
            });
        }
        if let Some(most) = self.max_cooldown {
            builder = builder.max_cooldown(most);
        }
        builder.build()
    }
}
