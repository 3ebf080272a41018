//! Exponential backoff.

use super::growing_sleep::GrowingSleep;
use super::{Hints, Moment, Strategy};
use crate::out_of_range::OutOfRange;
use crate::quota::Quota;
use core::time::Duration;

/// Sleeps only after a rejection, longer each time, and starts over at the first success.
///
/// The first sleep is the time in which the quota brings one token, and each further rejection multiplies it. Up to a tenth is
/// added as jitter. Clients that do so are rejected most of the time and are treated unequally: use it for comparisons only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ExponentialBackoff {
    sleep: GrowingSleep,
}

impl ExponentialBackoff {
    /// Creates the strategy for a service with this limit.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self { sleep: GrowingSleep::new(&quota) }
    }

    /// Sets the factor by which a rejection multiplies the sleep, rounded to thousandths; 1.0 to 10.0.
    ///
    /// Default: 1.2.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is out of this range.
    pub const fn multiplier(mut self, multiplier: f64) -> Result<Self, OutOfRange> {
        match self.sleep.with_multiplier(multiplier) {
            Ok(sleep) => {
                self.sleep = sleep;
                Ok(self)
            }
            Err(error) => Err(error),
        }
    }

    /// Sets the longest sleep, before jitter; 1 µs to 1 day.
    ///
    /// Default: the window of the quota, at least a second and at most a day.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is out of this range, or below the start.
    pub const fn cap(mut self, longest: Duration) -> Result<Self, OutOfRange> {
        match self.sleep.with_cap(longest) {
            Ok(sleep) => {
                self.sleep = sleep;
                Ok(self)
            }
            Err(error) => Err(error),
        }
    }
}

impl Strategy for ExponentialBackoff {
    fn before_call(&self, _: u64, _: Moment) -> Duration {
        Duration::ZERO
    }

    fn answered(&self, learned: &mut u64, hints: &Hints, moment: Moment) -> Duration {
        if !hints.is_rejected() {
            *learned = 0;
            return Duration::ZERO;
        }
        let sleep = match *learned {
            0 => self.sleep.min_sleep(),
            word => self.sleep.of_word(word).thousandths(self.sleep.multiplier).at_most(self.sleep.cap),
        };
        *learned = GrowingSleep::word(sleep);
        sleep.jittered(moment.random).duration()
    }
}
