//! The product of `n` cells is computed without an overflow check, before the burst is checked.

use crate::limit::peer_bugs::Bucket;

pub(crate) struct UncheckedProduct {
    interval: u64,
    tolerance: u64,
    full_at: u64,
}

impl Bucket for UncheckedProduct {
    fn new(limit: u32, window: u64, burst: u32) -> Self {
        let interval = window / u64::from(limit);
        Self { interval, tolerance: interval * u64::from(burst - 1), full_at: 0 }
    }

    fn check_n(&mut self, now: u64, n: u32) -> bool {
        // As in a release build it wraps: 2^40 ns times 2^24 is 0.
        let more = self.interval.wrapping_mul(u64::from(n - 1));
        if self.full_at.wrapping_add(more) > now + self.tolerance {
            return false;
        }
        self.full_at = self.full_at.max(now).wrapping_add(more).wrapping_add(self.interval);
        true
    }
}
