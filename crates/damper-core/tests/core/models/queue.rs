//! A queue that releases one call per interval, in whole numbers.
//!
//! It has no words and no wrap, and rounds nothing.

use damper::Quota;

/// All times are in ticks times `tick`, so that an interval is a whole number.
#[derive(Debug)]
pub(crate) struct Queue {
    tick: i128,
    interval: i128,
    capacity: i128,
    /// The time until the last queued call has left. Below 0 that was in the past.
    busy: i128,
}

impl Queue {
    pub(crate) fn new(quota: Quota, frequency: u64) -> Self {
        Self {
            tick: i128::from(quota.limit()) * 1_000_000_000,
            interval: i128::try_from(quota.window().as_nanos()).unwrap() * i128::from(frequency),
            capacity: quota.burst_size().into(),
            busy: 0,
        }
    }

    /// The interval in whole ticks, rounded down.
    pub(crate) fn interval_in_ticks(&self) -> u64 {
        u64::try_from(self.interval / self.tick).unwrap()
    }

    pub(crate) fn pass(&mut self, ticks: u64) {
        self.busy = (self.busy - i128::from(ticks) * self.tick).max(0);
    }

    /// Whether `n` more calls fit, or will after this many ticks.
    pub(crate) fn has_room(&self, n: u32, ticks: i128) -> bool {
        n == 0
            || (self.busy - ticks * self.tick).max(0) + i128::from(n) * self.interval <= self.capacity * self.interval
    }

    /// Returns the ticks until a call that enters now may leave, rounded up.
    pub(crate) fn wait(&self) -> i128 {
        self.busy / self.tick + i128::from(self.busy % self.tick != 0)
    }

    pub(crate) fn enter(&mut self, n: u32) {
        self.busy += i128::from(n) * self.interval;
    }
}
