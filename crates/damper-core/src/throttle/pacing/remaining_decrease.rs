//! Exponential increase, decrease in proportion to the remaining calls.

use super::growing_sleep::{GrowingSleep, divisor_option, sleep_options, start_option};
use super::{Hints, Moment, Strategy};
use crate::out_of_range::{OutOfRange, check};
use crate::quota::Quota;
use core::time::Duration;

/// Keeps a sleep that rejections multiply, and that successes shorten more the more calls remain.
///
/// The sleep is kept between calls and slept before each call, with up to a tenth of jitter. A rejection first adds the time in
/// which the quota brings one token, and the sum is slept before the retry. Then it multiplies the sleep. Each success subtracts
/// `sleep · remaining / divisor`, where the divisor is the limit of the quota unless it is [set](Self::divisor). If the service
/// does not report the remaining calls, they count as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RemainingDecrease {
    sleep: GrowingSleep,
    divisor: u32,
}

impl RemainingDecrease {
    /// Creates the strategy for a service with this limit.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self { sleep: GrowingSleep::new(&quota), divisor: GrowingSleep::default_divisor(&quota) }
    }

    sleep_options!();
    start_option!();
    divisor_option!();
}

impl Strategy for RemainingDecrease {
    fn before_call(&self, learned: u64, moment: Moment) -> Duration {
        self.sleep.before_call(learned, moment)
    }

    fn answered(&self, learned: &mut u64, hints: &Hints, moment: Moment) -> Duration {
        let remaining = hints.remaining.unwrap_or(1);
        self.sleep.answered(learned, hints, moment, |sleep| sleep.part(remaining, self.divisor.into()))
    }
}
