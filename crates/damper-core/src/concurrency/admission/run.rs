//! A call that is ended at its deadline.

use super::{AdmissionPermit, AdmissionRef};
use crate::DeadlineExceeded;
use crate::time::Sleep;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use pin_project_lite::pin_project;

pin_project! {
    /// Runs a call under its permit until its deadline. Made by [`AdmissionPermit::run_sleeping_by`].
    ///
    /// # Errors
    ///
    /// The call's own error, or one made from [`DeadlineExceeded`] when the deadline passes first.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, it drops the call, frees its slot and records nothing. Polled again after it was ready, it is pending
    /// for ever.
    #[must_use = "futures do nothing unless they are polled"]
    #[cfg(feature = "alloc")]
    pub struct RunToDeadline<A: AdmissionRef, F, S: Sleep> {
        // It stands before the permit, so that the call is dropped before its slot is free. `None` when the call is over.
        #[pin]
        work: Option<F>,
        permit: Option<AdmissionPermit<A>>,
        sleep: S,
        #[pin]
        sleeping: Option<S::Sleeping>,
    }
}

impl<A: AdmissionRef, F, S: Sleep> RunToDeadline<A, F, S> {
    pub(super) fn new(permit: AdmissionPermit<A>, work: F, sleep: S) -> Self {
        Self { work: Some(work), permit: Some(permit), sleep, sleeping: None }
    }
}

impl<A, F, T, E, S> Future for RunToDeadline<A, F, S>
where
    A: AdmissionRef,
    F: Future<Output = Result<T, E>>,
    E: From<DeadlineExceeded>,
    S: Sleep,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (Some(work), Some(permit)) = (this.work.as_mut().as_pin_mut(), this.permit.as_ref()) else {
            return Poll::Pending;
        };
        let deadline = permit.deadline();
        let mut is_begun_again = false;
        // The deadline may have passed while the call waited for this poll.
        if !deadline.is_expired() {
            if let Poll::Ready(result) = work.poll(context) {
                this.work.set(None);
                this.sleeping.set(None);
                let permit = this.permit.take();
                if result.is_ok() {
                    permit.into_iter().for_each(AdmissionPermit::success);
                }
                return Poll::Ready(result);
            }
            if deadline.is_never() {
                return Poll::Pending;
            }
            loop {
                if let Some(sleeping) = this.sleeping.as_mut().as_pin_mut() {
                    ready!(sleeping.poll(context));
                    // The timer may be ahead of the gate's clock.
                    if deadline.is_expired() {
                        break;
                    }
                    if is_begun_again {
                        // A sleep that is ready at once would keep the thread here until the deadline.
                        this.sleeping.set(None);
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                this.sleeping.set(Some(this.sleep.sleep(deadline.remaining())));
                is_begun_again = true;
            }
        }
        let exceeded = deadline.exceeded();
        this.work.set(None);
        this.sleeping.set(None);
        this.permit.take().into_iter().for_each(AdmissionPermit::overloaded);
        Poll::Ready(Err(exceeded.into()))
    }
}

impl<A: AdmissionRef, F, S: Sleep> fmt::Debug for RunToDeadline<A, F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunToDeadline").field("permit", &self.permit).finish_non_exhaustive()
    }
}
