//! A bucket whose idle time allows a second burst.
//!
//! The time at which the bucket is full may lie a whole burst in the past. Then a burst in the future is allowed as
//! well.

use crate::limit::peer_bugs::Bucket;

pub(crate) struct IdleDoublesTheBurst {
    interval: u64,
    tolerance: u64,
    full_at: u64,
}

impl Bucket for IdleDoublesTheBurst {
    fn new(limit: u32, window: u64, burst: u32) -> Self {
        let interval = window / u64::from(limit);
        Self { interval, tolerance: interval * u64::from(burst), full_at: 0 }
    }

    fn check_n(&mut self, now: u64, n: u32) -> bool {
        // Correct would be: no earlier than now.
        let earliest = now.saturating_sub(self.tolerance);
        let full_at = self.full_at.max(earliest) + self.interval * u64::from(n);
        let allowed = full_at <= now + self.tolerance;
        if allowed {
            self.full_at = full_at;
        }
        allowed
    }
}
