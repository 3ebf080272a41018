//! The cost of a retry is rounded to whole deposits: one instead of 1.67.

use crate::retry::peer_bugs::Withdrawing;
use std::cell::Cell;
use std::time::Duration;

pub(crate) struct WholeCallsPerRetry {
    calls_per_retry: u64,
    deposits: Cell<u64>,
}

impl Withdrawing for WholeCallsPerRetry {
    fn new(ratio: f64) -> Self {
        Self { calls_per_retry: (1.0 / ratio) as u64, deposits: Cell::new(0) }
    }

    fn deposit(&self) {
        self.deposits.set(self.deposits.get() + 1);
    }

    fn withdraw(&self, _: impl FnOnce() + 'static) -> bool {
        let left = self.deposits.get().checked_sub(self.calls_per_retry);
        self.deposits.set(left.unwrap_or(self.deposits.get()));
        left.is_some()
    }

    fn pass(&self, _: Duration) {}
}
