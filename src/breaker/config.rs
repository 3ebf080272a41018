//! When a breaker trips, how long it stays open, and how it is probed.

use super::word::MAX_PROBES;
use core::fmt;
use core::time::Duration;

/// The longest cooldown: a little less than half the circle of the word's microseconds.
const MAX_COOLDOWN: Duration = Duration::from_hours(100 * 24);

/// The settings of a [`CircuitBreaker`](super::CircuitBreaker): by default 5 failures in a row trip it, it stays open
/// for 30 s, one call at a time is a probe, and the first success closes it.
///
/// # Examples
///
/// ```
/// use core::time::Duration;
/// use damper::BreakerConfig;
///
/// let config = BreakerConfig::builder().failure_threshold(3).cooldown(Duration::from_secs(5)).build()?;
/// assert_eq!(config.failure_threshold(), 3);
///
/// let error = BreakerConfig::builder().max_probes(0).build().unwrap_err();
/// assert_eq!(error.to_string(), "max_probes is 0, it must be 1 to 1023");
/// # Ok::<(), damper::BreakerConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BreakerConfig {
    failure_threshold: u32,
    cooldown: Duration,
    max_probes: u32,
    successes_to_close: u32,
}

impl BreakerConfig {
    /// The default settings, for a `static`.
    pub const DEFAULT: Self =
        Self { failure_threshold: 5, cooldown: Duration::from_secs(30), max_probes: 1, successes_to_close: 1 };

    /// Starts from the default settings.
    pub const fn builder() -> BreakerConfigBuilder {
        BreakerConfigBuilder { config: Self::DEFAULT }
    }

    /// How many failures in a row trip the breaker.
    #[must_use]
    pub const fn failure_threshold(&self) -> u32 {
        self.failure_threshold
    }

    /// How long the breaker stays open before a probe.
    #[must_use]
    pub const fn cooldown(&self) -> Duration {
        self.cooldown
    }

    /// How many probes may be in flight at once.
    #[must_use]
    pub const fn max_probes(&self) -> u32 {
        self.max_probes
    }

    /// How many probes must succeed to close the breaker.
    #[must_use]
    pub const fn successes_to_close(&self) -> u32 {
        self.successes_to_close
    }
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Builds a [`BreakerConfig`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct BreakerConfigBuilder {
    config: BreakerConfig,
}

impl BreakerConfigBuilder {
    /// Sets how many failures in a row trip the breaker; at least 1. Default: 5.
    pub const fn failure_threshold(mut self, failures: u32) -> Self {
        self.config.failure_threshold = failures;
        self
    }

    /// Sets how long the breaker stays open before a probe; more than zero and at most 100 days, rounded up to
    /// microseconds. Default: 30 s.
    pub const fn cooldown(mut self, cooldown: Duration) -> Self {
        self.config.cooldown = cooldown;
        self
    }

    /// Sets how many probes may be in flight at once while half-open; 1 to 1023. Default: 1.
    pub const fn max_probes(mut self, probes: u32) -> Self {
        self.config.max_probes = probes;
        self
    }

    /// Sets how many probes must succeed to close the breaker; 1 to 1023. Default: 1.
    pub const fn successes_to_close(mut self, successes: u32) -> Self {
        self.config.successes_to_close = successes;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`BreakerConfigError`], which names the first setting that is out of its range.
    pub const fn build(self) -> Result<BreakerConfig, BreakerConfigError> {
        let config = self.config;
        if config.failure_threshold == 0 {
            return Err(BreakerConfigError::FailureThreshold);
        }
        if config.cooldown.is_zero() || config.cooldown.as_nanos() > MAX_COOLDOWN.as_nanos() {
            return Err(BreakerConfigError::Cooldown(config.cooldown));
        }
        if config.max_probes == 0 || config.max_probes > MAX_PROBES {
            return Err(BreakerConfigError::MaxProbes(config.max_probes));
        }
        if config.successes_to_close == 0 || config.successes_to_close > MAX_PROBES {
            return Err(BreakerConfigError::SuccessesToClose(config.successes_to_close));
        }
        Ok(config)
    }
}

/// Which setting of a [`BreakerConfig`] was refused, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerConfigError {
    /// `failure_threshold` is 0.
    FailureThreshold,
    /// `cooldown` is zero, or longer than 100 days.
    Cooldown(Duration),
    /// `max_probes` is not in 1..=1023.
    MaxProbes(u32),
    /// `successes_to_close` is not in 1..=1023.
    SuccessesToClose(u32),
}

impl fmt::Display for BreakerConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FailureThreshold => f.write_str("failure_threshold is 0, it must be at least 1"),
            Self::Cooldown(cooldown) => {
                write!(f, "cooldown is {cooldown:?}, it must be more than zero and at most 100 days")
            }
            Self::MaxProbes(probes) => {
                write!(f, "max_probes is {probes}, it must be 1 to {MAX_PROBES}")
            }
            Self::SuccessesToClose(successes) => {
                write!(f, "successes_to_close is {successes}, it must be 1 to {MAX_PROBES}")
            }
        }
    }
}

impl core::error::Error for BreakerConfigError {}
