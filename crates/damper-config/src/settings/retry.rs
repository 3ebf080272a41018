//! Retries, their budget, and hedges.

use super::DAY;
use crate::kind::Kind;
use crate::section::{Conflict, section};
use crate::setting::Choice;
use damper_core::OutOfRange;
use damper_core::retry::{
    Backoff, Hedge, HedgeConfig, HedgeConfigBuilder, Jitter, Retry, RetryBudget, RetryBudgetConfig, RetrySchedule,
};
use std::time::Duration;

const DELAY: Kind = Kind::Duration { min: Duration::from_millis(1), max: DAY };

section! {
    /// How a client tries calls again.
    RetrySettings {
        /// How many attempts a call may make, the first included. 1 is no retry.
        max_attempts: u32 = 3, Kind::Count { min: 1, max: 100 }, Live;
        /// How long to wait before the first retry.
        base_delay: Duration = Duration::from_millis(100), DELAY, Live;
        /// By what the delay grows from retry to retry.
        factor: f64 = 2.0, Kind::Number { min: 1.0, max: 1000.0 }, Restart;
        /// The longest delay, unless a server asks for more.
        max_delay: Duration = Duration::from_secs(20), DELAY, Live;
        /// How much of a delay is left to chance.
        jitter: Jitter = Jitter::Full, Jitter::KIND, Restart;
        /// The first delay after a server said that a limit was reached, if the backoff has a shorter one.
        throttled_base: Duration = Duration::from_secs(1), DELAY, Restart;
        /// The longest wait that a server's `Retry-After` can ask for.
        max_hint: Duration = Duration::from_secs(5 * 60), Kind::Duration { min: Duration::ZERO, max: DAY }, Restart;
    }
    check |settings| (settings.max_delay < settings.base_delay).then_some(Conflict {
        keys: &["base_delay", "max_delay"],
        // Shorter delays allow more retries.
        looser: &["max_delay"],
        expected: "max_delay must be no less than base_delay",
    });
}

impl RetrySettings {
    /// Builds the retry policy. Give it the [budget](RetryBudgetSettings::budget) that calls share.
    pub fn retry(&self) -> Retry {
        Retry::new(self.max_attempts)
            .backoff(self.backoff())
            .throttled_base(self.throttled_base)
            .max_hint(self.max_hint)
    }

    /// Builds the part of the policy that a reload changes.
    ///
    /// That is the attempts, and the first and the longest delay.
    ///
    /// Keep it in an `Arc` of a `Live`, give that to [`Retry::schedule`], and [bind](crate::Reloader::bind) it to the section.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
    /// use damper::Live;
    /// use damper::config::{Reloader, Sources};
    /// use std::sync::Arc;
    ///
    /// let reloader = Reloader::new(Sources::new().toml("app.toml", "client.http.retry.max_attempts = 5"))?;
    /// let settings = reloader.settings().client.http.retry;
    /// let schedule = Arc::new(Live::new(settings.schedule()));
    /// let retry = settings.retry().schedule(Arc::clone(&schedule));
    /// let reloader = reloader.bind(|settings| &settings.client.http.retry, schedule);
    /// # assert_eq!(retry.max_attempts(), 5);
    /// # let _ = reloader;
    /// # Ok::<(), damper::config::ConfigError>(())
    /// ```
    #[must_use]
    pub fn schedule(&self) -> RetrySchedule {
        RetrySchedule::new(self.max_attempts).base_delay(self.base_delay).max_delay(self.max_delay)
    }

    /// Builds the delays between attempts.
    #[must_use]
    pub fn backoff(&self) -> Backoff {
        // Never falls back: the key of the factor has the same range.
        self.try_backoff().unwrap_or(Backoff::exponential(self.base_delay))
    }

    pub(crate) fn try_backoff(&self) -> Result<Backoff, OutOfRange> {
        let backoff = Backoff::exponential(self.base_delay).factor(self.factor)?;
        Ok(backoff.max_delay(self.max_delay).jitter(self.jitter))
    }
}

