//! The settings of a budget.

use super::ratio::Ratio;
use crate::out_of_range::{OutOfRange, check};
use crate::quota::Quota;
use core::time::Duration;

/// The shortest ttl of a deposit. A slice must be much longer than a microsecond.
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
/// # Ok::<(), damper::OutOfRange>(())
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
    /// Retries for a fifth of the calls, plus 10 a second, with a reserve of 100. Deposits live for 10 s.
    pub const DEFAULT: Self = Self { ratio: Ratio::DEFAULT, ttl: Duration::from_secs(10), floor: 10, reserve: 100 };

    /// Starts from the default settings.
    pub const fn builder() -> RetryBudgetConfigBuilder {
        RetryBudgetConfigBuilder { config: Self::DEFAULT, ratio: 0.2 }
    }

    /// Returns the quota of the floor and the reserve, in tokens of which a retry takes `tokens_per_retry`.
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
    /// Sets how many retries a call deposits, 0.0 to 100.0, rounded to thousandths. Default: 0.2.
    pub const fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = ratio;
        self
    }

    /// Sets how long a deposit can be withdrawn, 1 ms to 1 day. Default: 10 s.
    ///
    /// A deposit expires after half of that time at the earliest. A [`RetryBucket`](super::RetryBucket) ignores the
    /// ttl.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.config.ttl = ttl;
        self
    }

    /// Sets how many retries a second are allowed in addition to deposits. Default: 10.
    pub const fn floor(mut self, per_second: u32) -> Self {
        self.config.floor = per_second;
        self
    }

    /// Sets how many retries at once are allowed in addition to deposits. Default: 100.
    ///
    /// They are refilled at the rate of the [floor](Self::floor). With a floor the reserve is at least 1.
    pub const fn reserve(mut self, retries: u32) -> Self {
        self.config.reserve = retries;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], which names the first setting that is out of its range.
    pub const fn build(self) -> Result<RetryBudgetConfig, OutOfRange> {
        let mut config = self.config;
        match Ratio::new(self.ratio) {
            Ok(ratio) => config.ratio = ratio,
            Err(error) => return Err(error),
        }
        check!(check_duration("ttl", config.ttl, SHORTEST_TTL..=LONGEST_TTL));
        if config.floor > 0 {
            check!(check_count("reserve", config.reserve as u64, 1..=u64::MAX), "where there is a floor");
        }
        Ok(config)
    }
}
