//! Exponential increase, proportional decrease.

use super::growing_sleep::GrowingSleep;
use super::{Hints, Moment, Strategy};
use crate::out_of_range::{OutOfRange, check};
use crate::quota::Quota;
use core::time::Duration;

/// Keeps a sleep that rejections multiply, and that each success shortens in proportion.
///
/// The sleep is kept between calls and slept before each call, with up to a tenth of jitter. A rejection first adds the time in
/// which the quota brings one token, and the sum is slept before the retry. Then it multiplies the sleep. Each success subtracts
/// `sleep / divisor`, where the divisor is the limit of the quota unless it is [set](Self::divisor).
///
/// It takes hours to use a large capacity that has become available. [`RemainingDecrease`](super::RemainingDecrease) does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ProportionalDecrease {
    sleep: GrowingSleep,
    divisor: u32,
}

impl ProportionalDecrease {
    /// Creates the strategy for a service with this limit.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        let divisor = if quota.limit() == 0 { 1 } else { quota.limit() };
        Self { sleep: GrowingSleep::new(&quota), divisor }
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

    /// Sets the sleep before the first call; at most the [cap](Self::cap). Default: none.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is longer than the cap.
    pub const fn start(mut self, sleep: Duration) -> Result<Self, OutOfRange> {
        match self.sleep.with_start(sleep) {
            Ok(sleep) => {
                self.sleep = sleep;
                Ok(self)
            }
            Err(error) => Err(error),
        }
    }

    /// Sets the divisor of the decrease; at least 1. Default: the limit of the quota.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is 0.
    pub const fn divisor(mut self, divisor: u32) -> Result<Self, OutOfRange> {
        check!(check_count("divisor", divisor as u64, 1..=u64::MAX));
        self.divisor = divisor;
        Ok(self)
    }
}

impl Strategy for ProportionalDecrease {
    fn before_call(&self, learned: u64, moment: Moment) -> Duration {
        self.sleep.of_word(learned).jittered(moment.random).duration()
    }

    fn answered(&self, learned: &mut u64, hints: &Hints, moment: Moment) -> Duration {
        if hints.is_rejected() {
            return self.sleep.rejected(learned).jittered(moment.random).duration();
        }
        self.sleep.accepted(learned, self.sleep.of_word(*learned).part(1, self.divisor.into()));
        Duration::ZERO
    }
}
