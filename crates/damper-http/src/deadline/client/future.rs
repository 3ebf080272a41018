//! The calls of a client's service with deadlines.

use crate::deadline::{BoxError, DeadlineBody, End, Expiry, Protocol};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::deadline::{Deadline, DeadlineExceeded};
use damper_core::time::Sleep;
use http::Response;
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`ClientDeadline`](super::ClientDeadline). It is ready by the deadline.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ClientDeadlineFuture<F, S: Sleep> {
        #[pin]
        state: ClientCall<F, S>,
    }
}

pin_project! {
    #[project = ClientCallProjection]
    enum ClientCall<F, S: Sleep> {
        Called { #[pin] future: F, #[pin] expiry: Expiry<S>, protocol: Protocol },
        Refused { error: Option<BoxError> },
    }
}

impl<F, S: Sleep> ClientDeadlineFuture<F, S> {
    #[inline]
    pub(super) fn call(future: F, deadline: Deadline, sleep: S, protocol: Protocol) -> Self {
        Self { state: ClientCall::Called { future, expiry: Expiry::new(deadline, sleep), protocol } }
    }

    #[cold]
    pub(super) fn refuse(error: BoxError) -> Self {
        Self { state: ClientCall::Refused { error: Some(error) } }
    }
}

impl<F, S, R, E> Future for ClientDeadlineFuture<F, S>
where
    F: Future<Output = Result<Response<R>, E>>,
    S: Sleep + Clone,
    E: Into<BoxError>,
{
    type Output = Result<Response<DeadlineBody<R, S>>, BoxError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        let exceeded: DeadlineExceeded = match state.as_mut().project() {
            ClientCallProjection::Called { future, expiry, protocol } => match future.poll(context) {
                Poll::Ready(result) => match expiry.check() {
                    Ok(()) => {
                        let (deadline, sleep) = expiry.parts();
                        return Poll::Ready(result.map_err(Into::into).map(|response| {
                            let end = End::Called(protocol.clone());
                            response.map(|body| DeadlineBody::new(body, deadline, sleep.clone(), end))
                        }));
                    }
                    // No result follows the deadline, no matter that it is there.
                    Err(exceeded) => exceeded,
                },
                Poll::Pending => ready!(expiry.poll_exceeded(context)),
            },
            ClientCallProjection::Refused { error } => {
                return match error.take() {
                    Some(error) => Poll::Ready(Err(error)),
                    // Polled again after it was ready.
                    None => Poll::Pending,
                };
            }
        };
        let ClientCallProjection::Called { protocol, .. } = state.as_mut().project() else { return Poll::Pending };
        let error = protocol.error(exceeded);
        // Drops the service's future.
        state.set(ClientCall::Refused { error: None });
        Poll::Ready(Err(error))
    }
}

impl<F, S: Sleep> fmt::Debug for ClientDeadlineFuture<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_called = matches!(self.state, ClientCall::Called { .. });
        f.debug_struct("ClientDeadlineFuture").field("is_called", &is_called).finish_non_exhaustive()
    }
}
