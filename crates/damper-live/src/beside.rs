//! A service with the page beside it.

use super::LiveService;
use super::service::LiveFuture;
use crate::body::BesideBody;
use alloc::boxed::Box;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;

/// A service that gets all requests but those for the page. Made by [`LiveService::beside`].
///
/// Requests for the page reach neither the service nor the layers around it. To limit them too, put the layers around this service.
#[derive(Clone, Debug)]
pub struct Beside<S> {
    service: S,
    page: LiveService,
}

impl<S> Beside<S> {
    pub(super) fn new(service: S, page: LiveService) -> Self {
        Self { service, page }
    }
}

impl<S, B, R> tower_service::Service<Request<B>> for Beside<S>
where
    S: tower_service::Service<Request<B>, Response = Response<R>>,
    B: Body,
{
    type Response = Response<BesideBody<R>>;
    type Error = S::Error;
    type Future = BesideFuture<S::Future, B>;

    /// The page is ready whenever the service is.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        if self.page.is_for(request.uri()) {
            return BesideFuture { course: Course::Page { answer: Box::pin(self.page.answer(request)) } };
        }
        BesideFuture { course: Course::Service { call: self.service.call(request) } }
    }
}

impl<S, B, R> hyper::service::Service<Request<B>> for Beside<S>
where
    S: hyper::service::Service<Request<B>, Response = Response<R>>,
    B: Body,
{
    type Response = Response<BesideBody<R>>;
    type Error = S::Error;
    type Future = BesideFuture<S::Future, B>;

    #[inline]
    fn call(&self, request: Request<B>) -> Self::Future {
        if self.page.is_for(request.uri()) {
            return BesideFuture { course: Course::Page { answer: Box::pin(self.page.answer(request)) } };
        }
        BesideFuture { course: Course::Service { call: self.service.call(request) } }
    }
}

pin_project! {
    /// An answer of the page, or a call of the service beside it. Made by [`Beside`].
    #[derive(Debug)]
    pub struct BesideFuture<F, B> {
        #[pin]
        course: Course<F, B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = CourseProjection]
    enum Course<F, B> {
        // A pointer, so that the page makes the future of the service no larger.
        Page { answer: Pin<Box<LiveFuture<B>>> },
        Service { #[pin] call: F },
    }
}

impl<F, B, R, E> Future for BesideFuture<F, B>
where
    F: Future<Output = Result<Response<R>, E>>,
    B: Body,
{
    type Output = Result<Response<BesideBody<R>>, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().course.project() {
            CourseProjection::Page { answer } => {
                let Ok(response) = ready!(answer.as_mut().poll(cx));
                Poll::Ready(Ok(response.map(BesideBody::page)))
            }
            CourseProjection::Service { call } => {
                Poll::Ready(ready!(call.poll(cx)).map(|response| response.map(BesideBody::service)))
            }
        }
    }
}
