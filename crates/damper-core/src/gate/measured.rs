//! The permit of a gate that measures how loaded a service is.

use super::{Permit, Verdict};
use crate::concurrency::{BulkheadPermit, Learning, Outcome};
use core::fmt;
use core::ops::Deref;
use core::time::Duration;

/// The permit of an [`AdaptiveLimit`](crate::AdaptiveLimit), or of an `Admission`, as a gate.
///
/// The head of a response tells the latency and the outcome. If trailers say later that the service was overloaded, that is told too.
pub struct Measured<P> {
    permit: P,
    told: Option<Outcome>,
}

impl<P> From<P> for Measured<P> {
    #[inline]
    fn from(permit: P) -> Self {
        Self { permit, told: None }
    }
}

impl<L: Deref<Target: Learning>> Permit for Measured<BulkheadPermit<L>> {
    #[inline]
    fn answered(&mut self, verdict: &Verdict) {
        let outcome = Outcome::from(verdict);
        self.permit.record_early(outcome);
        self.told = Some(outcome);
    }

    #[inline]
    fn end(self, verdict: &Verdict) {
        let outcome = Outcome::from(verdict);
        let is_news = match self.told {
            None => true,
            Some(told) => outcome == Outcome::Overloaded && told != Outcome::Overloaded,
        };
        if is_news {
            self.permit.record_early(outcome);
        }
    }

    #[inline]
    fn usual_latency(&self) -> Option<Duration> {
        self.permit.usual_latency()
    }
}

impl<P> fmt::Debug for Measured<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measured").field("told", &self.told).finish_non_exhaustive()
    }
}
