//! Makes the attempts of one hedged call.

use super::Hedge;
use super::hedged_call::HedgedCall;
use crate::Reads;
use crate::retry::{Budget, Failure, Unlimited};
use crate::time::{Clock, Sleep};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use pin_project_lite::pin_project;

pin_project! {
    /// Makes the concurrent attempts of one hedged call.
    #[must_use = "futures do nothing unless they are polled"]
    #[cfg(feature = "alloc")]
    pub struct HedgeFuture<'a, C: Clock, B: Budget, V, O, F, S: Sleep, R> {
        hedge: &'a Hedge<C, B, V>,
        operation: O,
        sleep: S,
        // `Some` while the call is in flight.
        #[pin]
        call: Option<HedgedCall<F, F, S::Sleeping, R>>,
    }

    impl<C: Clock, B: Budget, V, O, F, S: Sleep, R> PinnedDrop for HedgeFuture<'_, C, B, V, O, F, S, R> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(call) = this.call.as_ref().as_pin_ref() {
                call.abandon(this.hedge);
            }
        }
    }
}

impl<'a, C: Clock, B: Budget, V, O, F, S: Sleep, R> HedgeFuture<'a, C, B, V, O, F, S, R> {
    pub(super) const fn new(hedge: &'a Hedge<C, B, V>, operation: O, sleep: S) -> Self {
        Self { hedge, operation, sleep, call: None }
    }
}

impl<C, B, V, O, F, S, T, E> Future for HedgeFuture<'_, C, B, V, O, F, S, Result<T, E>>
where
    C: Clock,
    B: Budget,
    V: Reads<Result<T, E>, Option<Failure>>,
    O: FnMut(u32) -> F,
    F: Future<Output = Result<T, E>>,
    S: Sleep,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (hedge, operation) = (*this.hedge, this.operation);
        if this.call.is_none() {
            this.call.set(Some(HedgedCall::begin(hedge, false, || operation(1))));
        }
        let Some(call) = this.call.as_mut().as_pin_mut() else { return Poll::Pending };
        let failure = |outcome: &_| hedge.retryable().read_from(outcome);
        let start = |attempt| Some(operation(attempt));
        let outcome = ready!(call.poll(context, hedge, &Unlimited, this.sleep, failure, |_| true, start, |_| {}));
        this.call.set(None);
        Poll::Ready(outcome)
    }
}

impl<C: Clock, B: Budget, V, O, F, S: Sleep, R> fmt::Debug for HedgeFuture<'_, C, B, V, O, F, S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeFuture").field("call", &self.call).finish_non_exhaustive()
    }
}
