//! The call from the gateway to its upstream: the service that stands behind the breaker.

use crate::headers::{ADMITTED, set_tick};
use crate::watch::BreakerWatch;
use damper::{Clock, Monotonic};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderName, TE, TRAILER, UPGRADE};
use hyper::service::Service;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Headers that are about one connection (RFC 9110, section 7.6.1), and the `Host` of the gateway.
const NOT_FORWARDED: [HeaderName; 6] = [CONNECTION, HOST, TE, TRAILER, UPGRADE, HeaderName::from_static("keep-alive")];

/// Sends requests to the upstream; an answer that does not come in time is an error.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamCall {
    client: Client<HttpConnector, Incoming>,
    upstream: SocketAddr,
    patience: Duration,
    watch: Arc<BreakerWatch>,
}

/// Why there is no answer of the upstream.
#[derive(Debug)]
pub(crate) enum UpstreamError {
    /// It could not be reached, or went away.
    Unreachable(legacy::Error),
    /// It did not answer within this time.
    Silent(Duration),
}

impl UpstreamCall {
    pub(crate) fn new(upstream: SocketAddr, patience: Duration, watch: Arc<BreakerWatch>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(patience));
        let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Self { client, upstream, patience, watch }
    }

    fn forwarded(&self, mut request: Request<Incoming>) -> Request<Incoming> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        if let Ok(uri) = format!("http://{}{path}", self.upstream).parse::<Uri>() {
            *request.uri_mut() = uri;
        }
        for name in NOT_FORWARDED {
            request.headers_mut().remove(name);
        }
        request
    }
}

impl Service<Request<Incoming>> for UpstreamCall {
    type Response = Response<Incoming>;
    type Error = UpstreamError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    /// Runs at once, and only if the breaker let the call pass.
    ///
    /// So a probe sees the half-open state that it is the cause of.
    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let admitted = Monotonic.now();
        self.watch.observe();
        let mut request = self.forwarded(request);
        set_tick(request.headers_mut(), ADMITTED, admitted);
        let (answer, patience) = (self.client.request(request), self.patience);
        Box::pin(async move {
            match timeout(patience, answer).await {
                Ok(answer) => answer.map_err(UpstreamError::Unreachable),
                Err(_) => Err(UpstreamError::Silent(patience)),
            }
        })
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "upstream unreachable: {error}"),
            Self::Silent(patience) => write!(f, "upstream did not answer within {patience:?}"),
        }
    }
}

impl std::error::Error for UpstreamError {}
