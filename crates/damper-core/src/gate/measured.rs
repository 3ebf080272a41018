//! The permit of a gate that measures how loaded a service is.

use super::{Permit, Verdict};
use crate::concurrency::{AdaptiveLimit, BulkheadPermit, LimitRule, Outcome};
#[cfg(feature = "alloc")]
use crate::concurrency::{Admission, AdmissionPermit};
use crate::time::Clock;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;

/// The permit of an [`AdaptiveLimit`], or of an `Admission`, as a gate.
///
/// The head of a response tells the latency and the outcome. If trailers say later that the service was overloaded, that is told too.
pub struct Measured<P> {
    permit: P,
    told: Option<Outcome>,
}

mod sealed {
    use super::{Duration, Outcome};

    /// A permit that records outcomes while it holds its slot.
    pub trait RecordsEarly {
        fn record_now(&self, outcome: Outcome);

        /// Returns how long a call takes while the service is not overloaded.
        fn usual_latency(&self) -> Option<Duration>;
    }
}

use sealed::RecordsEarly;

impl<P> From<P> for Measured<P> {
    #[inline]
    fn from(permit: P) -> Self {
        Self { permit, told: None }
    }
}

impl<P: RecordsEarly> Permit for Measured<P> {
    #[inline]
    fn answered(&mut self, verdict: &Verdict) {
        let outcome = Outcome::from(verdict);
        self.permit.record_now(outcome);
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
            self.permit.record_now(outcome);
        }
    }

    #[inline]
    fn usual_latency(&self) -> Option<Duration> {
        self.permit.usual_latency()
    }
}

impl<R: LimitRule, C: Clock, B: Deref<Target = AdaptiveLimit<R, C>>> RecordsEarly for BulkheadPermit<B> {
    #[inline]
    fn record_now(&self, outcome: Outcome) {
        self.record_early(outcome);
    }

    fn usual_latency(&self) -> Option<Duration> {
        self.baseline()
    }
}

#[cfg(feature = "alloc")]
impl<R: LimitRule, C: Clock, A: Deref<Target = Admission<R, C>>> RecordsEarly for AdmissionPermit<A> {
    #[inline]
    fn record_now(&self, outcome: Outcome) {
        self.record_early(outcome);
    }

    fn usual_latency(&self) -> Option<Duration> {
        self.median_service_time()
    }
}

impl<P> fmt::Debug for Measured<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measured").field("told", &self.told).finish_non_exhaustive()
    }
}
