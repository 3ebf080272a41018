//! The configuration of a breaker: when it trips, how long it stays open, and how it is probed.

use super::Window;
use super::state_word::Word;
use core::fmt;
use core::time::Duration;

/// The most probes and successes that the word can count.
const MAX_PROBES: u32 = u64::LAYOUT.max_probes();

/// The longest cooldown: a little less than half the range of the word's wrapping microseconds.
pub(super) const MAX_COOLDOWN: Duration = Duration::from_secs(100 * 24 * 60 * 60);

/// Factors are kept in thousandths.
const THOUSAND: u32 = 1_000;

/// The settings of a [`CircuitBreaker`](super::CircuitBreaker).
///
/// By default 5 consecutive failures trip the breaker, it stays open for 30 s, one call at a time is a probe, and the first
/// success closes it.
///
/// | aspect | setting | default |
/// |---|---|---|
/// | tripping | [`failure_threshold`](BreakerConfigBuilder::failure_threshold) | 5 consecutive |
/// | | [`failure_rate`](BreakerConfigBuilder::failure_rate), [`slow_rate`](BreakerConfigBuilder::slow_rate) | off |
/// | | [`window`](BreakerConfigBuilder::window) for both rates | 48 calls, or 24 |
/// | | [`minimum_calls`](BreakerConfigBuilder::minimum_calls) for a rate to count | 20 |
/// | time open | [`cooldown`](BreakerConfigBuilder::cooldown) | 30 s |
/// | | [`cooldown_factor`](BreakerConfigBuilder::cooldown_factor) each time that probes fail, up to [`max_cooldown`](BreakerConfigBuilder::max_cooldown) | 1, 1 h |
/// | | [`cooldown_jitter`](BreakerConfigBuilder::cooldown_jitter) | 0 % |
/// | | [`max_retry_after`](BreakerConfigBuilder::max_retry_after), for the server's `Retry-After` | 5 min |
/// | probing | [`max_probes`](BreakerConfigBuilder::max_probes), [`successes_to_close`](BreakerConfigBuilder::successes_to_close) | 1, 1 |
/// | | [`probe_failure_rate`](BreakerConfigBuilder::probe_failure_rate) instead of "any failure" | off |
/// | | [`max_half_open`](BreakerConfigBuilder::max_half_open) | off |
/// | | [`abandoned_probes_fail`](BreakerConfigBuilder::abandoned_probes_fail) | they decide nothing |
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
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
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BreakerConfig {
    failure_threshold: u32,
    failure_rate: Option<u32>,
    slow_rate: Option<SlowRate>,
    window: Option<Window>,
    minimum_calls: u32,
    cooldown: Duration,
    cooldown_factor: u32,
    max_cooldown: Option<Duration>,
    cooldown_jitter: u32,
    max_retry_after: Duration,
    max_probes: u32,
    successes_to_close: u32,
    probe_failure_rate: Option<u32>,
    max_half_open: Option<Duration>,
    abandoned_probes_fail: bool,
}

/// The duration from which calls are slow, and the percentage of slow calls that trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct SlowRate {
    pub(super) percent: u32,
    pub(super) duration: Duration,
}

impl BreakerConfig {
    /// The default settings, for a `static`.
    pub const DEFAULT: Self = Self {
        failure_threshold: 5,
        failure_rate: None,
        slow_rate: None,
        window: None,
        minimum_calls: 20,
        cooldown: Duration::from_secs(30),
        cooldown_factor: THOUSAND,
        max_cooldown: None,
        cooldown_jitter: 0,
        max_retry_after: Duration::from_secs(5 * 60),
        max_probes: 1,
        successes_to_close: 1,
        probe_failure_rate: None,
        max_half_open: None,
        abandoned_probes_fail: false,
    };

    /// Starts from the default settings.
    pub const fn builder() -> BreakerConfigBuilder {
        BreakerConfigBuilder { config: Self::DEFAULT, factor: 1.0 }
    }

    /// The number of consecutive failures that trips the breaker; `u32::MAX` if they do not.
    #[must_use]
    pub const fn failure_threshold(&self) -> u32 {
        self.failure_threshold
    }

