//! Additive increase, multiplicative decrease.

use crate::concurrency::{BoundedRule, LimitBounds, LimitRule, WindowPlan, WindowSummary};

/// The factor on the limit after a window in which calls were overloaded.
const DECREASE: f64 = 0.9;

/// Additive increase, multiplicative decrease, as in TCP Reno.
///
/// The limit grows by one after a window in which at least half of it was in flight. It falls by a tenth after one in
/// which calls were overloaded or timed out. `AIMDLimit` of Netflix's concurrency-limits has the same rule.
///
/// It ignores the latency: a service that queues instead of refusing gets more and more calls until they time out. Use it where
/// the server refuses excess calls.
///
/// Netflix's rule changes the limit with every call, so that ten overloaded calls at one moment leave a third of it. This one
/// changes it once a window, which lasts until as many calls as the limit have ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aimd {
    bounds: LimitBounds,
    limit: f64,
}

impl Aimd {
    /// Creates the rule, with a limit in these bounds.
    #[must_use]
    pub const fn new(bounds: LimitBounds) -> Self {
        Self { bounds, limit: bounds.start() as f64 }
    }

    fn plan(&self) -> WindowPlan {
        let limit = self.limit as u32;
        WindowPlan { samples: limit, length: core::time::Duration::ZERO, ..WindowPlan::new(limit) }
    }
}

impl LimitRule for Aimd {
    fn first(&self) -> WindowPlan {
        self.plan()
    }

    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        let old = self.limit;
        if window.overloaded > 0 {
            self.limit = self.bounds.hold(old * DECREASE);
        } else if f64::from(window.peak_in_flight) * 2.0 >= old {
            self.limit = self.bounds.hold(old + 1.0);
        }
        // Calls that began before a decrease would decrease it again.
        self.plan().after(old, self.limit.min(old), window.in_flight)
    }
}

impl BoundedRule for Aimd {
    fn set_bounds(&mut self, bounds: LimitBounds, _: u32) -> u32 {
        (self.bounds, self.limit) = (bounds, bounds.hold(self.limit));
        self.limit as u32
    }
}
