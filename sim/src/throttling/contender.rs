//! The strategies that are compared, with their options.

use super::throttle::{Paced, Throttle, Unthrottled};
use damper::throttle::compared::{CubicRate, ExponentialBackoff, GradualDecrease, ProportionalDecrease};
use damper::throttle::{Level, RemainingDecrease, Strategy};
use damper::{OutOfRange, Quota};
use std::fmt;
use std::time::Duration;

/// A strategy by name.
pub struct Contender {
    name: &'static str,
    throttle: Box<dyn Fn(u64) -> Box<dyn Throttle> + Sync>,
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Options that override the strategies' own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// By how much a refusal multiplies the sleep.
    pub multiplier: Option<f64>,
    /// The longest sleep without jitter.
    pub cap: Option<Duration>,
    /// The divisor of a success, in strategies 3 and 4.
    pub divisor: Option<u32>,
    /// The sleep to start with, in strategies that have one.
    pub start: Option<Duration>,
}

/// Applies each option that is given.
macro_rules! with {
    ($strategy:expr, $options:expr, $($option:ident),*) => {{
        let mut strategy = $strategy;
        $(if let Some(value) = $options.$option {
            strategy = strategy.$option(value)?;
        })*
        strategy
    }};
}

impl Contender {
    /// Creates a row for a strategy: damper's, or one of your own.
    #[must_use]
    pub fn new<S: Strategy + Copy + Sync + 'static>(name: &'static str, strategy: S) -> Self {
        Self::with_throttles(name, move |seed| Box::new(Paced::new(strategy, seed)))
    }

    /// Creates a row for throttles of any kind. `throttle` makes one of a seed.
    #[must_use]
    pub fn with_throttles(name: &'static str, throttle: impl Fn(u64) -> Box<dyn Throttle> + Sync + 'static) -> Self {
        Self { name, throttle: Box::new(throttle) }
    }

    /// Its name in tables and charts.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Creates a throttle.
    #[must_use]
    pub fn throttle(&self, seed: u64) -> Box<dyn Throttle> {
        (self.throttle)(seed)
    }

    /// Returns the strategies of the table, in its order.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if an option is out of range.
    pub fn all(quota: Quota, options: &Options) -> Result<Vec<Self>, OutOfRange> {
        let backoff = |multiplier| {
            let options = Options { multiplier: options.multiplier.or(Some(multiplier)), ..*options };
            Ok(with!(ExponentialBackoff::new(quota), options, multiplier, cap))
        };
        Ok(vec![
            Self::with_throttles("0 none", |_| Box::new(Unthrottled)),
            Self::new("1 backoff, 2.0", backoff(2.0)?),
            Self::new("1 backoff, 1.2", backoff(1.2)?),
            Self::new("2 gradual", with!(GradualDecrease::new(quota), options, multiplier, cap, start)),
            Self::proportional(quota, options)?,
            Self::remaining(quota, options)?,
            Self::level(quota, options)?,
            Self::new("AWS cubic", CubicRate::new(quota)),
        ])
    }

    /// Returns strategy 3.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if an option is out of range.
    pub fn proportional(quota: Quota, options: &Options) -> Result<Self, OutOfRange> {
        let strategy = with!(ProportionalDecrease::new(quota), options, multiplier, cap, start, divisor);
        Ok(Self::new("3 proportional", strategy))
    }

    /// Returns strategy 4, the best of those published.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if an option is out of range.
    pub fn remaining(quota: Quota, options: &Options) -> Result<Self, OutOfRange> {
        let strategy = with!(RemainingDecrease::new(quota), options, multiplier, cap, start, divisor);
        Ok(Self::new("4 remaining", strategy))
    }

    /// Returns damper's own.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if an option is out of range.
    pub fn level(quota: Quota, options: &Options) -> Result<Self, OutOfRange> {
        Ok(Self::new("5 Level", with!(Level::new(quota), options, cap, start)))
    }
}
