//! Waiting for several limits in a future.

use super::stay::{Stay, Step};
use super::{QueuedSetRef, SetAcquire};
use crate::concurrency::LimitSetRefusal;
use crate::limit::SetReservation;
use crate::time::Sleep;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use pin_project_lite::pin_project;

pin_project! {
    /// Waits for the costs of a call. Made by [`SetAcquire::sleeping_by`].
    ///
    /// It joins the queue when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Nothing is taken before the future is ready, so nothing is lost when it is dropped before. The calls behind it keep
    /// their order; if it was the first of the queue, the next one is then, and is woken. A call in a loop of `select!`
    /// loses its place whenever its future is dropped: make the future once and pin it outside.
    ///
    /// The first call of the queue holds up all others, so poll the future whenever it is woken. Polled again after it was
    /// ready, it is pending for ever.
    ///
    /// # Errors
    ///
    /// The errors of [`SetAcquire`].
    #[must_use = "futures do nothing unless they are polled"]
    pub struct SetAcquireFuture<S: QueuedSetRef, T: Sleep> {
        stay: Stay<S>,
        sleep: T,
        #[pin]
        sleeping: Option<T::Sleeping>,
    }
}

impl<S: QueuedSetRef, T: Sleep> SetAcquireFuture<S, T> {
    pub(super) fn new(acquire: SetAcquire<S>, sleep: T) -> Self {
        Self { stay: Stay::new(acquire), sleep, sleeping: None }
    }
}

impl<S: QueuedSetRef, T: Sleep> Future for SetAcquireFuture<S, T> {
    type Output = Result<SetReservation<S>, LimitSetRefusal>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let wait = match this.stay.step(context.waker()) {
            Step::Over(result) => {
                this.sleeping.set(None);
                return Poll::Ready(result);
            }
            Step::Wait(wait) => wait,
        };
        // A new sleep after each look, because the time to wait may have changed.
        this.sleeping.set(wait.map(|wait| this.sleep.sleep(wait)));
        if let Some(sleeping) = this.sleeping.as_mut().as_pin_mut() {
            ready!(sleeping.poll(context));
            // The sleep is over already: look again, but let other tasks run before.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<S: QueuedSetRef, T: Sleep> fmt::Debug for SetAcquireFuture<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetAcquireFuture").field("stay", &self.stay).finish_non_exhaustive()
    }
}
