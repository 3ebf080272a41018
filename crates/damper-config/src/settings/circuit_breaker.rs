//! Circuit breakers.

use super::DAY;
use crate::kind::Kind;
use crate::section::{Conflict, ConflictKind, section};
use damper_core::breaker::{BreakerConfig, BreakerConfigError, Window};
use std::time::Duration;

const PERCENT: Kind = Kind::Count { min: 1, max: 100 };
const COOLDOWN: Kind = Kind::Duration { min: Duration::from_micros(1), max: Duration::from_secs(100 * 24 * 60 * 60) };
const PROBES: Kind = Kind::Count { min: 1, max: 1023 };

section! {
    /// When a client stops calling a server that fails, and for how long.
    CircuitBreakerSettings {
        /// How many consecutive failures trip the breaker.
        failure_threshold: u32 = 5, Kind::Count { min: 1, max: 1_000_000 }, Restart;
        /// Which part of the calls in the window trips the breaker if they fail, in percent. Unset: none does.
        failure_rate: Option<u32> = None, PERCENT, Restart;
        /// Which part of the calls in the window trips the breaker if they are slow, in percent. Unset: none does.
        slow_rate: Option<u32> = None, PERCENT, Restart;
        /// From which duration on a call is slow.
        slow_call: Duration = Duration::from_secs(1), Kind::Duration { min: Duration::from_micros(1), max: DAY }, Restart;
        /// Over how many of the last calls the rates are taken.
        window_calls: u32 = 24, Kind::Count { min: 1, max: 4096 }, Restart;
        /// How many calls there must be in the window for a rate to count.
        minimum_calls: u32 = 20, Kind::Count { min: 1, max: 4096 }, Restart;
        /// How long the breaker stays open before a probe.
        cooldown: Duration = Duration::from_secs(30), COOLDOWN, Restart;
        /// By what the cooldown grows each time that probes fail.
        cooldown_factor: f64 = 1.0, Kind::Number { min: 1.0, max: 10.0 }, Restart;
        /// The most that the cooldown grows to. Unset: one hour, or the cooldown if that is longer.
        max_cooldown: Option<Duration> = None, COOLDOWN, Restart;
        /// By what part the cooldown may be shorter, by chance, in percent.
        cooldown_jitter: u32 = 0, Kind::Count { min: 0, max: 100 }, Restart;
        /// The most that a server's `Retry-After` extends the cooldown to.
        max_retry_after: Duration = Duration::from_secs(300), Kind::Duration { min: Duration::ZERO, max: DAY }, Restart;
        /// How many probes may be in flight while the breaker is half-open.
        half_open_max_requests: u32 = 1, PROBES, Restart;
        /// How many probes must succeed to close the breaker.
        successes_to_close: u32 = 1, PROBES, Restart;
        /// For how many hosts breakers are kept, where each host has one.
        max_hosts: u32 = 1024, Kind::Count { min: 1, max: 1 << 24 }, Restart;
    }
    check |settings: &CircuitBreakerSettings, _| settings.built().err().map(|error| Conflict {
        kind: ConflictKind::Values,
        keys: match error {
            BreakerConfigError::MaxCooldown(_) => &["max_cooldown", "cooldown"],
            _ => &["window_calls", "minimum_calls"],
        },
        expected: error.to_string(),
    })
}

impl CircuitBreakerSettings {
    /// Builds the settings of a breaker.
    #[must_use]
    pub fn config(&self) -> BreakerConfig {
        // `check` has built it before.
        self.built().unwrap_or_default()
    }

    fn built(&self) -> Result<BreakerConfig, BreakerConfigError> {
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
        if self.failure_rate.is_some() || self.slow_rate.is_some() {
            builder = builder.window(Window::last_calls(self.window_calls));
        }
        if let Some(most) = self.max_cooldown {
            builder = builder.max_cooldown(most);
        }
        builder.build()
    }
}
