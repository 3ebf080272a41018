//! A copy of better-bucket 1.0, whose loop around the swap keeps an old clock reading.

use damper_core::Clock;
use loom::sync::atomic::{AtomicU64, Ordering};

/// A bucket that refills one token a second, in a word of millitokens and milliseconds.
pub struct Stale<C> {
    word: AtomicU64,
    burst: u32,
    clock: C,
}

impl<C: Clock> Stale<C> {
    /// Creates a bucket that holds so many tokens now.
    pub fn new(tokens: u32, burst: u32, clock: C) -> Self {
        let now = clock.now() / 1_000_000;
        Self { word: AtomicU64::new(u64::from(tokens * 1_000) << 32 | now), burst: burst * 1_000, clock }
    }

    pub fn check(&self) -> bool {
        let now = (self.clock.now() / 1_000_000) as u32;
        loop {
            // The load is a read-modify-write, because loom visits every interleaving of those.
            let word = self.word.fetch_or(0, Ordering::Relaxed);
            // Another thread may have stored a later time. Then this is an idle time of 49.7 days.
            let elapsed = now.wrapping_sub(word as u32);
            let level = ((word >> 32) as u32).saturating_add(elapsed).min(self.burst);
            let Some(left) = level.checked_sub(1_000) else { return false };
            let next = u64::from(left) << 32 | u64::from(now);
            if self.word.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }
}
