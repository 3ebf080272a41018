//! The client of a row, with the layers that it tries.

use crate::row::Guard;
use crate::server::TIMEOUT;
use damper::BreakerConfig;
use damper::concurrency::LimitBounds;
use damper::http::{BoxedClient, ClientDeadlineLayer, TimeoutUnit, client_stack};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use std::time::Duration;

/// Longer than any call takes.
const LONGEST: Duration = Duration::from_secs(5);

pub(crate) fn client(guard: Guard) -> BoxedClient<Empty<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let http = Client::builder(TokioExecutor::new()).build(connector);
    let stack =
        client_stack().deadline_layer(ClientDeadlineLayer::new(LONGEST).header(TIMEOUT, TimeoutUnit::Milliseconds));
    match guard {
        Guard::ClientAdaptive => stack.adaptive(LimitBounds::DEFAULT).boxed(http),
        Guard::ClientBreaker => stack.breaker_per_host(BreakerConfig::default()).boxed(http),
        _ => stack.boxed(http),
    }
}
