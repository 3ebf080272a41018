//! The permit to make one call.

use super::request::{AdmittedCall, End, Entrant};
use super::{Admission, NotAdmitted, RunToDeadline};
use crate::Deadline;
use crate::DeadlineExceeded;
use crate::concurrency::bulkhead::permit::sealed::{Learning, Slotted};
use crate::concurrency::{BulkheadPermit, LimitRule};
#[cfg(feature = "tokio")]
use crate::time::TokioSleep;
use crate::time::{Clock, Sleep};
use core::ops::Deref;
use core::time::Duration;

/// A pointer to an [`Admission`](super::Admission) that an [`AdmissionPermit`] can hold.
///
/// `&Admission`, or `Arc<Admission>` where the permit has to outlive the borrow.
#[cfg(feature = "alloc")]
pub trait AdmissionRef: Deref<Target: sealed::Admits> {}

impl<A: Deref<Target: sealed::Admits>> AdmissionRef for A {}

pub(crate) mod sealed {
    use super::{AdmittedCall, Clock, Entrant, Learning, NotAdmitted, Slotted};

    /// An admission of any rule.
    pub trait Admits: Slotted<Ticket = AdmittedCall, Wish = Entrant, Refusal = NotAdmitted> + Learning {
        type Clock: Clock;

        fn clock(&self) -> &Self::Clock;
    }
}

use sealed::Admits;

/// The permit of an [`Admission`](super::Admission), on which the caller records the outcome of its call.
///
/// End the call at its [deadline](BulkheadPermit::deadline).
#[cfg(feature = "alloc")]
pub type AdmissionPermit<A> = BulkheadPermit<A>;

/// These methods are for the permit of an [`Admission`](crate::concurrency::Admission).
impl<A: AdmissionRef> BulkheadPermit<A> {
    /// Returns the deadline of the request, on the gate's clock: when to end the call.
    ///
    /// It never passes if the request had none.
    pub fn deadline(&self) -> Deadline<&<A::Target as Admits>::Clock> {
        let (gate, AdmittedCall { end, .. }) = self.parts();
        match end {
            Some(End { at, left }) => Deadline::ending_at(at.tick(), left, gate.clock()),
            None => Deadline::never(gate.clock()),
        }
    }

    /// Runs a future under this permit until the [deadline](Self::deadline), and ends it there.
    ///
    /// An ended future is dropped, its slot becomes free, and the error is made from a [`DeadlineExceeded`].
    ///
    /// An `Ok` is a success, an end at the deadline an overload; an error says nothing, because it may come faster than the work
    /// takes. The deadline takes precedence: after it the future is not polled again, even if it would be ready. Without a
    /// deadline no timer is used.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use core::time::Duration;
    /// use damper::concurrency::{Admission, AdmissionRequest};
    /// use damper::{Deadline, DeadlineExceeded};
    ///
    /// let gate = Admission::fixed(8);
    /// let deadline = Deadline::after(Duration::from_millis(5));
    /// let permit = gate.acquire(AdmissionRequest::new().by(&deadline)).await?;
    /// let result = permit.run(core::future::pending::<Result<(), DeadlineExceeded>>()).await;
    /// assert!(result.is_err());
    /// assert_eq!(gate.in_flight(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tokio")]
    pub fn run<F, T, E>(self, work: F) -> RunToDeadline<A, F, TokioSleep>
    where
        F: Future<Output = Result<T, E>>,
        E: From<DeadlineExceeded>,
    {
        self.run_sleeping_by(work, TokioSleep)
    }

    /// Runs a future until the deadline as `run` does, with the timer of any runtime.
    pub fn run_sleeping_by<F, T, E, S>(self, work: F, sleep: S) -> RunToDeadline<A, F, S>
    where
        F: Future<Output = Result<T, E>>,
        E: From<DeadlineExceeded>,
        S: Sleep,
    {
        RunToDeadline::new(self, work, sleep)
    }
}

impl<A, R, C> BulkheadPermit<A>
where
    A: Deref<Target = Admission<R, C>>,
    R: LimitRule,
    C: Clock,
{
    /// Returns the median of recent service times of the gate, as [`Admission::median_service_time`].
    #[must_use]
    pub fn median_service_time(&self) -> Option<Duration> {
        self.parts().0.median_service_time()
    }
}
