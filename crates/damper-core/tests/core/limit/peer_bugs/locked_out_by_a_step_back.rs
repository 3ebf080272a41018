//! The time at which the bucket is full is trusted, however far ahead of the clock it lies.

use crate::limit::peer_bugs::Bucket;

pub(crate) struct LockedOutByAStepBack {
    interval: u64,
    tolerance: u64,
    full_at: u64,
}

impl Bucket for LockedOutByAStepBack {
    fn new(limit: u32, window: u64, burst: u32) -> Self {
        let interval = window / u64::from(limit);
        Self { interval, tolerance: interval * u64::from(burst), full_at: 0 }
    }

    fn check_n(&mut self, now: u64, n: u32) -> bool {
        let full_at = self.full_at.max(now) + self.interval * u64::from(n);
        let allowed = full_at <= now + self.tolerance;
        if allowed {
            self.full_at = full_at;
        }
        allowed
    }
}
