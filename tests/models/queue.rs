//! A queue at whose end one leaves per interval, in whole numbers: no words, no wrap, and nothing rounded.

use damper::Quota;

/// All times are in ticks times `tick`, so that an interval is a whole number.
#[derive(Debug)]
pub(crate) struct Queue {
    tick: i128,
    interval: i128,
    capacity: i128,
    /// Until the last that is in the queue has left; below 0 it was long ago.
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

    /// Whether `n` more fit, or will in so many ticks.
    pub(crate) fn has_room(&self, n: u32, ticks: i128) -> bool {
        n == 0
            || (self.busy - ticks * self.tick).max(0) + i128::from(n) * self.interval <= self.capacity * self.interval
    }

    /// The ticks until who enters now may leave, rounded up.
    pub(crate) fn wait(&self) -> i128 {
        self.busy / self.tick + i128::from(self.busy % self.tick != 0)
    }

    pub(crate) fn enter(&mut self, n: u32) {
        self.busy += i128::from(n) * self.interval;
    }
}
