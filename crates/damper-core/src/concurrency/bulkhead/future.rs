//! Waiting for a permit in a future.

use super::permit::sealed::{Entry, Slotted};
use super::{AcquirePermit, BulkheadFull, BulkheadPermit, BulkheadRef};
use crate::concurrency::queue::Expiry;
use crate::concurrency::queue::{Place, Queued};
use crate::time::Sleep;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use pin_project_lite::pin_project;

pin_project! {
    /// Waits for a permit. Made by [`AcquirePermit::sleeping_by`].
    ///
    /// It takes its place in the queue when it is first polled.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`]: when first polled if there is no queue, or no place in it; later if the time is over or a newer call
    /// took the place.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped while it waits, it leaves its place, and the others keep their order. If it already has its permit, the
    /// next call gets that. A future that is neither polled nor dropped may hold a permit, so poll it until it is ready. Polled
    /// again after it was ready, it is pending for ever.
    #[must_use = "futures do nothing unless they are polled"]
    #[cfg(feature = "alloc")]
    pub struct AcquirePermitFuture<B: BulkheadRef, S: Sleep> {
        // `None` once it was ready.
        acquire: Option<AcquirePermit<B>>,
        // `Some` while it is in the queue.
        place: Option<Place>,
        expiry: Option<Expiry>,
        sleep: S,
        #[pin]
        sleeping: Option<S::Sleeping>,
    }

    impl<B: BulkheadRef, S: Sleep> PinnedDrop for AcquirePermitFuture<B, S> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let (Some(AcquirePermit { bulkhead: Ok(bulkhead), .. }), Some(place)) = (this.acquire, this.place.take()) {
                bulkhead.leave(place);
            }
        }
    }
}

impl<B: BulkheadRef, S: Sleep> AcquirePermitFuture<B, S> {
    pub(super) fn new(acquire: AcquirePermit<B>, sleep: S) -> Self {
        Self { acquire: Some(acquire), place: None, expiry: None, sleep, sleeping: None }
    }

    /// Polls for a slot; ready when one is taken.
    fn poll_slot(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), BulkheadFull>> {
        let mut this = self.project();
        let Some(acquire) = this.acquire else { return Poll::Pending };
        let bulkhead = match &acquire.bulkhead {
            Ok(bulkhead) => bulkhead,
            Err(full) => return Poll::Ready(Err(*full)),
        };
        let place = match *this.place {
            Some(place) => {
                if let Some(fate) = bulkhead.look(place, *this.expiry, context.waker().clone()) {
                    *this.place = None;
                    return Poll::Ready(fate);
                }
                place
            }
            None => match bulkhead.enter() {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(_) => match bulkhead.join(acquire.patience, context.waker().clone())? {
                    Entry::Entered => return Poll::Ready(Ok(())),
                    Entry::Queued(Queued { place, displaced }, expiry) => {
                        (*this.place, *this.expiry) = (Some(place), expiry);
                        displaced.into_iter().for_each(Waker::wake);
                        place
                    }
                },
            },
        };
        let Some(expiry) = *this.expiry else { return Poll::Pending };
        if this.sleeping.is_none() {
            this.sleeping.set(Some(this.sleep.sleep(bulkhead.remaining(expiry))));
        }
        if let Some(sleeping) = this.sleeping.as_mut().as_pin_mut() {
            ready!(sleeping.poll(context));
            // The timer may be ahead of the bulkhead's clock.
            if let Some(fate) = bulkhead.look(place, *this.expiry, context.waker().clone()) {
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

impl<B: BulkheadRef, S: Sleep> Future for AcquirePermitFuture<B, S> {
    type Output = Result<BulkheadPermit<B>, BulkheadFull>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = ready!(self.as_mut().poll_slot(context));
        let mut this = self.project();
        let Some(acquire) = this.acquire.take() else { return Poll::Pending };
        let permit = slot.and(acquire.bulkhead).map(BulkheadPermit::of_slot);
        // After the permit was made, so that it frees the slot if the drop of a sleep panics.
        this.sleeping.set(None);
        Poll::Ready(permit)
    }
}

impl<B: BulkheadRef, S: Sleep> fmt::Debug for AcquirePermitFuture<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_queued = self.place.is_some();
        f.debug_struct("AcquirePermitFuture")
            .field("acquire", &self.acquire)
            .field("is_queued", &is_queued)
            .finish_non_exhaustive()
    }
}
