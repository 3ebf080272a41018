//! When a breaker trips, how long it stays open, and how it is probed.

use super::Window;
use super::state_word::Word;
use core::fmt;
use core::time::Duration;

/// The most probes and successes that the word can count.
const MAX_PROBES: u32 = u64::LAYOUT.max_probes();

/// The longest cooldown: a little less than half the circle of the word's microseconds.
const MAX_COOLDOWN: Duration = Duration::from_secs(100 * 24 * 60 * 60);

/// Factors are kept in thousandths.
const THOUSAND: u32 = 1_000;

/// The settings of a [`CircuitBreaker`](super::CircuitBreaker): by default 5 consecutive failures trip it, it stays open
/// for 30 s, one call at a time is a probe, and the first success closes it.
///
/// | what | setting | default |
/// |---|---|---|
/// | when it trips | [`failure_threshold`](BreakerConfigBuilder::failure_threshold) | 5 in a row |
/// | | [`failure_rate`](BreakerConfigBuilder::failure_rate), [`slow_rate`](BreakerConfigBuilder::slow_rate) | off |
/// | | [`window`](BreakerConfigBuilder::window) of which both are taken | 48 calls, or 24 |
/// | | [`minimum_calls`](BreakerConfigBuilder::minimum_calls) for a rate to count | 20 |
/// | how long it is open | [`cooldown`](BreakerConfigBuilder::cooldown) | 30 s |
/// | | [`cooldown_factor`](BreakerConfigBuilder::cooldown_factor) each time that probes fail, up to [`max_cooldown`](BreakerConfigBuilder::max_cooldown) | 1, 1 h |
/// | | [`cooldown_jitter`](BreakerConfigBuilder::cooldown_jitter) | 0 % |
/// | | [`max_retry_after`](BreakerConfigBuilder::max_retry_after), for what the callee asks for | 5 min |
/// | how it is probed | [`max_probes`](BreakerConfigBuilder::max_probes), [`successes_to_close`](BreakerConfigBuilder::successes_to_close) | 1, 1 |
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

