//! A rule whose limit falls at once.

use damper::concurrency::{LimitRule, WindowPlan, WindowSummary};
use std::time::Duration;

/// Plans a limit of 5 for a window of one call, and then one of 1 for good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Falling;

impl LimitRule for Falling {
    fn first(&self) -> WindowPlan {
        WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(5) }
    }
    fn next(&mut self, _: &WindowSummary) -> WindowPlan {
        WindowPlan::new(1)
    }
}
