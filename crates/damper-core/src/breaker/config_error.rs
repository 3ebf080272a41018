//! Which setting is out of range, with its value and what is allowed.

use super::word::MAX_PROBES;
use core::fmt;
use core::time::Duration;

/// Which setting of a [`BreakerConfig`](super::BreakerConfig) was refused, with its value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BreakerConfigError {
    /// `failure_threshold` is 0.
    FailureThreshold,
    /// `failure_rate` is not in 1..=100.
    FailureRate(u32),
    /// `slow_rate` is not in 1..=100.
    SlowRate(u32),
    /// The duration from which on a call is slow is zero: every call would be.
    SlowCall,
    /// `minimum_calls` is 0.
    MinimumCalls,
    /// `cooldown` is zero, or longer than 100 days.
    Cooldown(Duration),
    /// `cooldown_factor` is not in 1.0..=10.0.
    CooldownFactor(f64),
    /// `max_cooldown` is less than the cooldown, or longer than 100 days.
    MaxCooldown(Duration),
    /// `cooldown_jitter` is not in 0..=100.
    CooldownJitter(u32),
    /// `max_retry_after` is longer than 100 days.
    MaxRetryAfter(Duration),
    /// `max_probes` is not in 1..=1023.
    MaxProbes(u32),
    /// `successes_to_close` is not in 1..=1023.
    SuccessesToClose(u32),
    /// `probe_failure_rate` is not in 1..=100.
    ProbeFailureRate(u32),
    /// `max_half_open` is zero, or longer than 100 days.
    MaxHalfOpen(Duration),
}

impl fmt::Display for BreakerConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PERCENT: &str = "it must be 1 to 100 percent";
        const DURATION: &str = "it must be more than zero and at most 100 days";
        match self {
            Self::FailureThreshold => f.write_str("failure_threshold is 0, it must be at least 1"),
            Self::FailureRate(percent) => write!(f, "failure_rate is {percent}, {PERCENT}"),
            Self::SlowRate(percent) => write!(f, "slow_rate is {percent}, {PERCENT}"),
            Self::SlowCall => f.write_str("the duration of slow_rate is zero, it must be more"),
            Self::MinimumCalls => f.write_str("minimum_calls is 0, it must be at least 1"),
            Self::Cooldown(cooldown) => write!(f, "cooldown is {cooldown:?}, {DURATION}"),
            Self::CooldownFactor(factor) => write!(f, "cooldown_factor is {factor:?}, it must be 1.0 to 10.0"),
            Self::MaxCooldown(most) => {
                write!(f, "max_cooldown is {most:?}, it must be no less than the cooldown and at most 100 days")
            }
            Self::CooldownJitter(percent) => write!(f, "cooldown_jitter is {percent}, it must be 0 to 100 percent"),
            Self::MaxRetryAfter(most) => write!(f, "max_retry_after is {most:?}, it must be at most 100 days"),
            Self::MaxProbes(probes) => write!(f, "max_probes is {probes}, it must be 1 to {MAX_PROBES}"),
            Self::SuccessesToClose(successes) => {
                write!(f, "successes_to_close is {successes}, it must be 1 to {MAX_PROBES}")
            }
            Self::ProbeFailureRate(percent) => write!(f, "probe_failure_rate is {percent}, {PERCENT}"),
            Self::MaxHalfOpen(longest) => write!(f, "max_half_open is {longest:?}, {DURATION}"),
        }
    }
}

impl core::error::Error for BreakerConfigError {}
