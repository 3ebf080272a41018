//! Work that continues after its caller's deadline.

use super::{Deadline, DeadlineExceeded};
use alloc::boxed::Box;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::time::Sleep;

impl Deadline {
    /// Awaits work until this deadline. After it the work continues as a tokio task.
    ///
    /// Use it for work that must not be lost with the response: an audit record, the filling of a cache, the second
    /// half of a change. A handler's future is dropped at its deadline or when its client disconnects, together with
    /// everything that it awaits. Detached work is moved out before that: it continues, and only its result is dropped.
    /// Until then it runs within the handler, so a handler that ends in time has the result.
    ///
    /// Do not detach work that only the response needs, such as a query. It would continue for a caller that is gone,
    /// and a server under load would work on requests that have ended. No deadline bounds detached work, so give the
    /// work a deadline of its own, and bound its retries. The work ends with the runtime.
    ///
    /// As a task, the work has left its request's slot, so a bulkhead or a gate around the handler no longer bounds it.
    /// Task-locals and the current tracing span do not follow it. A panic of the task reaches no caller.
    ///
    /// On another runtime, spawn the work before you await it.
    ///
    /// # Errors
    ///
    /// [`DeadlineExceeded`] at the deadline.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, even before its first poll, moves the work into a task of the runtime in which `detach` was
    /// called.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime. The future panics if it has to wait for a deadline while no tokio runtime with a timer
    /// is entered. Even then the work continues as a task.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{Deadline, DeadlineExceeded};
    ///
    /// # async fn record(_: &str) -> u64 { 7 }
    /// async fn transfer(deadline: Deadline) -> Result<u64, DeadlineExceeded> {
    ///     deadline.check()?;
    ///     // The money has moved, so the record is written, whether or not the client still waits.
    ///     let number = deadline.detach(async { record("12.50 to Ada").await }).await?;
    ///     Ok(number)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(transfer(Deadline::after(Duration::from_secs(2))).await, Ok(7));
    /// # }
    /// ```
    #[track_caller]
    pub fn detach<F>(&self, work: F) -> Detached<F::IntoFuture>
    where
        F: IntoFuture<IntoFuture: Send + 'static>,
    {
        Detached {
            deadline: *self,
            work: Some(Box::pin(work.into_future())),
            runtime: Handle::current(),
            sleeping: None,
        }
    }
}

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
