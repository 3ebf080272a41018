//! The permit to make one call.

use super::request::End;
use super::{Admission, RunToDeadline};
use crate::Deadline;
use crate::DeadlineExceeded;
use crate::concurrency::{LimitRule, Outcome};
#[cfg(feature = "tokio")]
use crate::time::TokioSleep;
use crate::time::{Clock, Sleep};
use core::fmt;
use core::ops::Deref;
use core::time::Duration;

/// A pointer to an [`Admission`](super::Admission) that an [`AdmissionPermit`] can hold.
///
/// `&Admission`, or `Arc<Admission>` where the permit has to outlive the borrow.
#[cfg(feature = "alloc")]
pub trait AdmissionRef: Deref<Target: sealed::Gated> {}

impl<A: Deref<Target: sealed::Gated>> AdmissionRef for A {}

pub(crate) mod sealed {
    use super::super::NotAdmitted;
    use super::super::request::Entrant;
    use crate::concurrency::Outcome;
    use crate::concurrency::queue::{Place, Queued};
    use crate::time::Clock;
    use core::fmt;
    use core::task::Waker;
    use core::time::Duration;

    /// The result of a call's arrival.
    #[derive(Debug)]
    pub enum Entry {
        /// The call has a slot, since this tick.
        Entered(u64),
        /// The call has a place in the queue.
        Queued(Queued),
    }

    /// The methods of a gate for its permits and for calls that wait for one.
    ///
    /// Slots are taken since a tick.
    pub trait Gated: fmt::Debug {
        type Clock: Clock;

        fn clock(&self) -> &Self::Clock;

        /// Takes a slot, if one is free.
        fn enter(&self, entrant: &Entrant) -> Result<u64, NotAdmitted>;

        /// Takes a slot, or a place in the queue where `waker` wakes the call.
        fn join(&self, entrant: &Entrant, waker: Waker) -> Result<Entry, NotAdmitted>;

        /// Returns the fate of a queued call; `None` if it still waits, and then `waker` wakes it.
        fn look(&self, place: Place, entrant: &Entrant, waker: Waker) -> Option<Result<u64, NotAdmitted>>;

        /// Removes a call from the queue. If it has got a slot, that is freed.
        fn leave(&self, place: Place);

        /// Returns the time until a waiting call is too late or has waited for long enough.
        ///
        /// `None` if it may wait for ever.
        fn patience(&self, entrant: &Entrant) -> Option<Duration>;

        /// Records the outcome of a call.
        fn record(&self, began: u64, outcome: Outcome);

        /// Frees the slot of a permit.
        fn release(&self);
    }
}

use sealed::Gated;

/// The permit to make one call, which holds a slot of an [`Admission`](super::Admission) until it is dropped.
///
/// The caller records the outcome of the call on it.
///
/// Keep it for as long as the call takes, including a response body that is still to come, and end the call at its
/// [deadline](Self::deadline). A permit that is never dropped (by [`core::mem::forget`], say) keeps its slot for good.
#[must_use = "a permit that is dropped at once frees its slot"]
#[cfg(feature = "alloc")]
pub struct AdmissionPermit<A: AdmissionRef> {
    gate: A,
    /// When the permit was given, in ticks.
    began: u64,
    end: Option<End>,
}

impl<A: AdmissionRef> AdmissionPermit<A> {
    #[inline]
    pub(super) fn new(gate: A, began: u64, end: Option<End>) -> Self {
        Self { gate, began, end }
    }

    /// Returns the deadline of the request, on the gate's clock: when to end the call.
    ///
    /// It never passes if the request had none.
    pub fn deadline(&self) -> Deadline<&<A::Target as Gated>::Clock> {
        let clock = self.gate.clock();
        match self.end {
            Some(End { at, left }) => Deadline::ending_at(at.tick(), left, clock),
            None => Deadline::never(clock),
        }
    }

    /// Records that the service did its work: the time since the permit was taken counts.
    #[inline]
    pub fn success(self) {
        self.record(Outcome::Success);
    }

    /// Records that the call was ended at its deadline, or that a service behind it was overloaded.
    ///
    /// If that happens to more than a tenth of the calls, and the limit is reached, an adaptive limit shrinks.
    #[inline]
    pub fn overloaded(self) {
        self.record(Outcome::Overloaded);
    }

    /// Records nothing, as if the permit were dropped.
    #[inline]
    pub fn ignore(self) {
        self.record(Outcome::Ignored);
    }

    /// Records `outcome`.
    #[inline]
    pub fn record(self, outcome: Outcome) {
        self.record_early(outcome);
    }

    /// Records `outcome` now, while the call goes on: its slot stays taken until the permit is dropped.
    ///
    /// It is for a response whose body streams on: the time until now is the service's, and the rest is the reader's. Each
    /// recorded outcome counts as a call.
    #[inline]
    pub fn record_early(&self, outcome: Outcome) {
        self.gate.record(self.began, outcome);
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
    /// let permit = gate.admit(AdmissionRequest::new().by(&deadline)).await?;
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

impl<A, R, C> AdmissionPermit<A>
where
    A: Deref<Target = Admission<R, C>>,
    R: LimitRule,
    C: Clock,
{
    /// Returns the median of recent service times of the gate, as [`Admission::median_service_time`].
    #[must_use]
    pub fn median_service_time(&self) -> Option<Duration> {
        self.gate.median_service_time()
    }
}

impl<A: AdmissionRef> Drop for AdmissionPermit<A> {
    #[inline]
    fn drop(&mut self) {
        self.gate.release();
    }
}

impl<A: AdmissionRef> fmt::Debug for AdmissionPermit<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionPermit")
            .field("gate", &&*self.gate)
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}
