//! Gradient2: the ratio of two latencies, and room for a queue.

use super::unloaded::Unloaded;
use crate::concurrency::adaptive::log2::exp2;
use crate::concurrency::adaptive::rule::latency_of;
use crate::concurrency::{BoundedRule, LimitBounds, LimitRule, WindowPlan, WindowSummary};
use core::time::Duration;

/// The factor by which calls may be slower than the unloaded service, as a logarithm: 1.5.
const TOLERANCE: f64 = 0.584_962_500_721_156;

/// The number of calls that may queue in addition.
const QUEUE: f64 = 4.0;

/// The share of a window's result in the limit.
const SMOOTHING: f64 = 0.2;

/// The factor on the limit after a failing window.
///
/// More than a tenth of its calls were overloaded or timed out.
const AFTER_OVERLOAD: f64 = 0.9;

/// Multiplies the limit by the ratio of the unloaded latency to the present one.
///
/// The ratio is 0.5 to 1, after a tolerance of 1.5, and a queue of 4 is added. `Gradient2Limit` of Netflix's
/// concurrency-limits has the same rule.
///
/// Netflix's rule compares with a long average of the same latencies. Under a lasting overload that average becomes the queue,
/// and the limit grows to its maximum (issue 134): latencies of 18 times the unloaded one in simulations. It also ignores
/// overloaded calls. This rule compares with the service at a third of the limit, and lowers the limit after overloaded calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradient2 {
    bounds: LimitBounds,
    limit: f64,
    unloaded: Unloaded,
}

impl Gradient2 {
    /// Creates the rule, with a limit in these bounds.
    #[must_use]
    pub const fn new(bounds: LimitBounds) -> Self {
        Self { bounds, limit: bounds.start() as f64, unloaded: Unloaded::new() }
    }
}

impl LimitRule for Gradient2 {
    fn first(&self) -> WindowPlan {
        WindowPlan::new(self.limit as u32)
    }

    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        let old = self.limit;
        let unloaded = self.unloaded.learn(window, old);
        if window.is_failing() {
            self.limit = self.bounds.hold(old * AFTER_OVERLOAD);
        } else if let (Some(unloaded), Some(reading)) = (unloaded, window.log2_latency)
            && f64::from(window.peak_in_flight) * 2.0 >= old
        {
            let gradient = exp2((TOLERANCE + unloaded - reading).clamp(-1.0, 0.0));
            self.limit = self.bounds.hold(old * (1.0 - SMOOTHING) + (old * gradient + QUEUE) * SMOOTHING);
        }
        self.unloaded.plan(window, old, self.limit)
    }

    fn baseline(&self) -> Option<Duration> {
        self.unloaded.latency().map(latency_of)
    }
}

impl BoundedRule for Gradient2 {
    fn set_bounds(&mut self, bounds: LimitBounds, limit: u32) -> u32 {
        (self.bounds, self.limit) = (bounds, bounds.hold(self.limit));
        if self.unloaded.is_measuring() { limit.min(bounds.max()) } else { self.limit as u32 }
    }
}
