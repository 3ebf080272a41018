//! A rate in two words that are set "atomically", but one after the other.

use crate::limit::peer_bugs::{Adjustable, halfway};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) struct TornQuota {
    limit: AtomicU64,
    window: AtomicU64,
}

impl Adjustable for TornQuota {
    fn new((limit, window): (u32, Duration)) -> Self {
        let window = u64::try_from(window.as_nanos()).unwrap();
        Self { limit: AtomicU64::new(limit.into()), window: AtomicU64::new(window) }
    }

    fn set(&self, (limit, window): (u32, Duration)) {
        self.window.store(u64::try_from(window.as_nanos()).unwrap(), Ordering::SeqCst);
        halfway(); // The new window has the old limit.
        self.limit.store(limit.into(), Ordering::SeqCst);
    }

    fn get(&self) -> (u32, Duration) {
        let (limit, window) = (self.limit.load(Ordering::SeqCst), self.window.load(Ordering::SeqCst));
        (u32::try_from(limit).unwrap(), Duration::from_nanos(window))
    }
}
