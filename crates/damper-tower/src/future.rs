//! The calls of a service behind a gate.

use crate::side::{Side, Stand};
use crate::unwinding::Unwinding;
use alloc::boxed::Box;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::gate::{Ending, Gate, Permit, Verdict};
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
    /// its result, it drops the future of the service and then the permit, which frees a slot and gives the place of a probe back, and is no
    /// verdict. If `call` or the future of the service panics, the permit has ended when the panic reaches the caller.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct GateFuture<S: Service<R>, R, X: Side<R, S::Response, S::Error>> {
        #[pin]
        pub(crate) call: CallOf<S, R, X>,
    }

    impl<S: Service<R>, R, X: Side<R, S::Response, S::Error>> PinnedDrop for GateFuture<S, R, X> {
        #[inline]
        fn drop(this: Pin<&mut Self>) {
            let mut call = this.project().call;
            if let CallProjection::Calling { held, .. } = call.as_mut().project()
                && held.is_some()
            {
                abandon::<S, R, X>(call);
            }
        }
    }
}

/// Ends a call that was dropped before its result.
///
/// Drops its future first, so that the slot is not free while that still works.
#[cold]
fn abandon<S: Service<R>, R, X: Side<R, S::Response, S::Error>>(mut call: Pin<&mut CallOf<S, R, X>>) {
    let CallProjection::Calling { held, .. } = call.as_mut().project() else { return };
    let mut held = held.take();
    let watch = Unwinding::watch(&mut held);
    call.set(Call::Refused { refused: None });
    watch.over();
    if let Some(held) = held {
        X::abandoned(held);
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

type CallOf<S, R, X> = Call<
    <S as Service<R>>::Future,
    <X as Side<R, <S as Service<R>>::Response, <S as Service<R>>::Error>>::Held,
    <X as Side<R, <S as Service<R>>::Response, <S as Service<R>>::Error>>::Refused,
    Pin<Box<Waiting<S, R, X>>>,
>;
type WaitOf<X> = <<X as Stand>::Gate as Gate>::Wait;
type PermitOf<X> = <<X as Stand>::Gate as Gate>::Permit;
type RefusalOf<X> = <<X as Stand>::Gate as Gate>::Refusal;

pin_project! {
    #[project = WaitingProjection]
    pub(crate) struct Waiting<S, R, X: Stand> {
        #[pin]
        wait: WaitOf<X>,
        service: S,
        side: X,
        // The service has to be polled for readiness after the wait.
        is_released: bool,
        // The request is there until the call is made.
        request: Option<R>,
        // The permit is there while the service is not ready.
        permit: Option<PermitOf<X>>,
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
    pub(crate) fn waiting(wait: WaitOf<X>, service: S, is_released: bool, side: X, request: R) -> Self {
        let waiting = Waiting { wait, service, side, is_released, request: Some(request), permit: None };
        Self { call: Call::Waiting { waiting: Box::pin(waiting) } }
    }
}

/// The end of a wait: a permit or a refusal, or the error of a service that has failed to become ready.
type Waited<X, E> = Result<Result<PermitOf<X>, RefusalOf<X>>, E>;

impl<S: Service<R>, R, X: Stand> Waiting<S, R, X> {
    /// Returns the permit once it is given, and the service is ready if the wait has released it.
    fn poll_permit(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Waited<X, S::Error>> {
        let WaitingProjection { mut wait, service, is_released, permit, .. } = self.project();
        match wait.as_mut().poll(context) {
            Poll::Ready(Ok(given)) => *permit = Some(given),
            Poll::Pending if permit.is_none() => return Poll::Pending,
            // The service has still time to become ready.
            Poll::Pending => {}
            Poll::Ready(Err(refusal)) => {
                permit.take().end(&Verdict::of(Ending::NotSent));
                return Poll::Ready(Ok(Err(refusal)));
            }
        }
        if *is_released {
            let not_ready = match service.poll_ready(context) {
                Poll::Ready(Ok(())) => None,
                Poll::Ready(Err(error)) => Some(Err(error)),
                Poll::Pending => Some(Ok(ready!(wait.poll(context)))),
            };
            if let Some(not_ready) = not_ready {
                permit.take().end(&Verdict::of(Ending::NotSent));
                return Poll::Ready(not_ready);
            }
        }
        permit.take().map_or(Poll::Pending, |permit| Poll::Ready(Ok(Ok(permit))))
    }
}

impl<S: Service<R>, R, X: Side<R, S::Response, S::Error>> Waiting<S, R, X> {
    /// Makes the call as soon as it may be made, or refuses it.
    ///
    /// Out of line, because calls that need not wait would grow.
    #[cold]
    fn begin(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<CallOf<S, R, X>, X::Error>> {
        // There is no request if the service panicked, and the call is polled again.
        if self.request.is_none() {
            return Poll::Pending;
        }
        let permit = ready!(self.as_mut().poll_permit(context));
        let WaitingProjection { wait, service, side, request, .. } = self.project();
        let Some(mut request) = request.take() else { return Poll::Pending };
        Poll::Ready(match permit {
            Ok(Ok(permit)) => {
                side.waited(&wait, &mut request);
                let mut held = Some(side.hold(permit, &request));
                let watch = Unwinding::watch(&mut held);
                let future = service.call(request);
                watch.over();
                Ok(Call::Calling { future, held })
            }
            Ok(Err(refusal)) => Ok(Call::Refused { refused: Some(side.refuse(refusal, &request)) }),
            Err(error) => Err(X::failed(error)),
        })
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
                CallProjection::Waiting { waiting } => match ready!(waiting.as_mut().begin(context)) {
                    Ok(begun) => begun,
                    Err(error) => return Poll::Ready(Err(error)),
                },
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
