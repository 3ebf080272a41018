//! Exponential increase, and a decrease that does not know what remains.

use crate::out_of_range::{OutOfRange, check};
use crate::quota::Quota;
use crate::throttle::pacing::growing_sleep::{GrowingSleep, divisor_option, sleep_options, start_option};
use crate::throttle::pacing::{Hints, Moment, Strategy};
use core::time::Duration;

/// Keeps a sleep that rejections multiply, and that each success shortens by the same time.
///
/// The sleep is kept between calls and slept before each call, with up to a tenth of jitter. A rejection first adds the time in
/// which the quota brings one token, and the sum is slept before the retry. Then it multiplies the sleep. Each success subtracts
/// the time of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct GradualDecrease {
    sleep: GrowingSleep,
}

impl GradualDecrease {
    /// Creates the strategy for a service with this limit.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self { sleep: GrowingSleep::new(&quota) }
    }

    sleep_options!();
    start_option!();
}

impl Strategy for GradualDecrease {
    fn before_call(&self, learned: u64, moment: Moment) -> Duration {
        self.sleep.before_call(learned, moment)
    }

    fn answered(&self, learned: &mut u64, hints: &Hints, moment: Moment) -> Duration {
        self.sleep.answered(learned, hints, moment, |_| self.sleep.min_sleep())
    }
}

/// Keeps a sleep that rejections multiply, and that each success shortens in proportion.
///
/// The sleep is kept between calls and slept before each call, with up to a tenth of jitter. A rejection first adds the time in
/// which the quota brings one token, and the sum is slept before the retry. Then it multiplies the sleep. Each success subtracts
/// `sleep / divisor`, where the divisor is the limit of the quota unless it is [set](Self::divisor).
///
/// It takes hours to use a large capacity that has become available. [`RemainingDecrease`](crate::throttle::RemainingDecrease)
/// does not.
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
        Self { sleep: GrowingSleep::new(&quota), divisor: GrowingSleep::default_divisor(&quota) }
    }

    sleep_options!();
    start_option!();
    divisor_option!();
}

impl Strategy for ProportionalDecrease {
    fn before_call(&self, learned: u64, moment: Moment) -> Duration {
        self.sleep.before_call(learned, moment)
    }

    fn answered(&self, learned: &mut u64, hints: &Hints, moment: Moment) -> Duration {
        self.sleep.answered(learned, hints, moment, |sleep| sleep.part(1, self.divisor.into()))
    }
}
