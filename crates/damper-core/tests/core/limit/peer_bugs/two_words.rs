//! The time of the last refill is in one word, and the tokens are in another.
//!
//! The thread that updates the first word has not yet added the tokens to the second.

use crate::limit::peer_bugs::{Shared, halfway};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct TwoWords {
    interval: u64,
    burst: u64,
    now: AtomicU64,
    refilled_at: AtomicU64,
    level: AtomicU64,
}

impl Shared for TwoWords {
    fn new(limit: u32, window: u64, burst: u32) -> Self {
        Self {
            interval: window / u64::from(limit),
            burst: burst.into(),
            now: AtomicU64::new(0),
            refilled_at: AtomicU64::new(0),
            level: AtomicU64::new(burst.into()),
        }
    }

    fn pass(&self, nanos: u64) {
        self.now.fetch_add(nanos, Ordering::SeqCst);
    }

    fn check(&self) -> bool {
        let (last, now) = (self.refilled_at.load(Ordering::SeqCst), self.now.load(Ordering::SeqCst));
        let tokens = (now - last) / self.interval;
        let next = last + tokens * self.interval;
        let mine = self.refilled_at.compare_exchange(last, next, Ordering::SeqCst, Ordering::SeqCst);
        if tokens > 0 && mine.is_ok() {
            halfway(); // The refill is claimed, but its tokens are not added yet.
            let fill = |level: u64| Some(self.burst.min(level + tokens));
            self.level.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fill).ok();
        }
        self.level.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |level| level.checked_sub(1)).is_ok()
    }
}
