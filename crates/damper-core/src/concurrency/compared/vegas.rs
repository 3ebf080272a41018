//! Vegas: the queue that the latency implies, held between two bounds.

use super::unloaded::Unloaded;
use crate::concurrency::adaptive::log2::exp2;
use crate::concurrency::adaptive::rule::latency_of;
use crate::concurrency::{BoundedRule, LimitBounds, LimitRule, WindowPlan, WindowSummary};
use core::time::Duration;

/// The queue up to which the limit grows fast, in units of log10 of the limit.
///
/// It grows slowly below the next bound, and falls above the last.
const SHORT: f64 = 1.0;
const MIDDLE: f64 = 3.0;
const LONG: f64 = 6.0;

/// Holds the queue that the latency implies between 3 and 6 times log10 of the limit.
///
/// TCP Vegas has such bounds. The queue is `limit · (1 − unloaded / latency)`. `VegasLimit` of Netflix's
/// concurrency-limits has the same rule.
///
/// It suits services of constant latency with a queue in front. It is too careful for a service whose latency rises with its load
/// from the first call on.
///
/// Netflix's rule compares with the lowest latency of any call, which starves a service whose calls differ (0.04 to 0.12 of its
/// capacity in simulations). It looks for a new lowest latency under load, so that its limit drifts up (issue 165), and it starts
/// slowly (issue 35). This rule compares means, measures the unloaded service at a third of the limit, and doubles the limit
/// until there is a queue for the first time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vegas {
    bounds: LimitBounds,
    limit: f64,
    unloaded: Unloaded,
    /// Whether there was no queue yet.
    is_starting: bool,
}

impl Vegas {
    /// Creates the rule, with a limit in these bounds.
    #[must_use]
    pub const fn new(bounds: LimitBounds) -> Self {
        Self { bounds, limit: bounds.start() as f64, unloaded: Unloaded::new(), is_starting: true }
    }

    /// Returns the limit after a full window.
    ///
    /// Its calls took `slower` times as long as those of the unloaded service.
    fn after_full(&mut self, slower: f64) -> f64 {
        let step = f64::from((self.limit as u32).max(1).ilog10().max(1));
        let queue = self.limit * (1.0 - 1.0 / slower);
        if queue > step * LONG {
            self.is_starting = false;
            self.limit - step
        } else if queue >= step * MIDDLE {
            self.is_starting = false;
            self.limit
        } else if self.is_starting {
            self.limit * 2.0
        } else if queue <= step * SHORT {
            self.limit + step * LONG
        } else {
            self.limit + step
        }
    }
}

impl LimitRule for Vegas {
    fn first(&self) -> WindowPlan {
        WindowPlan::new(self.limit as u32)
    }

    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        let old = self.limit;
        let unloaded = self.unloaded.learn(window, old);
        if window.is_failing() {
            self.is_starting = false;
            self.limit = self.bounds.hold(old - f64::from((old as u32).max(1).ilog10().max(1)));
        } else if let (Some(unloaded), Some(reading)) = (unloaded, window.log2_latency)
            && window.is_full(old as u32)
        {
            let limit = self.after_full(exp2(reading - unloaded));
            self.limit = self.bounds.hold(limit);
        }
        self.unloaded.plan(window, old, self.limit)
    }

    fn baseline(&self) -> Option<Duration> {
        self.unloaded.latency().map(latency_of)
    }
}

impl BoundedRule for Vegas {
    fn set_bounds(&mut self, bounds: LimitBounds, limit: u32) -> u32 {
        (self.bounds, self.limit) = (bounds, bounds.hold(self.limit));
        if self.unloaded.is_measuring() { limit.min(bounds.max()) } else { self.limit as u32 }
    }
}