    /// The percentage of failed calls in the window that trips the breaker.
    #[must_use]
    pub const fn failure_rate(&self) -> Option<u32> {
        self.failure_rate
    }

    /// The percentage of slow calls in the window that trips the breaker, and the duration of a slow call.
    #[must_use]
    pub const fn slow_rate(&self) -> Option<(u32, Duration)> {
        match self.slow_rate {
            Some(SlowRate { percent, duration }) => Some((percent, duration)),
            None => None,
        }
    }

    /// The window of calls for the rates.
    pub const fn window(&self) -> Window {
        match self.window {
            Some(window) => window,
            None => Window::in_one_word(self.slow_rate.is_some()),
        }
    }

    /// The number of calls in the window from which a rate counts.
    #[must_use]
    pub const fn minimum_calls(&self) -> u32 {
        self.minimum_calls
    }

    /// The first time that the breaker stays open before a probe.
    #[must_use]
    pub const fn cooldown(&self) -> Duration {
        self.cooldown
    }

    /// The factor by which the cooldown grows each time that probes fail, in thousandths.
    pub(crate) const fn factor_in_thousandths(&self) -> u32 {
        self.cooldown_factor
    }

    /// The factor by which the cooldown grows each time that probes fail.
    #[must_use]
    pub const fn cooldown_factor(&self) -> f64 {
        self.cooldown_factor as f64 / THOUSAND as f64
    }

    /// The longest cooldown that the growth reaches.
    #[must_use]
    pub const fn max_cooldown(&self) -> Duration {
        match self.max_cooldown {
            Some(most) => most,
            None => longer(self.cooldown, Duration::from_secs(60 * 60)),
        }
    }

    /// The percentage by which jitter may shorten a cooldown.
    #[must_use]
    pub const fn cooldown_jitter(&self) -> u32 {
        self.cooldown_jitter
    }

    /// The longest cooldown that a server's `Retry-After` can set.
    #[must_use]
    pub const fn max_retry_after(&self) -> Duration {
        self.max_retry_after
    }

    /// The number of probes that may be in flight at once.
    #[must_use]
    pub const fn max_probes(&self) -> u32 {
        self.max_probes
    }

    /// The number of probes that must succeed to close the breaker.
    #[must_use]
    pub const fn successes_to_close(&self) -> u32 {
        self.successes_to_close
    }

    /// The percentage of failed probes that opens the breaker again; `None` if any failure does.
    #[must_use]
    pub const fn probe_failure_rate(&self) -> Option<u32> {
        self.probe_failure_rate
    }

    /// The longest time half-open, after which the breaker opens again.
    #[must_use]
    pub const fn max_half_open(&self) -> Option<Duration> {
        self.max_half_open
    }

    /// Whether a probe counts as failed if its permit is dropped without a verdict.
    #[must_use]
    pub const fn abandoned_probes_fail(&self) -> bool {
        self.abandoned_probes_fail
    }
}

const fn longer(one: Duration, other: Duration) -> Duration {
    if one.as_nanos() > other.as_nanos() { one } else { other }
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
    factor: f64,
}

impl BreakerConfigBuilder {
    /// Sets how many consecutive failures trip the breaker: at least 1, `u32::MAX` for never. Default: 5.
    pub const fn failure_threshold(mut self, failures: u32) -> Self {
        self.config.failure_threshold = failures;
        self
    }

    /// Sets the percentage of failed calls in the [window](Self::window) that trips the breaker; 1 to 100.
    ///
    /// The breaker trips at this rate or above. Consecutive failures trip it as well: for the rate alone, set
    /// [`failure_threshold`](Self::failure_threshold) to `u32::MAX`. Default: off.
    pub const fn failure_rate(mut self, percent: u32) -> Self {
        self.config.failure_rate = Some(percent);
        self
    }

    /// Sets the percentage of slow calls in the [window](Self::window) that trips the breaker; 1 to 100.
    ///
    /// The breaker trips at this rate or above. A call is slow if it takes `duration` or longer, from its permit to its verdict.
    /// Default: off.
    ///
    /// A slow probe counts as failed, even if it succeeds: a breaker that tripped on slow calls closes only when calls are fast
    /// again. A permit that outlives the call, such as one kept until a body ends, is timed until its verdict too.
    pub const fn slow_rate(mut self, percent: u32, duration: Duration) -> Self {
        self.config.slow_rate = Some(SlowRate { percent, duration });
        self
    }

