//! The settings of a budget.

use super::RetryBudgetError;
use super::ratio::Ratio;
use crate::quota::Quota;
use core::time::Duration;

/// The shortest time that a deposit lives: a slice must be much longer than a microsecond.
const SHORTEST_TTL: Duration = Duration::from_millis(1);

const LONGEST_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings of a [`RetryBudget`](super::RetryBudget) or a [`RetryBucket`](super::RetryBucket).
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::retry::RetryBudgetConfig;
///
/// let config = RetryBudgetConfig::builder().ratio(0.1).floor(1).reserve(20).build()?;
///
/// let error = RetryBudgetConfig::builder().ratio(-0.1).build().unwrap_err();
/// assert_eq!(error.to_string(), "ratio is -0.1, it must be 0.0 to 100.0");
/// # let _ = config;
/// # Ok::<(), damper::retry::RetryBudgetError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RetryBudgetConfig {
    pub(super) ratio: Ratio,
    pub(super) ttl: Duration,
    floor: u32,
    reserve: u32,
}

impl RetryBudgetConfig {
    /// Retries for a fifth of the calls, 10 a second beside them, a reserve of 100; deposits live for 10 s.
    pub const DEFAULT: Self = Self { ratio: Ratio::DEFAULT, ttl: Duration::from_secs(10), floor: 10, reserve: 100 };

    /// Starts from the default settings.
    pub const fn builder() -> RetryBudgetConfigBuilder {
        RetryBudgetConfigBuilder { config: Self::DEFAULT, ratio: 0.2 }
    }

    /// The quota of the floor and the reserve, in tokens of which a retry takes so many.
    pub(super) const fn bucket(&self, tokens_per_retry: u32) -> Quota {
        let (floor, reserve) =
            (self.floor.saturating_mul(tokens_per_retry), self.reserve.saturating_mul(tokens_per_retry));
        Quota::per_second(floor).burst(reserve)
    }
}

impl Default for RetryBudgetConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Builds the settings of a budget.
#[derive(Clone, Copy, Debug)]
#[must_use = "settings do nothing until `build` is called"]
pub struct RetryBudgetConfigBuilder {
    config: RetryBudgetConfig,
    ratio: f64,
}

impl RetryBudgetConfigBuilder {
    /// Sets how many retries a call brings, rounded to thousandths; 0.0 to 100.0. Default: 0.2.
    pub const fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = ratio;
        self
    }

    /// Sets for how long what a call deposits can be withdrawn; 1 ms to 1 day. Default: 10 s. It is gone after half of that
    /// at the earliest. A [`RetryBucket`](super::RetryBucket) does not have it.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.config.ttl = ttl;
        self
    }

    /// Sets how many retries a second there are beside those that calls bring. Default: 10.
    pub const fn floor(mut self, per_second: u32) -> Self {
        self.config.floor = per_second;
        self
    }

    /// Sets how many retries at once there are beside those that calls bring; they come back at the rate of the
    /// [floor](Self::floor). Default: 100. With a floor it is at least 1.
    pub const fn reserve(mut self, retries: u32) -> Self {
        self.config.reserve = retries;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`RetryBudgetError`], which names the first setting that is out of its range.
    pub const fn build(self) -> Result<RetryBudgetConfig, RetryBudgetError> {
        let mut config = self.config;
        match Ratio::new(self.ratio) {
            Ok(ratio) => config.ratio = ratio,
            Err(error) => return Err(error),
        }
        let ttl = config.ttl.as_nanos();
        if ttl < SHORTEST_TTL.as_nanos() || ttl > LONGEST_TTL.as_nanos() {
            return Err(RetryBudgetError::Ttl(config.ttl));
        }
        if config.reserve == 0 && config.floor > 0 {
            return Err(RetryBudgetError::Reserve);
        }
        Ok(config)
    }
}
