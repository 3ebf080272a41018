//! Waiting for the costs of a path in a future.

use super::TreeRefusal;
use super::stay::{Progress, Waits};
use crate::time::Sleep;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use pin_project_lite::pin_project;

pin_project! {
    /// Waits for the costs of a path. Made by [`TreeAcquire::sleeping_by`](super::TreeAcquire::sleeping_by).
    ///
    /// It joins a line when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Nothing is taken before the future is ready, so nothing is lost when it is dropped before. The calls behind it keep
    /// their order; where it was the first of a line, the next one is then, and is woken. A call in a loop of `select!`
    /// loses its place whenever its future is dropped: make the future once and pin it outside.
    ///
    /// The first call of a line holds up those behind it until its time is over, so poll the future whenever it is woken. Polled again after it
    /// was ready, it is pending for ever.
    ///
    /// # Errors
    ///
    /// The errors of [`TreeAcquire`](super::TreeAcquire).
    #[must_use = "futures do nothing unless they are polled"]
    pub struct TreeAcquireFuture<A: Waits, S: Sleep> {
        stay: A::Stay,
        sleep: S,
        #[pin]
        sleeping: Option<S::Sleeping>,
    }
}

impl<A: Waits, S: Sleep> TreeAcquireFuture<A, S> {
    pub(super) fn new(stay: A::Stay, sleep: S) -> Self {
        Self { stay, sleep, sleeping: None }
    }
}

impl<A: Waits, S: Sleep> Future for TreeAcquireFuture<A, S> {
    type Output = Result<A::Reservation, TreeRefusal>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let wait = match A::step(this.stay, context.waker()) {
            Progress::Over(result) => {
                this.sleeping.set(None);
                return Poll::Ready(result);
            }
            Progress::Wait(wait) => wait,
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

impl<A: Waits, S: Sleep> fmt::Debug for TreeAcquireFuture<A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeAcquireFuture").field("stay", &self.stay).finish_non_exhaustive()
    }
}
