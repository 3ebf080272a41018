//! The burst as a time in nanoseconds that overflows 64 bits: five million tokens of an hour each.

use crate::limit::peer_bugs::Bucket;

pub(crate) struct WrappingBurst {
    interval: u64,
    tolerance: u64,
    full_at: u64,
}

impl Bucket for WrappingBurst {
    fn new(limit: u32, window: u64, burst: u32) -> Self {
        let interval = window / u64::from(limit);
        // As in a release build, where it wraps.
        Self { interval, tolerance: interval.wrapping_mul(u64::from(burst - 1)), full_at: 0 }
    }

    fn check_n(&mut self, now: u64, n: u32) -> bool {
        let more = self.interval.checked_mul(u64::from(n - 1)).expect("the cost itself fits");
        if self.full_at.saturating_add(more).saturating_sub(self.tolerance) > now {
            return false;
        }
        // This wraps too: a nearly empty bucket becomes full.
        self.full_at = self.full_at.max(now).wrapping_add(more).wrapping_add(self.interval);
        true
    }
}
