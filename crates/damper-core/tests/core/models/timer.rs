//! A timer whose frequency is known at compile time.

use damper::Clock;
use damper::time::FixedFrequency;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that is set by hand, with this many ticks a second.
#[derive(Debug)]
pub(crate) struct Timer<const HERTZ: u64>(AtomicU64);

impl<const HERTZ: u64> Timer<HERTZ> {
    pub(crate) fn at(tick: u64) -> Self {
        Self(AtomicU64::new(tick))
    }

    pub(crate) fn advance(&self, ticks: u64) {
        self.0.fetch_add(ticks, Ordering::Relaxed);
    }
}

impl<const HERTZ: u64> FixedFrequency for Timer<HERTZ> {
    const HERTZ: u64 = HERTZ;
}

impl<const HERTZ: u64> Clock for Timer<HERTZ> {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn frequency(&self) -> u64 {
        HERTZ
    }
}
