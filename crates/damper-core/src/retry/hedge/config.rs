//! The settings of a hedge.

use crate::out_of_range::{OutOfRange, check};
use core::time::Duration;

const THOUSAND: u32 = 1_000;
const MILLION: u32 = 1_000_000;

/// The settings of a [`Hedge`](super::Hedge).
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::retry::HedgeConfig;
///
/// let config = HedgeConfig::builder().max_extra(0.05).max_attempts(3).build()?;
/// assert_eq!(config.max_attempts(), 3);
///
/// let error = HedgeConfig::builder().max_extra(2.0).build().unwrap_err();
/// assert_eq!(error.to_string(), "max_extra is 2.0, it must be 0.001 to 1.0");
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg(feature = "alloc")]
pub struct HedgeConfig {
    /// The extra requests for each call, in thousandths.
    pub(super) max_extra: u32,
    /// The calls that exceed the percentile, in millionths; 0 if they follow `max_extra`.
    pub(super) exceeding: u32,
    pub(super) repeats_failures: bool,
    pub(super) max_attempts: u32,
    pub(super) min_delay: Duration,
    pub(super) fixed_delay: Option<Duration>,
}

impl HedgeConfig {
    /// At most 2 % extra requests and two attempts.
    ///
    /// A hedge starts after the percentile 0.985 of the latency, and after 1 ms at least.
    pub const DEFAULT: Self = Self {
        max_extra: 20,
        exceeding: 0,
        repeats_failures: true,
        max_attempts: 2,
        min_delay: Duration::from_millis(1),
        fixed_delay: None,
    };

    /// Starts from the default settings.
    pub const fn builder() -> HedgeConfigBuilder {
        HedgeConfigBuilder { config: Self::DEFAULT, max_extra: 0.02, percentile: None }
    }

    /// Returns how many extra requests there may be per call, in thousandths.
    pub(super) const fn extra_in_thousandths(&self) -> u32 {
        self.max_extra
    }

    /// Returns how many extra requests there may be per call.
    #[must_use]
    pub const fn max_extra(&self) -> f64 {
        self.max_extra as f64 / THOUSAND as f64
    }

    /// Returns the share of the calls that exceed the delay, in millionths.
    pub(super) const fn exceeding_in_millionths(&self) -> u32 {
        match self.exceeding {
            // Three quarters of the allowed extra requests.
            0 => self.max_extra * 750,
            exceeding => exceeding,
        }
    }

    /// Returns the percentile of the latency after which another attempt starts.
    #[must_use]
    pub const fn percentile(&self) -> f64 {
        (MILLION - self.exceeding_in_millionths()) as f64 / MILLION as f64
    }

    /// Returns whether a failure starts another attempt at once.
    #[must_use]
    pub const fn repeats_failures(&self) -> bool {
        self.repeats_failures
    }

    /// Returns the most attempts of one call, the first included.
    #[must_use]
    pub const fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// Returns the shortest delay before another attempt.
    #[must_use]
    pub const fn min_delay(&self) -> Duration {
        self.min_delay
    }

    /// Returns the delay before another attempt, if it does not follow the latency of recent calls.
    #[must_use]
    pub const fn fixed_delay(&self) -> Option<Duration> {
        self.fixed_delay
    }
}

impl Default for HedgeConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Builds the settings of a hedge.
#[derive(Clone, Copy, Debug)]
#[must_use = "settings do nothing until `build` is called"]
#[cfg(feature = "alloc")]
pub struct HedgeConfigBuilder {
    config: HedgeConfig,
    max_extra: f64,
    percentile: Option<f64>,
}

impl HedgeConfigBuilder {
    /// Sets how many extra requests are allowed per call, 0.001 to 1.0. Default: 0.02.
    ///
    /// The value is rounded to thousandths.
    pub const fn max_extra(mut self, per_call: f64) -> Self {
        self.max_extra = per_call;
        self
    }

    /// Sets the percentile of the latency after which another attempt starts, 0.25 to 0.999.
    ///
    /// Default: that which three quarters of the [extra requests](Self::max_extra) exceed, so 0.985. Where more calls than that are
    /// slow, the percentile is the latency of a slow call, and no attempt is made beside one. A lower percentile lets
    /// [`max_extra`](Self::max_extra) of the calls have another attempt then, and [`HedgeStatus::over_allowance`](super::HedgeStatus)
    /// counts the others. It is rounded to millionths.
    ///
    /// # Examples
    ///
    /// Every tenth call is slow, and half of those get a second attempt:
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::retry::HedgeConfig;
    ///
    /// let config = HedgeConfig::builder().percentile(0.85).max_extra(0.05).build()?;
    /// assert_eq!(config.percentile(), 0.85);
    ///
    /// let error = HedgeConfig::builder().percentile(85.0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "percentile is 85.0, it must be 0.25 to 0.999");
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub const fn percentile(mut self, percentile: f64) -> Self {
        self.percentile = Some(percentile);
        self
    }

    /// Sets whether a failure starts another attempt at once. Default: true.
    ///
    /// Set it to false inside of a [`Retry`](crate::Retry), which repeats failures after its backoff. Otherwise failures use up the extra
    /// requests that slow calls need. A failure then ends the call, unless another attempt is in flight.
    pub const fn repeat_failures(mut self, repeats: bool) -> Self {
        self.config.repeats_failures = repeats;
        self
    }

    /// Sets the most attempts of one call, the first included; 1 to 5. Default: 2.
    ///
    /// With 1 there are no hedges, which [`Hedge::set_config`](super::Hedge::set_config) can set in an incident.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.config.max_attempts = attempts;
        self
    }

    /// Sets the shortest delay before another attempt, unless it is [fixed](Self::fixed_delay). Default: 1 ms.
    pub const fn min_delay(mut self, delay: Duration) -> Self {
        self.config.min_delay = delay;
        self
    }

    /// Sets the delay before another attempt. Default: it follows the latency of recent calls.
    pub const fn fixed_delay(mut self, delay: Duration) -> Self {
        self.config.fixed_delay = Some(delay);
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], which names the first setting that is out of its range.
    pub const fn build(self) -> Result<HedgeConfig, OutOfRange> {
        let mut config = self.config;
        check!(check_ratio("max_extra", self.max_extra, 0.001..=1.0));
        config.max_extra = (self.max_extra * THOUSAND as f64 + 0.5) as u32;
        if let Some(percentile) = self.percentile {
            check!(check_ratio("percentile", percentile, 0.25..=0.999));
            config.exceeding = ((1.0 - percentile) * MILLION as f64 + 0.5) as u32;
        }
        check!(check_count("max_attempts", config.max_attempts as u64, 1..=5));
        Ok(config)
    }
}
