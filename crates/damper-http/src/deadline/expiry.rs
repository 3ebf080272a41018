//! Sleeps until a deadline.

use alloc::boxed::Box;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use damper_core::deadline::{Deadline, DeadlineExceeded};
use damper_core::time::Sleep;
use pin_project_lite::pin_project;

pin_project! {
    /// A deadline, and the sleep until it passes.
    pub(crate) struct Expiry<S: Sleep> {
        deadline: Deadline,
        sleep: S,
        // Created at the first wait, so that a result that is ready at once needs no timer.
        #[pin]
        sleeping: Option<S::Sleeping>,
    }
}

impl<S: Sleep> Expiry<S> {
    pub(crate) fn new(deadline: Deadline, sleep: S) -> Self {
        Self { deadline, sleep, sleeping: None }
    }

    /// Returns the deadline and the way to sleep.
    pub(super) fn parts(&self) -> (Deadline, &S) {
        (self.deadline, &self.sleep)
    }

    /// Checks the deadline when a result is ready.
    pub(super) fn check(&self) -> Result<(), DeadlineExceeded> {
        self.deadline.check()
    }

    /// Returns the error once the deadline has passed.
    pub(crate) fn poll_exceeded(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<DeadlineExceeded> {
        let mut this = self.project();
        if this.deadline.is_never() {
            return Poll::Pending;
        }
        loop {
            if let Err(exceeded) = this.deadline.check() {
                return Poll::Ready(exceeded);
            }
            if this.sleeping.is_none() {
                this.sleeping.set(Some(this.sleep.sleep(this.deadline.remaining())));
            }
            if let Some(sleeping) = this.sleeping.as_mut().as_pin_mut() {
                ready!(sleeping.poll(context));
            }
            // A sleep may end early.
            this.sleeping.set(None);
        }
    }
}

/// Boxes its sleep, so that the type that holds it is small and can be moved.
pub(super) struct BoxedSleep<S>(pub(super) S);

impl<S: Sleep> Sleep for BoxedSleep<S> {
    type Sleeping = Pin<Box<S::Sleeping>>;

    fn sleep(&self, duration: Duration) -> Self::Sleeping {
        Box::pin(self.0.sleep(duration))
    }
}
