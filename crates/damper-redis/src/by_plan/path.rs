//! The limited buckets of one call.

use super::bucket::Bucket;
use crate::script::{PARTS_PER_BURST, PathKeys, Terms};
use damper_core::Quota;
use std::sync::Arc;

/// The buckets of a call that have a limit, with their keys on the server.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) keys: PathKeys,
    pub(super) steps: Vec<Step>,
}

/// One bucket of a path.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) terms: Terms,
    pub(super) quota: Quota,
    pub(super) cost: u32,
    /// The numbers of the level and of the dimension.
    pub(super) place: (usize, usize),
    pub(super) bucket: Arc<Bucket>,
}

impl Step {
    /// Returns the cost in parts of the burst, rounded up.
    pub(super) fn parts(&self) -> u32 {
        let parts = (u64::from(self.cost) * u64::from(PARTS_PER_BURST)).div_ceil(self.terms.burst.max(1).into());
        // A cost that the server is asked for is at most the burst.
        u32::try_from(parts).unwrap_or(u32::MAX)
    }
}

impl Path {
    /// Leaves out the buckets for which `keep` is false.
    pub(super) fn retain(&mut self, keep: impl Fn(&Step) -> bool) {
        let kept: Vec<bool> = self.steps.iter().map(keep).collect();
        self.keys.retain(|index| kept[index]);
        let mut kept = kept.into_iter();
        self.steps.retain(|_| kept.next().unwrap_or(true));
    }
}
