//! The client of the generator: as many connections as there are requests in flight, and no retries.

use crate::load::Arrival;
use crate::tally::Answer;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Milliseconds that are left of a request's time.
pub(crate) const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");
/// A request's class, as its number.
pub(crate) const CLASS: HeaderName = HeaderName::from_static("x-class");
/// Whose a request is.
pub(crate) const TENANT: HeaderName = HeaderName::from_static("x-tenant");

#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: legacy::Client<HttpConnector, Empty<Bytes>>,
    uri: Uri,
}

impl Client {
    pub(crate) fn new(server: SocketAddr) -> Result<Self, Box<dyn Error>> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { http, uri: format!("http://{server}/").parse()? })
    }

    /// Sends a request that was due at `due`, and gives up at its deadline, as real clients do.
    pub(crate) async fn call(self, arrival: Arrival, due: Instant, timeout: Duration) -> Answer {
        let deadline = due + timeout;
        let left = deadline.saturating_duration_since(Instant::now());
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(TIMEOUT, HeaderValue::from(left.as_millis() as u64));
        headers.insert(CLASS, HeaderValue::from(arrival.class));
        headers.insert(TENANT, HeaderValue::from(arrival.tenant));
        match timeout_at(deadline, self.answer(request)).await {
            // The timer may be late by a millisecond.
            Ok(Ok(StatusCode::OK)) if due.elapsed() <= timeout => Answer::InTime(due.elapsed()),
            Ok(Ok(StatusCode::SERVICE_UNAVAILABLE)) => Answer::Refused,
            Ok(Ok(StatusCode::OK | StatusCode::GATEWAY_TIMEOUT)) | Err(_) => Answer::Missed,
            Ok(_) => Answer::Failed,
        }
    }

    async fn answer(&self, request: Request<Empty<Bytes>>) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
        let response = self.http.request(request).await?;
        let status = response.status();
        // Read to the end, so that the connection can be used again.
        response.into_body().collect().await?;
        Ok(status)
    }
}
