//! An attempt beside the first.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::Request;
use pin_project_lite::pin_project;
use tower_service::Service;

pin_project! {
    /// An attempt beside the first: waits until a clone of the service is ready, and calls it.
    #[project = AttemptProjection]
    pub(super) enum Attempt<S: Service<Request<Q>>, Q> {
        Readying { service: S, request: Option<Request<Q>> },
        Calling { #[pin] response: S::Future },
    }
}

impl<S: Service<Request<Q>>, Q> Attempt<S, Q> {
    pub(super) const fn new(service: S, request: Request<Q>) -> Self {
        Self::Readying { service, request: Some(request) }
    }
}

impl<S: Service<Request<Q>>, Q> Future for Attempt<S, Q> {
    type Output = Result<S::Response, S::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match self.as_mut().project() {
                AttemptProjection::Readying { service, request } => {
                    ready!(service.poll_ready(context))?;
                    let Some(request) = request.take() else { return Poll::Pending };
                    let response = service.call(request);
                    self.set(Self::Calling { response });
                }
                AttemptProjection::Calling { response } => return response.poll(context),
            }
        }
    }
}
