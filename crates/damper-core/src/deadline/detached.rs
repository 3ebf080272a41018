//! Work that continues after its caller's deadline.

use super::{Deadline, DeadlineExceeded};
use alloc::boxed::Box;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::time::Sleep;

/// Work that continues after its caller's deadline. Made by [`Deadline::detach`].
#[must_use = "await it: if it is dropped, the work continues as a task and its result is lost"]
pub struct Detached<F: Future + Send + 'static> {
    deadline: Deadline,
    /// The work until it has ended or is a task.
    work: Option<Pin<Box<F>>>,
    /// The runtime of the caller of `detach`, so that a drop elsewhere loses no work.
    runtime: Handle,
    sleeping: Option<Pin<Box<Sleep>>>,
}

impl<F: Future + Send + 'static> Detached<F> {
    pub(super) fn new(deadline: Deadline, work: F, runtime: Handle) -> Self {
        Self { deadline, work: Some(Box::pin(work)), runtime, sleeping: None }
    }

    /// Moves the work into a task.
    #[cold]
    fn spawn(&mut self) {
        let Some(work) = self.work.take() else { return };
        // The task drops the result.
        drop(self.runtime.spawn(async move { drop(work.await) }));
    }

    /// Polls until the deadline has passed.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<DeadlineExceeded> {
        if self.deadline.is_never() {
            return Poll::Pending;
        }
        loop {
            if let Err(exceeded) = self.deadline.check() {
                return Poll::Ready(exceeded);
            }
            let left = self.deadline.remaining();
            let sleeping = self.sleeping.get_or_insert_with(|| Box::pin(tokio::time::sleep(left)));
            if sleeping.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            // The timer's clock is ahead of the deadline's.
            self.sleeping = None;
        }
    }
}

impl<F: Future + Send + 'static> Future for Detached<F> {
    type Output = Result<F::Output, DeadlineExceeded>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Taken out during the poll, so that work that panics is not polled again.
        let Some(mut work) = this.work.take() else { return Poll::Pending };
        if let Poll::Ready(output) = work.as_mut().poll(context) {
            // No result follows the deadline.
            return Poll::Ready(this.deadline.check().map(|()| output));
        }
        this.work = Some(work);
        let Poll::Ready(exceeded) = this.poll_deadline(context) else { return Poll::Pending };
        this.spawn();
        Poll::Ready(Err(exceeded))
    }
}

impl<F: Future + Send + 'static> Drop for Detached<F> {
    fn drop(&mut self) {
        self.spawn();
    }
}

impl<F: Future + Send + 'static> fmt::Debug for Detached<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
