//! The costs of a call, taken from all buckets of a path and settled later.

use super::path::Path;
use super::planned::{Admitted, Planned};
use core::fmt;
use damper_core::keyed::TreeAllowed;
use std::sync::Arc;

/// The costs of one call, taken from all levels and dimensions of its path.
///
/// [`RedisTree::reserve`](crate::RedisTree::reserve) returns it. It owns a reference to the tree, so it can be moved into a task or a
/// streamed response.
///
/// Keep it for as long as the call takes, and [settle](Self::settle) it when the true costs are known. If it is dropped instead, the
/// costs count as used. So they do if the process dies: the server keeps no reservation, but only how much is unsettled, and forgets
/// that after two [times-to-live](crate::RedisLimiterBuilder::time_to_live) at the latest.
#[must_use = "a reservation that is dropped at once counts as used"]
pub struct RedisTreeReservation<const DIMENSIONS: usize> {
    planned: Arc<Planned>,
    costs: [u32; DIMENSIONS],
    allowed: TreeAllowed,
    /// The call and the buckets that it took nothing from, until it is settled.
    open: Option<(Admitted, Path)>,
}

impl<const DIMENSIONS: usize> RedisTreeReservation<DIMENSIONS> {
    pub(super) fn new(planned: Arc<Planned>, costs: [u32; DIMENSIONS], admitted: Admitted, idle: Path) -> Self {
        Self { planned, costs, allowed: admitted.allowed, open: Some((admitted, idle)) }
    }

    /// Returns the costs that were taken.
    #[must_use]
    pub fn costs(&self) -> [u32; DIMENSIONS] {
        self.costs
    }

    /// Returns the permission: the tightest of the limits.
    #[must_use]
    pub fn allowed(&self) -> TreeAllowed {
        self.allowed
    }

    /// Corrects the costs to what the call used, one number for each dimension.
    ///
    /// It returns at once and sends one command in the background. Tokens that were not used are given back, except those that a full
    /// bucket has no room for, those beyond the [bound](crate::RedisLimiterBuilder::unsettled) on what is unsettled, and all of them
    /// after the [time-to-live](crate::RedisLimiterBuilder::time_to_live) or without a runtime of tokio. Tokens that were used beyond
    /// the costs are booked into debt, but none beyond [`Quota::max_debt`](damper_core::Quota::max_debt). Settle a call that was not
    /// made with costs of 0.
    ///
    /// If the command is lost, nothing is given back, and what was used beyond is booked again with a later command of this process for
    /// the bucket, after the server has replied to one. It may then count twice. The same holds for a call that the [policy](crate::WhenDown) allowed.
    pub fn settle(mut self, used: [u32; DIMENSIONS]) {
        if let Some((admitted, idle)) = self.open.take() {
            let is_by_server = !admitted.counted.is_empty() || admitted.path.steps.is_empty();
            let counted = vec![0; if is_by_server { idle.steps.len() } else { 0 }];
            let idle = Admitted { path: idle, counted, allowed: admitted.allowed, since: admitted.since };
            for part in [admitted, idle] {
                self.planned.settle(part, |dimension| used[dimension]);
            }
        }
    }
}

impl<const DIMENSIONS: usize> Drop for RedisTreeReservation<DIMENSIONS> {
    fn drop(&mut self) {
        // The server stops counting the costs as unsettled.
        if let Some((admitted, _)) = self.open.take() {
            self.planned.settle(admitted, |dimension| self.costs[dimension]);
        }
    }
}

impl<const DIMENSIONS: usize> fmt::Debug for RedisTreeReservation<DIMENSIONS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTreeReservation").field("costs", &self.costs).finish_non_exhaustive()
    }
}
