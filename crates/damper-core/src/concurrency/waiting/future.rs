//! Waiting for the costs of a call in a future.

use super::stay::{Outcome, Stay, Step};
use super::{CostsRequest, WaitableRef};
use crate::time::Sleep;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use pin_project_lite::pin_project;

pin_project! {
    /// Waits for the costs of a call.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct CostsFuture<T: WaitableRef, S: Sleep> {
        stay: Stay<T>,
        sleep: S,
        #[pin]
        sleeping: Option<S::Sleeping>,
    }
}

impl<T: WaitableRef, S: Sleep> CostsFuture<T, S> {
    pub(super) fn new(acquire: CostsRequest<T>, sleep: S) -> Self {
        Self { stay: Stay::new(acquire), sleep, sleeping: None }
    }
}

impl<T: WaitableRef, S: Sleep> Future for CostsFuture<T, S> {
    type Output = Outcome<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let wait = match this.stay.step(context.waker()) {
            Step::Over(outcome) => {
                this.sleeping.set(None);
                return Poll::Ready(outcome);
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

impl<T: WaitableRef, S: Sleep> fmt::Debug for CostsFuture<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CostsFuture").field("stay", &self.stay).finish_non_exhaustive()
    }
}
