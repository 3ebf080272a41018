//! Waiting to be admitted, in a future.

use super::permit::sealed::{Entry, Gated};
use super::{AdmissionPermit, AdmissionRef, Admit, NotAdmitted};
use crate::concurrency::queue::{Place, Queued};
use crate::time::Sleep;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use pin_project_lite::pin_project;

pin_project! {
    /// Waits to be admitted. Made by [`Admit::sleeping_by`].
    ///
    /// It takes its place in the queue when it is first polled.
    ///
    /// # Errors
    ///
    /// [`NotAdmitted`]: when first polled if the call is late or the queue is full of other calls; later if it becomes late,
    /// gives way or has waited for long enough.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped while it waits, it leaves its place. If it already has its permit, the next call gets that; so too if it
    /// is polled only after its deadline. A future that is neither polled nor dropped may hold a permit, so poll it until it is
    /// ready. Polled again after it was ready, it is pending for ever.
    #[must_use = "futures do nothing unless they are polled"]
    #[cfg(feature = "alloc")]
    pub struct AdmitFuture<A: AdmissionRef, S: Sleep> {
        // `None` once it was ready.
        admit: Option<Admit<A>>,
        // `Some` while it is in the queue.
        place: Option<Place>,
        sleep: S,
        #[pin]
        sleeping: Option<S::Sleeping>,
    }

    impl<A: AdmissionRef, S: Sleep> PinnedDrop for AdmitFuture<A, S> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let (Some(admit), Some(place)) = (this.admit, this.place.take()) {
                admit.gate.leave(place);
            }
        }
    }
}

impl<A: AdmissionRef, S: Sleep> AdmitFuture<A, S> {
    pub(super) fn new(admit: Admit<A>, sleep: S) -> Self {
        Self { admit: Some(admit), place: None, sleep, sleeping: None }
    }

    /// Polls for a slot; ready when one is taken.
    fn poll_slot(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<u64, NotAdmitted>> {
        let mut this = self.project();
        let Some(Admit { gate, entrant }) = this.admit else { return Poll::Pending };
        let place = match *this.place {
            Some(place) => {
                if let Some(fate) = gate.look(place, entrant, context.waker().clone()) {
                    *this.place = None;
                    return Poll::Ready(fate);
                }
                place
            }
            None => match gate.enter(entrant) {
                Ok(began) => return Poll::Ready(Ok(began)),
                Err(_) => match gate.join(entrant, context.waker().clone())? {
                    Entry::Entered(began) => return Poll::Ready(Ok(began)),
                    Entry::Queued(Queued { place, displaced }) => {
                        *this.place = Some(place);
                        displaced.into_iter().for_each(Waker::wake);
                        place
                    }
                },
            },
        };
        if this.sleeping.is_none() {
            let Some(patience) = gate.patience(entrant) else { return Poll::Pending };
            this.sleeping.set(Some(this.sleep.sleep(patience)));
        }
        if let Some(sleeping) = this.sleeping.as_mut().as_pin_mut() {
            ready!(sleeping.poll(context));
            // The timer may be ahead of the gate's clock, and the median may have become shorter.
            if let Some(fate) = gate.look(place, entrant, context.waker().clone()) {
                *this.place = None;
                return Poll::Ready(fate);
            }
            // The next poll begins another sleep. One that is ready at once would else keep the thread here until the time is over.
            this.sleeping.set(None);
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<A: AdmissionRef, S: Sleep> Future for AdmitFuture<A, S> {
    type Output = Result<AdmissionPermit<A>, NotAdmitted>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = ready!(self.as_mut().poll_slot(context));
        let mut this = self.project();
        let Some(Admit { gate, entrant }) = this.admit.take() else { return Poll::Pending };
        // Before the timer is dropped, so that the permit frees the slot if that drop panics.
        let permit = slot.map(|began| AdmissionPermit::new(gate, began, entrant.end));
        this.sleeping.set(None);
        Poll::Ready(permit)
    }
}

impl<A: AdmissionRef, S: Sleep> fmt::Debug for AdmitFuture<A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_queued = self.place.is_some();
        f.debug_struct("AdmitFuture").field("admit", &self.admit).field("is_queued", &is_queued).finish_non_exhaustive()
    }
}
