//! A limit that you choose.

use crate::concurrency::{LimitRule, WindowPlan, WindowSummary};

/// A limit that stays as it is set: for [`Admission::fixed`](super::Admission::fixed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg(feature = "alloc")]
pub struct FixedLimit(pub(super) u32);

impl LimitRule for FixedLimit {
    fn first(&self) -> WindowPlan {
        WindowPlan::new(self.0)
    }

    fn next(&mut self, _window: &WindowSummary) -> WindowPlan {
        WindowPlan::new(self.0)
    }
}
