//! The permit to make one call, and its outcome.

use super::call_counts::{BucketNumber, CallOutcome};
use crate::breaker::Verdict;
use core::fmt;
use core::ops::Deref;

/// A pointer to a throttle that a [`ThrottlePermit`] can hold.
///
/// `&AdaptiveThrottle`, or `Arc<AdaptiveThrottle>` where the permit has to outlive the borrow.
pub trait ThrottleRef: Deref<Target: sealed::Throttle> {}

impl<T: Deref<Target: sealed::Throttle>> ThrottleRef for T {}

pub(super) mod sealed {
    use super::{BucketNumber, CallOutcome, fmt};

    /// The methods of a throttle that its permits call.
    pub trait Throttle: fmt::Debug {
        #[allow(private_interfaces, reason = "the trait is sealed")]
        fn count(&self, number: BucketNumber, outcome: CallOutcome);
    }
}

use sealed::Throttle;

/// The permit to make one call, which records whether the service accepted it.
///
/// A permit records one outcome. If it is dropped, it is as if the call had not been made. It may outlive the call.
#[must_use = "a permit that is dropped at once records no outcome"]
pub struct ThrottlePermit<T: ThrottleRef> {
    throttle: T,
    /// The bucket in which the call counts; `NONE` once its first data have counted it.
    began: BucketNumber,
}

impl<T: ThrottleRef> ThrottlePermit<T> {
    pub(super) fn new(throttle: T, began: BucketNumber) -> Self {
        Self { throttle, began }
    }

    /// Records that the response has begun with data: the service accepted the call, however it ends.
    pub(crate) fn data_arrived(&mut self) {
        self.count(CallOutcome::Accepted);
        self.began = BucketNumber::NONE;
    }

    #[inline]
    fn count(&self, outcome: CallOutcome) {
        if self.began != BucketNumber::NONE {
            self.throttle.count(self.began, outcome);
        }
    }

    /// Records that the service accepted the call, whatever its response.
    #[inline]
    pub fn accepted(self) {
        self.count(CallOutcome::Accepted);
    }

    /// Records that the service rejected the call, or did not respond: because it is overloaded, or gone.
    #[inline]
    pub fn rejected(self) {
        self.count(CallOutcome::Rejected);
    }

    /// Records no verdict, as if the call had not been made.
    #[inline]
    pub fn ignore(self) {}

    /// Records a verdict: a success is an accepted call, and a failure a rejected one.
    #[inline]
    pub fn record(self, verdict: Verdict) {
        match verdict {
            Verdict::Success => self.accepted(),
            Verdict::Failure | Verdict::RetryAfter(_) | Verdict::DeadlineExceeded => self.rejected(),
            Verdict::Ignored => {}
        }
    }
}

impl<T: ThrottleRef> fmt::Debug for ThrottlePermit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottlePermit").field("throttle", &&*self.throttle).finish_non_exhaustive()
    }
}