/// Which calls are slow, and how many of them are too many.
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

    /// How many consecutive failures trip the breaker; `u32::MAX` if they do not.
    #[must_use]
    pub const fn failure_threshold(&self) -> u32 {
        self.failure_threshold
    }

    /// Which part of the calls in the window trips the breaker if they fail, in percent.
    #[must_use]
    pub const fn failure_rate(&self) -> Option<u32> {
        self.failure_rate
    }

    /// Which part of the calls in the window trips the breaker if they are slow, in percent, and from what duration
    /// on they are.
    #[must_use]
    pub const fn slow_rate(&self) -> Option<(u32, Duration)> {
        match self.slow_rate {
            Some(SlowRate { percent, duration }) => Some((percent, duration)),
            None => None,
        }
    }

    /// Which calls the rates are taken of.
    pub const fn window(&self) -> Window {
        match self.window {
            Some(window) => window,
            None => Window::in_one_word(self.slow_rate.is_some()),
        }
    }

    /// How many calls there must be in the window for a rate to count.
    #[must_use]
    pub const fn minimum_calls(&self) -> u32 {
        self.minimum_calls
    }

    /// How long the breaker stays open before a probe, the first time.
    #[must_use]
    pub const fn cooldown(&self) -> Duration {
        self.cooldown
    }

    /// By what the cooldown grows each time that probes fail, in thousandths.
    pub(crate) const fn factor_in_thousandths(&self) -> u32 {
        self.cooldown_factor
    }

    /// By what the cooldown grows each time that probes fail.
    #[must_use]
    pub const fn cooldown_factor(&self) -> f64 {
        self.cooldown_factor as f64 / THOUSAND as f64
    }

    /// The most that the cooldown grows to.
    #[must_use]
    pub const fn max_cooldown(&self) -> Duration {
        match self.max_cooldown {
            Some(most) => most,
            None => longer(self.cooldown, Duration::from_secs(60 * 60)),
        }
    }

    /// By what part the cooldown may be shorter, by chance, in percent.
    #[must_use]
    pub const fn cooldown_jitter(&self) -> u32 {
        self.cooldown_jitter
    }

    /// The most that the callee's wish to be left alone extends the cooldown to.
    #[must_use]
    pub const fn max_retry_after(&self) -> Duration {
        self.max_retry_after
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

    /// Which part of the probes opens the breaker again if they fail, in percent; `None` if any does.
    #[must_use]
    pub const fn probe_failure_rate(&self) -> Option<u32> {
        self.probe_failure_rate
    }

    /// How long the breaker may be half-open before it opens again.
    #[must_use]
    pub const fn max_half_open(&self) -> Option<Duration> {
        self.max_half_open
    }

    /// Whether a probe whose permit is dropped without a verdict has failed.
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
    /// Sets how many consecutive failures trip the breaker; at least 1, and `u32::MAX` for never. Default: 5.
    pub const fn failure_threshold(mut self, failures: u32) -> Self {
        self.config.failure_threshold = failures;
        self
    }

    /// Sets which part of the calls in the [window](Self::window) trips the breaker if they fail: at or above so
    /// many percent, 1 to 100. Beside the consecutive failures: for the rate alone, set
    /// [`failure_threshold`](Self::failure_threshold) to `u32::MAX`. Default: none does.
    pub const fn failure_rate(mut self, percent: u32) -> Self {
        self.config.failure_rate = Some(percent);
        self
    }

    /// Sets which part of the calls in the [window](Self::window) trips the breaker if they are slow: at or
    /// above so many percent, 1 to 100. A call is slow that takes as long as `duration` or longer, from its permit
    /// to its verdict. Default: none is.
    ///
    /// A slow probe is a failed probe, even if it succeeds: a breaker that tripped on slow calls closes only when
    /// calls are fast again. A permit that outlives the call, such as one kept until a body ends, is timed until its
    /// verdict too.
    pub const fn slow_rate(mut self, percent: u32, duration: Duration) -> Self {
        self.config.slow_rate = Some(SlowRate { percent, duration });
        self
    }

    /// Sets which calls the rates are taken of; without a rate it has no effect. Default: the last 48 calls, or the last
    /// 24 where slow calls count.
    ///
    /// A window of those sizes or fewer is part of the breaker. The memory of a larger one, or of one of time, is
    /// allocated once, when the breaker records its first outcome: so a breaker in a `static` may have any window.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{BreakerConfig, Window};
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

    /// Sets how many calls there must be in the window for a rate to count; at least 1. In a window of fewer calls
    /// it is as many as that holds; in one of time no more than 16,384 where slow calls count, else 2,097,152.
    /// Default: 20.
    pub const fn minimum_calls(mut self, calls: u32) -> Self {
        self.config.minimum_calls = calls;
        self
    }

    /// Sets how long the breaker stays open before a probe; more than zero and at most 100 days, rounded up to
    /// microseconds. Default: 30 s.
    pub const fn cooldown(mut self, cooldown: Duration) -> Self {
        self.config.cooldown = cooldown;
        self
    }

    /// Sets by what the cooldown grows each time that the breaker opens again because its probes failed; 1.0 to
    /// 10.0, in thousandths. It starts over when the breaker closes, and stops after 15 times. Default: 1.0, it
    /// does not grow.
    pub const fn cooldown_factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets the most that the cooldown grows to; no less than the cooldown, and at most 100 days. Default: one
    /// hour, or the cooldown if that is longer.
    pub const fn max_cooldown(mut self, most: Duration) -> Self {
        self.config.max_cooldown = Some(most);
        self
    }

    /// Sets by what part of itself a cooldown may be shorter, by chance, in percent; 0 to 100. What comes of it
    /// differs from breaker to breaker and from time to time, so that a fleet of clients does not probe all at
    /// once. Default: 0.
    pub const fn cooldown_jitter(mut self, percent: u32) -> Self {
        self.config.cooldown_jitter = percent;
        self
    }

    /// Sets the most that a server's `Retry-After` (recorded with
    /// [`failure_with_retry_after`](super::Permit::failure_with_retry_after)) extends the cooldown to; at most 100
    /// days, and zero to ignore them. Default: 5 min.
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

    /// Judges probes by a rate: of `max_probes` or `successes_to_close` probes, whichever is more, at least so many
    /// percent must fail to open the breaker again, 1 to 100; else it closes. It does either as soon as that is
    /// certain. Default: any failure opens it again.
    pub const fn probe_failure_rate(mut self, percent: u32) -> Self {
        self.config.probe_failure_rate = Some(percent);
        self
    }

    /// Sets how long the breaker may be half-open before it opens again, so that probes which never end do not keep
    /// others out for ever; more than zero and at most 100 days. To a 4096th of itself. The first call after that time
    /// opens it; [`state`](super::CircuitBreaker::state) and [`status`](super::CircuitBreaker::status) show it open
    /// before. Default: for ever; then put a timeout on calls.
    pub const fn max_half_open(mut self, longest: Duration) -> Self {
        self.config.max_half_open = Some(longest);
        self
    }

    /// Makes a probe whose permit is dropped without a verdict a failed one. Default: it gives its place back and
    /// decides nothing. [`Permit::ignore`](super::Permit::ignore) always does.
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
        // At most 10,000; rounded, for the product may be a little less than the number that was meant.
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
    /// The window has no calls, or more than it can have.
    WindowCalls {
        /// The calls that it should have.
        calls: u32,
        /// The most that it can have.
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

impl core::error::Error for BreakerConfigError {}
