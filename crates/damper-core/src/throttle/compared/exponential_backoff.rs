//! Exponential backoff.

use crate::out_of_range::OutOfRange;
use crate::quota::Quota;
use crate::throttle::pacing::growing_sleep::{GrowingSleep, sleep_options};
use crate::throttle::pacing::{Hints, Moment, Strategy};
use core::time::Duration;

/// Sleeps only after a rejection, longer each time, and starts over at the first success.
///
/// The first sleep is the time in which the quota brings one token, and each further rejection multiplies it. Up to a tenth is
/// added as jitter. Clients that do so are rejected most of the time and are treated unequally.
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

    sleep_options!();
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
