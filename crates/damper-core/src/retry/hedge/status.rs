//! The counts of a hedge.

use core::time::Duration;

/// The extra requests of a [`Hedge`](super::Hedge) since it was made, and the latency that it goes by.
///
/// | sign | reason | remedy |
/// |---|---|---|
/// | [`delay`](Self::delay) is many times the [`median`](Self::median), and few are [made](Self::made) | more calls are slow than exceed the percentile | a lower [`percentile`](super::HedgeConfigBuilder::percentile), with more extra requests |
/// | [`over_allowance`](Self::over_allowance) grows | more calls are slow, or fail, than there may be extra requests | [`max_extra`](super::HedgeConfigBuilder::max_extra), or [`repeat_failures(false)`](super::HedgeConfigBuilder::repeat_failures) inside of a retry |
/// | [`over_budget`](Self::over_budget) grows | retries and hedges use up the budget that they share | a larger budget, if the service bears it |
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::retry::{Hedge, HedgeConfig};
///
/// let hedge = Hedge::new(HedgeConfig::DEFAULT);
/// let status = hedge.status();
/// assert_eq!((status.made(), status.over_allowance(), status.delay()), (0, 0, None));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg(feature = "alloc")]
pub struct HedgeStatus {
    made: u64,
    over_allowance: u64,
    over_budget: u64,
    delay: Option<Duration>,
    median: Option<Duration>,
}

impl HedgeStatus {
    pub(super) const fn new(
        made: u64,
        over_allowance: u64,
        over_budget: u64,
        delay: Option<Duration>,
        median: Option<Duration>,
    ) -> Self {
        Self { made, over_allowance, over_budget, delay, median }
    }

    /// Returns the number of extra requests.
    #[must_use]
    pub const fn made(&self) -> u64 {
        self.made
    }

    /// Returns the number of extra requests that were due, and not made because of `max_extra`.
    #[must_use]
    pub const fn over_allowance(&self) -> u64 {
        self.over_allowance
    }

    /// Returns the number of extra requests that were due, and not made because of the budget.
    #[must_use]
    pub const fn over_budget(&self) -> u64 {
        self.over_budget
    }

    /// Returns the delay before another attempt; `None` if too few calls were seen.
    #[must_use]
    pub const fn delay(&self) -> Option<Duration> {
        self.delay
    }

    /// Returns the median of the recent latency of first attempts, rounded up by at most 5 %.
    ///
    /// `None` if too few calls were seen, or the delay is fixed.
    #[must_use]
    pub const fn median(&self) -> Option<Duration> {
        self.median
    }
}