    /// Sets the window of calls for the rates. Default: the last 48 calls, or 24 where slow calls count.
    ///
    /// It has no effect without a rate.
    ///
    /// A window of those sizes or fewer is part of the breaker. The memory of a larger one, or of one of time, is allocated once,
    /// when the breaker records its first outcome. So a breaker in a `static` may have any window.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::BreakerConfig;
    /// use damper::breaker::Window;
    ///
    /// let config = BreakerConfig::builder().failure_rate(50).window(Window::last_calls(20)).build()?;
    /// assert_eq!(config.window(), Window::last_calls(20));
    ///
    /// let error = BreakerConfig::builder().window(Window::last_calls(0)).build().unwrap_err();
    /// assert!(error.to_string().starts_with("window has 0 calls, it must have 1 to "));
    /// # Ok::<(), damper::BreakerConfigError>(())
    /// ```
    pub const fn window(mut self, window: Window) -> Self {
        self.config.window = Some(window);
        self
    }

    /// Sets how many calls the window must have for a rate to count; at least 1. Default: 20.
    ///
    /// A window of fewer calls lowers it to its size. A window of time lowers it to 16,384 where slow calls count, and to
    /// 2,097,152 where they do not.
    pub const fn minimum_calls(mut self, calls: u32) -> Self {
        self.config.minimum_calls = calls;
        self
    }

    /// Sets how long the breaker stays open before a probe. Default: 30 s.
    ///
    /// More than zero and at most 100 days, rounded up to microseconds.
    pub const fn cooldown(mut self, cooldown: Duration) -> Self {
        self.config.cooldown = cooldown;
        self
    }

    /// Sets the factor by which the cooldown grows when probes fail; 1.0 to 10.0. Default: 1.0, no growth.
    ///
    /// It applies each time that failed probes open the breaker again, up to 15 times, and is kept in thousandths. Closing the
    /// breaker starts over with the first cooldown.
    pub const fn cooldown_factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets the longest cooldown that the growth reaches. Default: one hour, or the cooldown if longer.
    ///
    /// No less than the cooldown, and at most 100 days.
    pub const fn max_cooldown(mut self, most: Duration) -> Self {
        self.config.max_cooldown = Some(most);
        self
    }

    /// Sets the percentage by which jitter may shorten a cooldown; 0 to 100. Default: 0.
    ///
    /// The jitter differs from breaker to breaker and from time to time, so that a fleet of clients does not probe all at once.
    pub const fn cooldown_jitter(mut self, percent: u32) -> Self {
        self.config.cooldown_jitter = percent;
        self
    }

