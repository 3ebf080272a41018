//! The sum of the deposits is read first, and the retry is subtracted from a later sum.

use crate::retry::peer_bugs::Withdrawing;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

pub(crate) struct SumThenSubtract {
    /// The deposits in thousandths, like all amounts here.
    deposit: i64,
    sum: AtomicI64,
}

impl Withdrawing for SumThenSubtract {
    fn new(ratio: f64) -> Self {
        Self { deposit: (ratio * 1_000.0) as i64, sum: AtomicI64::new(0) }
    }

    fn deposit(&self) {
        self.sum.fetch_add(self.deposit, Ordering::SeqCst);
    }

    fn withdraw(&self, rival: impl FnOnce() + 'static) -> bool {
        let sum = self.sum.load(Ordering::SeqCst);
        rival();
        let is_allowed = sum >= 1_000;
        if is_allowed {
            self.sum.fetch_sub(1_000, Ordering::SeqCst);
        }
        is_allowed
    }

    fn pass(&self, _: Duration) {}
}
