//! The clock is read once, before the loop around the swap, and the elapsed time wraps.
//!
//! A thread that read the clock before another thread stored a later time finds a negative gap. It takes that for an idle time of
//! 49.7 days, refills the bucket, and writes its older time back.

use crate::limit::peer_bugs::{Shared, halfway};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct StaleReading {
    limit: u64,
    window: u64,
    burst: u64,
    now: AtomicU64,
    /// Thousandths of tokens in the upper half, the milliseconds of the last refill in the lower.
    word: AtomicU64,
}

impl Shared for StaleReading {
    fn new(limit: u32, window: u64, burst: u32) -> Self {
        let burst = u64::from(burst) * 1_000;
        Self { limit: limit.into(), window, burst, now: AtomicU64::new(0), word: AtomicU64::new(burst << 32) }
    }

    fn pass(&self, nanos: u64) {
        self.now.fetch_add(nanos, Ordering::SeqCst);
    }

    fn check(&self) -> bool {
        let now = (self.now.load(Ordering::SeqCst) / 1_000_000) as u32;
        halfway(); // Another thread stores a later time, while this one keeps its reading.
        loop {
            let word = self.word.load(Ordering::SeqCst);
            let elapsed = u64::from(now.wrapping_sub(word as u32)) * 1_000_000;
            let refill = u128::from(elapsed) * u128::from(self.limit) * 1_000 / u128::from(self.window);
            let level = u64::try_from(refill).unwrap_or(u64::MAX).saturating_add(word >> 32).min(self.burst);
            let Some(left) = level.checked_sub(1_000) else { return false };
            let next = left << 32 | u64::from(now);
            if self.word.compare_exchange(word, next, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return true;
            }
        }
    }
}
