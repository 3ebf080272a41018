//! The calls of a service behind a gate.

use crate::side::Side;
use crate::unwinding::Unwinding;
use alloc::boxed::Box;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::gate::Gate;
use pin_project_lite::pin_project;
use tower_service::Service;

pin_project! {
    /// The future of [`GateService`](crate::GateService). A refusal is ready when it is first polled.
    ///
    /// A call that waits for its permit allocates.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits, it leaves its place in the queue, or gives its tokens back unless another call waits behind it. Dropped before
    /// its result, the permit is dropped, which frees a slot and gives the place of a probe back, and is no verdict. If `call` or the future
    /// of the service panics, the permit has ended when the panic reaches the caller.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct GateFuture<S: Service<R>, R, X: Side<R, S::Response, S::Error>> {
        #[pin]
        pub(crate) call: Call<S::Future, X::Held, X::Refused, Pin<Box<Waiting<S, R, X, <X::Gate as Gate>::Wait>>>>,
    }

    impl<S: Service<R>, R, X: Side<R, S::Response, S::Error>> PinnedDrop for GateFuture<S, R, X> {
        #[inline]
        fn drop(this: Pin<&mut Self>) {
            if let CallProjection::Calling { held, .. } = this.project().call.project()
                && let Some(held) = held.take()
            {
                X::abandoned(held);
            }
        }
    }
}

pin_project! {
    #[project = CallProjection]
    pub(crate) enum Call<F, H, N, W> {
        // The permit is there until the result is.
        Calling { #[pin] future: F, held: Option<H> },
        // The refusal is there until it is returned.
        Refused { refused: Option<N> },
        Waiting { waiting: W },
    }
}

pin_project! {
    #[project = WaitingProjection]
    pub(crate) struct Waiting<S, R, X, W> {
        #[pin]
        wait: W,
        service: S,
        side: X,
        // The request is there until the call is made.
        request: Option<R>,
    }
}

impl<S: Service<R>, R, X: Side<R, S::Response, S::Error>> GateFuture<S, R, X> {
    /// A call that is not made.
    #[cold]
    pub(crate) const fn refused(refused: X::Refused) -> Self {
        Self { call: Call::Refused { refused: Some(refused) } }
    }

    /// A call that waits for its permit.
    #[cold]
    pub(crate) fn waiting(wait: <X::Gate as Gate>::Wait, service: S, side: X, request: R) -> Self {
        Self { call: Call::Waiting { waiting: Box::pin(Waiting { wait, service, side, request: Some(request) }) } }
    }
}

impl<S: Service<R>, R, X: Side<R, S::Response, S::Error>> Future for GateFuture<S, R, X> {
    type Output = Result<X::Response, X::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut call = self.project().call;
        loop {
            let next = match call.as_mut().project() {
                CallProjection::Calling { future, held } => {
                    // The call has ended, or the service panicked, and it is polled again.
                    if held.is_none() {
                        return Poll::Pending;
                    }
                    let mut watch = Unwinding::watch(held);
                    let Poll::Ready(result) = future.poll(context) else {
                        watch.over();
                        return Poll::Pending;
                    };
                    X::judge(watch.permit(), &result);
                    watch.over();
                    return Poll::Ready(X::respond(held, result));
                }
                // Polled again after it was ready.
                CallProjection::Refused { refused } => match refused.take() {
                    Some(refused) => return Poll::Ready(X::refused(refused)),
                    None => return Poll::Pending,
                },
                CallProjection::Waiting { waiting } => {
                    let WaitingProjection { wait, service, side, request } = waiting.as_mut().project();
                    // There is no request if the service panicked, and the call is polled again.
                    if request.is_none() {
                        return Poll::Pending;
                    }
                    let permit = ready!(wait.poll(context));
                    let Some(request) = request.take() else { return Poll::Pending };
                    match permit {
                        Ok(permit) => {
                            let mut held = Some(side.hold(permit, &request));
                            let watch = Unwinding::watch(&mut held);
                            let future = service.call(request);
                            watch.over();
                            Call::Calling { future, held }
                        }
                        Err(refusal) => Call::Refused { refused: Some(side.refuse(refusal, &request)) },
                    }
                }
            };
            call.set(next);
        }
    }
}

impl<S: Service<R>, R, X: Side<R, S::Response, S::Error>> fmt::Debug for GateFuture<S, R, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.call {
            Call::Calling { .. } => "calling",
            Call::Refused { .. } => "refused",
            Call::Waiting { .. } => "waiting",
        };
        f.debug_struct("GateFuture").field("state", &state).finish_non_exhaustive()
    }
}