section! {
    /// How many retries the calls of a client may have, so that retries do not multiply an overload.
    RetryBudgetSettings {
        /// How many retries a call brings: with 20%, each five calls bring one.
        ratio: f64 = 0.2, Kind::Fraction { min: 0.0, max: 1.0 }, Live;
        /// For how long the retries that a call brings can be used.
        ttl: Duration = Duration::from_secs(10), Kind::Duration { min: Duration::from_millis(1), max: DAY }, Live;
        /// How many retries a second there are beside those.
        floor: u32 = 10, Kind::Count { min: 0, max: 10_000 }, Live;
        /// How many retries at once there are beside those that calls bring.
        reserve: u32 = 100, Kind::Count { min: 1, max: 1_000_000 }, Live;
    }
}

impl RetryBudgetSettings {
    /// Builds a budget, to be shared by all calls in an `Arc` or a `static`.
    ///
    /// A reload that raises the `floor` by more than 1,000 times may need a restart.
    #[must_use]
    pub fn budget(&self) -> RetryBudget {
        RetryBudget::new(self.config())
    }

    /// Builds the configuration of a budget, for example of one per host.
    #[must_use]
    pub fn config(&self) -> RetryBudgetConfig {
        // Never falls back to the default: the keys have the same ranges.
        self.try_config().unwrap_or_default()
    }

    pub(crate) fn try_config(&self) -> Result<RetryBudgetConfig, OutOfRange> {
        RetryBudgetConfig::builder().ratio(self.ratio).ttl(self.ttl).floor(self.floor).reserve(self.reserve).build()
    }
}

section! {
    /// Attempts that begin beside a slow one.
    HedgeSettings {
        /// How many extra requests there may be per call: with 2%, two for each hundred.
        max_extra: f64 = 0.02, Kind::Fraction { min: 0.001, max: 1.0 }, Live;
        /// How many attempts a call may have, the first included.
        max_attempts: u32 = 2, Kind::Count { min: 1, max: 5 }, Live;
        /// The shortest delay before another attempt, where the delay follows the latency.
        min_delay: Duration = Duration::from_millis(1), DELAY, Live;
        /// The delay before another attempt. Unset: it follows the latency of recent calls.
        fixed_delay: Option<Duration> = None, DELAY, Live;
    }
}

impl HedgeSettings {
    /// Builds the configuration of a hedge.
    #[must_use]
    pub fn config(&self) -> HedgeConfig {
        // Never falls back to the default: the keys have the same ranges.
        self.try_config().unwrap_or_default()
    }

    /// Builds a hedge. Give it the [budget](RetryBudgetSettings::budget) that the retries share.
    #[must_use]
    pub fn hedge(&self) -> Hedge {
        Hedge::new(self.config())
    }

    pub(crate) fn try_config(&self) -> Result<HedgeConfig, OutOfRange> {
        self.builder().build()
    }

    /// Builds the hedge of a stack, which leaves failures to the retries if there are any.
    #[cfg(all(feature = "http", feature = "tower", feature = "tokio"))]
    pub(crate) fn hedge_beside(&self, retries: bool) -> Hedge {
        Hedge::new(self.config_beside(retries))
    }

    /// Builds the configuration of the hedge of a stack.
    #[cfg(all(feature = "http", feature = "tower", feature = "tokio"))]
    pub(crate) fn config_beside(&self, retries: bool) -> HedgeConfig {
        self.builder().repeat_failures(!retries).build().unwrap_or_default()
    }

    fn builder(&self) -> HedgeConfigBuilder {
        let mut builder =
            HedgeConfig::builder().max_extra(self.max_extra).max_attempts(self.max_attempts).min_delay(self.min_delay);
        if let Some(delay) = self.fixed_delay {
            builder = builder.fixed_delay(delay);
        }
        builder
    }
}
