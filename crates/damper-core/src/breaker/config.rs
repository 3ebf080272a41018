//! The configuration of a breaker: when it trips, how long it stays open, and how it is probed.

use super::Window;
#[cfg(target_has_atomic = "64")]
use super::settings::RecordWords;
use super::state_word::Word;
use crate::Ramp;
#[cfg(target_has_atomic = "64")]
use crate::digest::Digest;
use crate::out_of_range::{OutOfRange, check};
use core::time::Duration;

/// The most probes and successes that the word can count.
const MAX_PROBES: u64 = u64::LAYOUT.max_probes() as u64;

/// The longest cooldown: a little less than half the range of the word's wrapping microseconds.
pub(super) const MAX_COOLDOWN: Duration = Duration::from_secs(100 * 24 * 60 * 60);

const NANOSECOND: Duration = Duration::from_nanos(1);

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
/// | returning | [`ramp`](BreakerConfigBuilder::ramp): a growing share of the calls passes after the probes | off |
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
/// # Ok::<(), damper::OutOfRange>(())
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
    ramp: Option<Ramp>,
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
        ramp: None,
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

    /// The ramp by which calls return after the probes.
    #[must_use]
    pub const fn ramp(&self) -> Option<Ramp> {
        self.ramp
    }

    /// Returns `digest` with these settings.
    #[cfg(target_has_atomic = "64")]
    pub(crate) const fn digest(&self, digest: Digest) -> Digest {
        RecordWords::new(self).digest(digest)
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
    /// assert!(error.to_string().starts_with("window is 0, it must be 1 to "));
    /// # Ok::<(), damper::OutOfRange>(())
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
    ///
    /// The time counts from the first probe. Set a time longer than all probes together that close the breaker, with the time
    /// between them. Otherwise the breaker opens before they have succeeded.
    ///
    /// A layer of tower makes that call only when the service behind it is ready. So a probe that never ends and holds the last
    /// place of a `ConcurrencyLimit` still blocks the breaker. Put such a limit outside of the breaker.
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

    /// Lets a growing share of the calls pass after the probes. Default: all pass at once.
    ///
    /// When enough probes have succeeded, the breaker is [returning](super::State::Returning) until the ramp's time is over, and
    /// closes then. It refuses the other calls. Which calls pass depends on their number alone, so each caller gets the same share of
    /// its calls. The calls that pass are judged as those of a closed breaker: consecutive failures and rates of *their* outcomes open
    /// it again, and the [cooldown grows](Self::cooldown_factor). Results of probes, and of calls that began before the outage, do not
    /// count, nor do results that arrive after the ramp.
    ///
    /// A call that is refused may pass at the next attempt. Its [`retry_after`](super::CircuitOpen::retry_after) is the time until the
    /// share has doubled. A breaker of 32 bits has no ramp.
    ///
    /// A layer of tower asks for a call only when the service behind it is ready. A refused clone of it keeps that readiness for its
    /// next call. So during a ramp idle clones may hold all places of a `ConcurrencyLimit` or a `Buffer`, and the other clones wait
    /// for one instead of being refused. Put such a service outside of the breaker.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::breaker::State;
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock, Ramp};
    ///
    /// let clock = ManualClock::new();
    /// let config = BreakerConfig::builder().ramp(Ramp::steps(Duration::from_secs(60))).build()?;
    /// let breaker = CircuitBreaker::with_clock(config, &clock);
    /// breaker.trip();
    /// clock.advance(Duration::from_secs(30));
    /// breaker.try_acquire()?.success(); // the probe
    /// assert_eq!(breaker.state(), State::Returning);
    ///
    /// clock.advance(Duration::from_secs(45)); // the fifth step of six: a quarter of the calls
    /// let passed = (0..1_000).filter(|_| breaker.call(|| Ok::<_, ()>(())).is_ok()).count();
    /// assert!((245..=255).contains(&passed));
    ///
    /// clock.advance(Duration::from_secs(15));
    /// assert_eq!(breaker.state(), State::Closed);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub const fn ramp(mut self, ramp: Ramp) -> Self {
        self.config.ramp = Some(ramp);
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], which names the first setting that is out of its range.
    pub const fn build(self) -> Result<BreakerConfig, OutOfRange> {
        let mut config = self.config;
        check!(check_count("failure_threshold", config.failure_threshold as u64, 1..=u64::MAX));
        if let Some(percent) = config.failure_rate {
            check!(check_count("failure_rate", percent as u64, 1..=100), "percent");
        }
        if let Some(SlowRate { percent, duration }) = config.slow_rate {
            check!(check_count("slow_rate", percent as u64, 1..=100), "percent");
            check!(check_duration("slow_rate", duration, NANOSECOND..=Duration::MAX), "(the duration of a slow call)");
        }
        if let Some(window) = config.window
            && let Err(error) = window.check(config.slow_rate.is_some())
        {
            return Err(error);
        }
        check!(check_count("minimum_calls", config.minimum_calls as u64, 1..=u64::MAX));
        check!(check_duration("cooldown", config.cooldown, NANOSECOND..=MAX_COOLDOWN));
        check!(check_ratio("cooldown_factor", self.factor, 1.0..=10.0));
        // At most 10,000. Rounded, because the product may be a little less than the intended number.
        config.cooldown_factor = (self.factor * THOUSAND as f64 + 0.5) as u32;
        if let Some(most) = config.max_cooldown {
            check!(check_duration("max_cooldown", most, config.cooldown..=MAX_COOLDOWN), "(at least the cooldown)");
        }
        check!(check_count("cooldown_jitter", config.cooldown_jitter as u64, 0..=100), "percent");
        check!(check_duration("max_retry_after", config.max_retry_after, Duration::ZERO..=MAX_COOLDOWN));
        check!(check_count("max_probes", config.max_probes as u64, 1..=MAX_PROBES));
        check!(check_count("successes_to_close", config.successes_to_close as u64, 1..=MAX_PROBES));
        if let Some(percent) = config.probe_failure_rate {
            check!(check_count("probe_failure_rate", percent as u64, 1..=100), "percent");
        }
        if let Some(longest) = config.max_half_open {
            check!(check_duration("max_half_open", longest, NANOSECOND..=MAX_COOLDOWN));
        }
        if let Some(ramp) = config.ramp
            && let Err(error) = ramp.check("ramp")
        {
            return Err(error);
        }
        Ok(config)
    }
}
