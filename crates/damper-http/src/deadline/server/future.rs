//! The calls of a service whose requests have deadlines.

use crate::Body;
use crate::deadline::{DeadlineBody, End, Expiry, Protocol};
use alloc::boxed::Box;
use bytes::Bytes;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::deadline::{Deadline, DeadlineExceeded};
use damper_core::time::Sleep;
use http::Response;
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`ServerDeadline`](super::ServerDeadline). It is ready by the deadline.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ServerDeadlineFuture<F, S: Sleep> {
        #[pin]
        state: ServedCall<F, S>,
    }
}

pin_project! {
    #[project = ServedCallProjection]
    enum ServedCall<F, S: Sleep> {
        Called { #[pin] future: F, #[pin] expiry: Expiry<S>, protocol: Protocol },
        Refused { response: Option<Box<Response<Bytes>>> },
    }
}

impl<F, S: Sleep> ServerDeadlineFuture<F, S> {
    #[inline]
    pub(super) fn call(future: F, deadline: Deadline, sleep: S, protocol: Protocol) -> Self {
        Self { state: ServedCall::Called { future, expiry: Expiry::new(deadline, sleep), protocol } }
    }

    #[cold]
    pub(super) fn refuse(response: Response<Bytes>) -> Self {
        Self { state: ServedCall::Refused { response: Some(Box::new(response)) } }
    }
}

impl<F, S, R, E> Future for ServerDeadlineFuture<F, S>
where
    F: Future<Output = Result<Response<R>, E>>,
    S: Sleep + Clone,
{
    type Output = Result<Response<Body<DeadlineBody<R, S>>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        let exceeded: DeadlineExceeded = match state.as_mut().project() {
            ServedCallProjection::Called { future, expiry, protocol } => match future.poll(context) {
                Poll::Ready(result) => match expiry.check() {
                    Ok(()) => {
                        let (deadline, sleep) = expiry.parts();
                        return Poll::Ready(result.map(|response| {
                            let end = End::Served(protocol.clone());
                            response.map(|body| Body::service(DeadlineBody::new(body, deadline, sleep.clone(), end)))
                        }));
                    }
                    // No result follows the deadline, no matter that it is there.
                    Err(exceeded) => exceeded,
                },
                Poll::Pending => ready!(expiry.poll_exceeded(context)),
            },
            ServedCallProjection::Refused { response } => {
                return match response.take() {
                    Some(response) => Poll::Ready(Ok(response.map(Body::refusal))),
                    // Polled again after it was ready.
                    None => Poll::Pending,
                };
            }
        };
        let ServedCallProjection::Called { protocol, .. } = state.as_mut().project() else { return Poll::Pending };
        let response = protocol.response(exceeded);
        // Drops the service's future.
        state.set(ServedCall::Refused { response: None });
        Poll::Ready(Ok(response.map(Body::refusal)))
    }
}

impl<F, S: Sleep> fmt::Debug for ServerDeadlineFuture<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_called = matches!(self.state, ServedCall::Called { .. });
        f.debug_struct("ServerDeadlineFuture").field("is_called", &is_called).finish_non_exhaustive()
    }
}
