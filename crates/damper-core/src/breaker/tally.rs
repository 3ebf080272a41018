//! A window of calls in the breaker's own word.

use super::BreakerConfig;
use super::settings::{RecordWords, WindowSettings};
use super::window::{Outcome, RegisterShape, WindowShape};

/// The rates of the last 48 calls or fewer, whose outcomes are the payload of a closed breaker.
///
/// Consecutive failures are the newest outcomes. A threshold above the size of the register never decides, because a rate does first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    shape: RegisterShape,
    rates: WindowSettings,
    failure_threshold: u32,
}

impl Tally {
    /// Creates the tally of a configuration; `None` if its window does not fit a word.
    pub(crate) const fn new(config: &BreakerConfig) -> Option<Self> {
        let rates = RecordWords::new(config).untimed_window();
        match WindowShape::new(config.window(), false) {
            WindowShape::Register { calls, width } => Some(Self {
                shape: RegisterShape { calls, width },
                rates,
                failure_threshold: config.failure_threshold(),
            }),
            #[cfg(feature = "alloc")]
            _ => None,
        }
    }

    /// Returns the outcomes after one more; `None` if it trips the breaker.
    ///
    /// Outcomes of 0 are those of no call.
    pub(crate) fn after(&self, outcomes: u64, failed: bool) -> Option<u64> {
        let outcomes = self.shape.shifted(outcomes.max(1), Outcome { failed, slow: false });
        let trips = self.rates.trip_cause(self.shape.count(outcomes)).is_some()
            || outcomes.trailing_ones().min(outcomes.ilog2()) >= self.failure_threshold;
        (!trips).then_some(outcomes)
    }
}
