//! Pacing of clients.

use super::DAY;
use crate::kind::Kind;
use crate::section::{Conflict, section};
use crate::setting::{Choice, choice};
use damper_core::retry::Budget;
use damper_core::throttle::{Hints, Level, Moment, NoPacing, PacedRetry, Pacer, RemainingDecrease, Strategy};
use damper_core::{OutOfRange, Quota};
use std::time::Duration;

/// The strategy by which a pacer finds its sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum PacingStrategy {
    /// [`Level`]: by what remains of the limit.
    #[default]
    Level,
    /// [`RemainingDecrease`]: rejections multiply the sleep, and successes shorten it by what remains.
    RemainingDecrease,
    /// [`NoPacing`]: sleeps only as long as the server asks.
    None,
}

choice! { PacingStrategy {
    "level" => PacingStrategy::Level,
    "remaining_decrease" => PacingStrategy::RemainingDecrease,
    "none" => PacingStrategy::None,
} }

section! {
    /// How a client sleeps before its calls, so that a server with a limit rarely rejects one.
    PacingSettings {
        /// The limit of the server, as a whole: other clients that share it are found out about.
        quota: Quota = Quota::per_second(50).burst(100), Kind::Quota, Restart;
        /// How the sleep is found.
        ///
        /// Only `level` keeps to the windows that a server announces. `none` sleeps only as long as the server asks.
        strategy: PacingStrategy = PacingStrategy::Level, PacingStrategy::KIND, Restart private;
        /// By what a rejection multiplies the sleep.
        ///
        /// With `remaining_decrease`.
        multiplier: f64 = 1.2, Kind::Number { min: 1.0, max: 10.0 }, Restart;
        /// The divisor of the part that a success takes off the sleep.
        ///
        /// With `remaining_decrease`. Unset: the limit of the quota.
        divisor: Option<u32> = None, Kind::Count { min: 1, max: Kind::MAX_RATE }, Restart;
        /// The sleep before the first call.
        ///
        /// With `level` and `remaining_decrease`.
        initial_sleep: Duration = Duration::ZERO, Kind::Duration { min: Duration::ZERO, max: DAY }, Restart;
        /// The longest sleep, unless a server asks for more.
        ///
        /// Unset: the window of the quota, at least 1s, at most a day.
        max_sleep: Option<Duration> = None, Kind::Duration { min: Duration::from_micros(1), max: DAY }, Restart;
        /// The longest sleep that a server can ask for.
        max_hint: Duration = Duration::from_secs(3600), Kind::Duration { min: Duration::ZERO, max: DAY }, Restart;
        /// Whether each host has a pacer of its own.
        per_host: bool = true, Kind::Flag, Restart;
        /// For how many hosts pacers are kept, where each host has one.
        max_hosts: u32 = 1024, Kind::Count { min: 1, max: 1 << 24 }, Restart;
        /// How many attempts a rejected call may make, the first included.
        ///
        /// Only of a layer by itself: a stack has `retry`.
        max_attempts: u32 = 10, Kind::Count { min: 1, max: 100 }, Restart;
        /// How long a call may take with its sleeps and attempts.
        ///
        /// Only of a layer by itself: a stack has `deadline`.
        max_time: Duration = Duration::from_secs(5 * 60), Kind::Duration { min: Duration::from_millis(1), max: DAY }, Restart;
    }
    check |settings| (settings.initial_sleep > settings.longest_sleep()).then_some(Conflict {
        keys: &["initial_sleep", "max_sleep", "quota"],
        looser: &[],
        expected: "initial_sleep must be no more than max_sleep, or than the window of the quota (at least 1s) if max_sleep is unset",
    });
}

impl PacingSettings {
    fn longest_sleep(&self) -> Duration {
        self.max_sleep.unwrap_or_else(|| self.quota.window().clamp(Duration::from_secs(1), DAY))
    }

    /// Builds a pacer for one server.
    #[must_use]
    pub fn pacer(&self) -> Pacer<ConfiguredStrategy> {
        // Never fails: the keys have the same ranges, and `check` refuses another initial sleep.
        let strategy = self.try_strategy().unwrap_or(ConfiguredStrategy(Chosen::Level(Level::new(self.quota))));
        Pacer::with_strategy(strategy).max_hint(self.max_hint)
    }

    /// Builds the policy of the retries that a pacer makes by itself.
    ///
    /// It takes the retries from this budget: a reference, or an `Arc`.
    pub fn retry<B: Budget>(&self, budget: B) -> PacedRetry<B> {
        PacedRetry::new(self.max_attempts).max_time(self.max_time).budget(budget)
    }

    pub(crate) fn try_strategy(&self) -> Result<ConfiguredStrategy, OutOfRange> {
        let Self { quota, multiplier, divisor, initial_sleep: start, .. } = *self;
        let cap = self.longest_sleep();
        Ok(ConfiguredStrategy(match self.strategy {
            PacingStrategy::Level => Chosen::Level(Level::new(quota).cap(cap)?.start(start)?),
            PacingStrategy::RemainingDecrease => {
                let strategy = RemainingDecrease::new(quota).multiplier(multiplier)?.cap(cap)?.start(start)?;
                Chosen::RemainingDecrease(divisor.map_or(Ok(strategy), |divisor| strategy.divisor(divisor))?)
            }
            PacingStrategy::None => Chosen::None(NoPacing),
        }))
    }
}

/// The selected strategy, with its options.
#[derive(Clone, Copy, Debug)]
pub struct ConfiguredStrategy(Chosen);

#[derive(Clone, Copy, Debug)]
enum Chosen {
    Level(Level),
    RemainingDecrease(RemainingDecrease),
    None(NoPacing),
}

impl ConfiguredStrategy {
    #[inline]
    fn chosen(&self) -> &dyn Strategy {
        match &self.0 {
            Chosen::Level(strategy) => strategy,
            Chosen::RemainingDecrease(strategy) => strategy,
            Chosen::None(strategy) => strategy,
        }
    }
}

impl Strategy for ConfiguredStrategy {
    fn before_call(&self, learned: u64, moment: Moment) -> Duration {
        self.chosen().before_call(learned, moment)
    }

    fn answered(&self, learned: &mut u64, hints: &Hints, moment: Moment) -> Duration {
        self.chosen().answered(learned, hints, moment)
    }

    fn schedule(&self, schedule: &mut u64, learned: u64, sleep: Duration, moment: Moment) -> Duration {
        self.chosen().schedule(schedule, learned, sleep, moment)
    }

    fn pause(&self, learned: u64, hints: &Hints) -> Option<Duration> {
        self.chosen().pause(learned, hints)
    }

    fn spread(&self, learned: u64, left: Duration) -> Duration {
        self.chosen().spread(learned, left)
    }
}
