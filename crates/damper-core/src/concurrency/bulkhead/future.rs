//! Waiting for a permit in a future.

use super::permit::sealed::{Entry, SlotRef, Slotted};
use super::{BulkheadPermit, PermitRequest};
use crate::concurrency::queue::{Place, Queued};
use crate::time::Sleep;
use core::fmt;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use pin_project_lite::pin_project;

pin_project! {
    /// Waits for a permit.
    #[must_use = "futures do nothing unless they are polled"]
    #[cfg(feature = "alloc")]
    pub struct PermitFuture<B: SlotRef, S: Sleep> {
        // `None` once it was ready.
        acquire: Option<PermitRequest<B>>,
        // `Some` while it is in the queue.
        place: Option<Place>,
        sleep: S,
        #[pin]
        sleeping: Option<S::Sleeping>,
    }

    impl<B: SlotRef, S: Sleep> PinnedDrop for PermitFuture<B, S> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let (Some(PermitRequest { limit: Ok(limit), .. }), Some(place)) = (this.acquire, this.place.take()) {
                limit.leave(place);
            }
        }
    }
}

/// The slot of a call, or its refusal.
type SlotOf<B> = Result<<<B as Deref>::Target as Slotted>::Ticket, <<B as Deref>::Target as Slotted>::Refusal>;

impl<B: SlotRef, S: Sleep> PermitFuture<B, S> {
    pub(super) fn new(acquire: PermitRequest<B>, sleep: S) -> Self {
        Self { acquire: Some(acquire), place: None, sleep, sleeping: None }
    }

    /// Polls for a slot of this limit. It is ready with the slot, or with the refusal.
    fn poll_slot(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<SlotOf<B>> {
        let mut this = self.project();
        let Some(PermitRequest { limit: Ok(limit), wish }) = this.acquire else { return Poll::Pending };
        let place = match *this.place {
            Some(place) => {
                if let Some(fate) = limit.look(place, wish, context.waker().clone()) {
                    *this.place = None;
                    return Poll::Ready(fate);
                }
                place
            }
            None => match limit.enter(wish) {
                Ok(ticket) => return Poll::Ready(Ok(ticket)),
                Err(_) => match limit.join(wish, context.waker().clone())? {
                    Entry::Entered(ticket) => return Poll::Ready(Ok(ticket)),
                    Entry::Queued(Queued { place, displaced }) => {
                        *this.place = Some(place);
                        displaced.into_iter().for_each(Waker::wake);
                        place
                    }
                },
            },
        };
        if this.sleeping.is_none() {
            let Some(remaining) = limit.remaining(wish) else { return Poll::Pending };
            this.sleeping.set(Some(this.sleep.sleep(remaining)));
        }
        if let Some(sleeping) = this.sleeping.as_mut().as_pin_mut() {
            ready!(sleeping.poll(context));
            // The timer may be ahead of the limit's clock, and an admission may need less time by now.
            if let Some(fate) = limit.look(place, wish, context.waker().clone()) {
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

impl<B: SlotRef, S: Sleep> Future for PermitFuture<B, S> {
    type Output = Result<BulkheadPermit<B>, <B::Target as Slotted>::Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = match &self.acquire {
            Some(PermitRequest { limit: Ok(_), .. }) => Some(ready!(self.as_mut().poll_slot(context))),
            _ => None,
        };
        let mut this = self.project();
        let Some(PermitRequest { limit, .. }) = this.acquire.take() else { return Poll::Pending };
        let permit = match (limit, slot) {
            (Ok(limit), Some(slot)) => slot.map(|ticket| BulkheadPermit::of_slot(limit, ticket)),
            (Err(refusal), _) => Err(refusal),
            (Ok(_), None) => return Poll::Pending,
        };
        // The permit exists by now, so that it frees the slot if the drop of a sleep panics.
        this.sleeping.set(None);
        Poll::Ready(permit)
    }
}

impl<B: SlotRef, S: Sleep> fmt::Debug for PermitFuture<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_queued = self.place.is_some();
        f.debug_struct("PermitFuture")
            .field("acquire", &self.acquire)
            .field("is_queued", &is_queued)
            .finish_non_exhaustive()
    }
}
