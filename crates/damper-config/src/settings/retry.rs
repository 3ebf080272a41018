//! Retries, their budget, and hedges.

use super::DAY;
use crate::kind::Kind;
use crate::section::{Conflict, ConflictKind, section};
use damper_core::retry::{Backoff, HedgeConfig, Jitter, Retry, RetryBudget, RetryBudgetConfig};
use std::time::Duration;

const DELAY: Kind = Kind::Duration { min: Duration::from_millis(1), max: DAY };

section! {
    /// How a client tries calls again.
    RetrySettings {
        /// How many attempts a call may make, the first included. 1 is no retry.
        max_attempts: u32 = 3, Kind::Count { min: 1, max: 100 }, Restart;
        /// How long to wait before the first retry.
        base_delay: Duration = Duration::from_millis(100), DELAY, Restart;
        /// By what the delay grows from retry to retry.
        factor: f64 = 2.0, Kind::Number { min: 1.0, max: 1000.0 }, Restart;
        /// The longest delay, unless a server asks for more.
        max_delay: Duration = Duration::from_secs(20), DELAY, Restart;
        /// How much of a delay is left to chance.
        jitter: Jitter = Jitter::Full, Kind::Choice(&["full", "equal", "decorrelated", "proportional", "none"]), Restart;
        /// The first delay after a server said that a limit was reached, if the backoff has a shorter one.
        throttled_base: Duration = Duration::from_secs(1), DELAY, Restart;
        /// The longest wait that a server's `Retry-After` can ask for.
        max_hint: Duration = Duration::from_mins(5), Kind::Duration { min: Duration::ZERO, max: DAY }, Restart;
    }
    check |settings: &RetrySettings, _| (settings.max_delay < settings.base_delay).then(|| Conflict {
        kind: ConflictKind::Values,
        keys: &["base_delay", "max_delay"],
        // Shorter delays allow more retries.
        looser: &["max_delay"],
        expected: "max_delay must be no less than base_delay".to_owned(),
    })
}

impl RetrySettings {
    /// Builds the policy of retries. Give it the [budget](RetryBudgetSettings::budget) that calls share.
    pub fn retry(&self) -> Retry {
        Retry::new(self.max_attempts)
            .backoff(self.backoff())
            .throttled_base(self.throttled_base)
            .max_hint(self.max_hint)
    }

    /// Builds the delays between attempts.
    #[must_use]
    pub fn backoff(&self) -> Backoff {
        let backoff = Backoff::exponential(self.base_delay);
        // The factor's range is that of the key.
        backoff.factor(self.factor).unwrap_or(backoff).max_delay(self.max_delay).jitter(self.jitter)
    }
}

section! {
    /// How many retries there may be for the calls of a client, so that retries do not multiply an overload.
    RetryBudgetSettings {
        /// How many retries a call brings.
        ratio: f64 = 0.2, Kind::Number { min: 0.0, max: 1.0 }, Restart;
        /// For how long the retries that a call brings can be used.
        ttl: Duration = Duration::from_secs(10), Kind::Duration { min: Duration::from_millis(1), max: DAY }, Restart;
        /// How many retries a second there are beside those.
        floor: u32 = 10, Kind::Count { min: 0, max: 10_000 }, Restart;
        /// How many retries at once there are beside those that calls bring.
        reserve: u32 = 100, Kind::Count { min: 1, max: 1_000_000 }, Restart;
    }
    check |_, _| None
}

impl RetryBudgetSettings {
    /// Builds a budget, for an `Arc` or a `static` that all calls share.
    #[must_use]
    pub fn budget(&self) -> RetryBudget {
        let config =
            RetryBudgetConfig::builder().ratio(self.ratio).ttl(self.ttl).floor(self.floor).reserve(self.reserve);
        // The ranges are those of the keys.
        RetryBudget::new(config.build().unwrap_or_default())
    }
}

section! {
    /// Attempts that begin beside a slow one.
    HedgeSettings {
        /// How many extra requests there may be per call.
        max_extra: f64 = 0.02, Kind::Number { min: 0.001, max: 1.0 }, Restart;
        /// How many attempts a call may have, the first included.
        max_attempts: u32 = 2, Kind::Count { min: 2, max: 5 }, Restart;
        /// The shortest delay before another attempt, where the delay follows the latency.
        min_delay: Duration = Duration::from_millis(1), DELAY, Restart;
        /// The delay before another attempt. Unset: it follows the latency of recent calls.
        fixed_delay: Option<Duration> = None, DELAY, Restart;
    }
    check |_, _| None
}

impl HedgeSettings {
    /// Builds the settings of a hedge.
    #[must_use]
    pub fn config(&self) -> HedgeConfig {
        let mut builder =
            HedgeConfig::builder().max_extra(self.max_extra).max_attempts(self.max_attempts).min_delay(self.min_delay);
        if let Some(delay) = self.fixed_delay {
            builder = builder.fixed_delay(delay);
        }
        // The ranges are those of the keys.
        builder.build().unwrap_or_default()
    }
}
