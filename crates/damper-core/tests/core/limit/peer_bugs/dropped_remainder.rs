//! A refill of whole tokens that loses the fraction of a token accrued so far.
//!
//! It sets the time of the last refill to now.

use crate::limit::peer_bugs::Bucket;

pub(crate) struct DroppedRemainder {
    interval: u64,
    burst: u64,
    level: u64,
    refilled_at: u64,
}

impl Bucket for DroppedRemainder {
    fn new(limit: u32, window: u64, burst: u32) -> Self {
        Self { interval: window / u64::from(limit), burst: burst.into(), level: burst.into(), refilled_at: 0 }
    }

    fn check_n(&mut self, now: u64, n: u32) -> bool {
        let tokens = (now - self.refilled_at) / self.interval;
        if tokens > 0 {
            self.level = self.burst.min(self.level + tokens);
            // Correct would be the last refill plus the time of those tokens.
            self.refilled_at = now;
        }
        let allowed = self.level >= u64::from(n);
        if allowed {
            self.level -= u64::from(n);
        }
        allowed
    }
}