    /// Sets the longest cooldown that a server's `Retry-After` can set. Default: 5 min.
    ///
    /// At most 100 days; zero ignores them. Record them with
    /// [`failure_with_retry_after`](super::Permit::failure_with_retry_after).
    pub const fn max_retry_after(mut self, most: Duration) -> Self {
        self.config.max_retry_after = most;
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

    /// Sets the percentage of failed probes that opens the breaker again; 1 to 100. Default: any failure.
    ///
    /// Of `max_probes` or `successes_to_close` probes, whichever is more, at least this percentage must fail to open the breaker;
    /// otherwise it closes. It does either as soon as the result is certain.
    pub const fn probe_failure_rate(mut self, percent: u32) -> Self {
        self.config.probe_failure_rate = Some(percent);
        self
    }

    /// Sets the longest time half-open, after which the breaker opens again. Default: unlimited.
    ///
    /// More than zero and at most 100 days, rounded up to microseconds. It keeps probes that never end from blocking the breaker
    /// for ever; without it, put a timeout on calls. The first call after that time opens the breaker;
    /// [`state`](super::CircuitBreaker::state) and [`status`](super::CircuitBreaker::status) show it open before.
    pub const fn max_half_open(mut self, longest: Duration) -> Self {
        self.config.max_half_open = Some(longest);
        self
    }

    /// Counts a probe as failed if its permit is dropped without a verdict.
    ///
    /// Default: the drop frees the probe's place and decides nothing, as [`Permit::ignore`](super::Permit::ignore) always does.
    pub const fn abandoned_probes_fail(mut self) -> Self {
        self.config.abandoned_probes_fail = true;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`BreakerConfigError`], which names the first setting that is out of its range.
    pub const fn build(self) -> Result<BreakerConfig, BreakerConfigError> {
        let mut config = self.config;
        if config.failure_threshold == 0 {
            return Err(BreakerConfigError::FailureThreshold);
        }
        if let Some(percent) = config.failure_rate
            && !is_percentage(percent)
        {
            return Err(BreakerConfigError::FailureRate(percent));
        }
        if let Some(SlowRate { percent, duration }) = config.slow_rate {
            if !is_percentage(percent) {
                return Err(BreakerConfigError::SlowRate(percent));
            }
            if duration.is_zero() {
                return Err(BreakerConfigError::SlowCall);
            }
        }
        if let Some(window) = config.window
            && let Err(error) = window.check(config.slow_rate.is_some())
        {
            return Err(error);
        }
        if config.minimum_calls == 0 {
            return Err(BreakerConfigError::MinimumCalls);
        }
        if !is_duration(config.cooldown) {
            return Err(BreakerConfigError::Cooldown(config.cooldown));
        }
        if !(self.factor >= 1.0 && self.factor <= 10.0) {
            return Err(BreakerConfigError::CooldownFactor(self.factor));
        }
        // At most 10,000. Rounded, because the product may be a little less than the intended number.
        config.cooldown_factor = (self.factor * THOUSAND as f64 + 0.5) as u32;
        if let Some(most) = config.max_cooldown
            && (!is_duration(most) || most.as_nanos() < config.cooldown.as_nanos())
        {
            return Err(BreakerConfigError::MaxCooldown(most));
        }
        if config.cooldown_jitter > 100 {
            return Err(BreakerConfigError::CooldownJitter(config.cooldown_jitter));
        }
        if config.max_retry_after.as_nanos() > MAX_COOLDOWN.as_nanos() {
            return Err(BreakerConfigError::MaxRetryAfter(config.max_retry_after));
        }
        if config.max_probes == 0 || config.max_probes > MAX_PROBES {
            return Err(BreakerConfigError::MaxProbes(config.max_probes));
        }
        if config.successes_to_close == 0 || config.successes_to_close > MAX_PROBES {
            return Err(BreakerConfigError::SuccessesToClose(config.successes_to_close));
        }
        if let Some(percent) = config.probe_failure_rate
            && !is_percentage(percent)
        {
            return Err(BreakerConfigError::ProbeFailureRate(percent));
        }
        if let Some(longest) = config.max_half_open
            && !is_duration(longest)
        {
            return Err(BreakerConfigError::MaxHalfOpen(longest));
        }
        Ok(config)
    }
}

const fn is_percentage(percent: u32) -> bool {
    percent >= 1 && percent <= 100
}

const fn is_duration(duration: Duration) -> bool {
    !duration.is_zero() && duration.as_nanos() <= MAX_COOLDOWN.as_nanos()
}

/// The setting of a [`BreakerConfig`](super::BreakerConfig) that was refused, with its value.
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BreakerConfigError {
    /// `failure_threshold` is 0.
    FailureThreshold,
    /// `failure_rate` is not in 1..=100.
    FailureRate(u32),
    /// `slow_rate` is not in 1..=100.
    SlowRate(u32),
    /// The duration of a slow call is zero, so every call would be slow.
    SlowCall,
    /// The window has no calls, or more than the maximum.
    WindowCalls {
        /// The requested number of calls.
        calls: u32,
        /// The maximum number of calls.
        most: u32,
    },
    /// The window is shorter than 10 µs (an interval: 1 µs), or longer than 100 days.
    WindowDuration(Duration),
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
            Self::WindowCalls { calls, most } => write!(f, "window has {calls} calls, it must have 1 to {most}"),
            Self::WindowDuration(duration) => {
                write!(f, "window is {duration:?}, it must be 10 µs (an interval 1 µs) to 100 days")
            }
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

crate::internal::debug_by_display!(BreakerConfigError);

impl core::error::Error for BreakerConfigError {}
