//! Adapts a client with its own request and response types to those of the crate `http`.

use super::{BoxError, RequestNotMade};
use alloc::boxed::Box;
use bytes::Bytes;
use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

/// Turns a client with its own request type, such as `reqwest::Client`, into one of `http::Request`.
///
/// Layers for HTTP can then be put around it.
///
/// A request of the crate `http` is converted by `TryFrom`, and a response is converted back by `Into`. The body of a request is `Bytes`,
/// which can be sent again. If a request cannot be converted, the error is a [`RequestNotMade`]. The errors of the client are boxed.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
/// # #[cfg(feature = "tokio")] {
/// use bytes::Bytes;
/// use damper::Retry;
/// use damper::http::{HttpClient, client_stack};
/// use http_body_util::BodyExt;
/// use tower::{Service, ServiceExt};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let mut client = client_stack().retry(Retry::new(3)).service(HttpClient::new(reqwest::Client::new()));
///
/// let request = http::Request::get("http://localhost/").body(Bytes::new())?;
/// let response = client.ready().await?.call(request).await?;
/// println!("{:?}", response.into_body().collect().await?.to_bytes());
/// # Ok(())
/// # }
/// # }
/// ```
pub struct HttpClient<S, R, X> {
    client: S,
    converts: PhantomData<fn(R) -> X>,
}

impl<S, R, X> HttpClient<S, R, X> {
    /// Wraps a client.
    pub const fn new(client: S) -> Self {
        Self { client, converts: PhantomData }
    }
}

impl<S, R, X> Service<Request<Bytes>> for HttpClient<S, R, X>
where
    R: TryFrom<Request<Bytes>, Error: Into<BoxError>>,
    S: Service<R, Response: Into<Response<X>>, Error: Into<BoxError>>,
{
    type Response = Response<X>;
    type Error = BoxError;
    type Future = HttpClientFuture<S::Future, X>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.client.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let call = match R::try_from(request) {
            Ok(request) => HttpCall::Called { future: self.client.call(request) },
            Err(error) => HttpCall::NotMade { error: Some(Box::new(RequestNotMade::new(error.into()))) },
        };
        HttpClientFuture { call, body: PhantomData }
    }
}

impl<S: Clone, R, X> Clone for HttpClient<S, R, X> {
    fn clone(&self) -> Self {
        Self::new(self.client.clone())
    }
}

impl<S: fmt::Debug, R, X> fmt::Debug for HttpClient<S, R, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpClient").field(&self.client).finish()
    }
}

pin_project! {
    /// The future of [`HttpClient`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct HttpClientFuture<F, X> {
        #[pin]
        call: HttpCall<F>,
        body: PhantomData<fn() -> X>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = HttpCallProjection]
    enum HttpCall<F> {
        Called { #[pin] future: F },
        // `Some` until it is taken.
        NotMade { error: Option<BoxError> },
    }
}

impl<F, T, E, X> Future for HttpClientFuture<F, X>
where
    F: Future<Output = Result<T, E>>,
    T: Into<Response<X>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<X>, BoxError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().call.project() {
            HttpCallProjection::Called { future } => {
                future.poll(context).map(|result| result.map(Into::into).map_err(Into::into))
            }
            HttpCallProjection::NotMade { error } => {
                error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
            }
        }
    }
}
