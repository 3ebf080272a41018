//! The rate limit of a server's stack, which refuses requests or marks them.

use super::ConfiguredLimit;
use crate::settings::RateLimitSettings;
use damper_http::internal::{OptionalRewrite, PeerLimit};
use damper_http::{Explain, ExplainedPart, MarkingLayer, RateLimitLayer};
use http::Request;
use std::net::SocketAddr;
use tower_layer::Layer;

type Refusing = RateLimitLayer<Option<ConfiguredLimit>>;
type Marking = OptionalRewrite<MarkingLayer<Option<ConfiguredLimit>>>;
type Marked<S> = <Marking as Layer<S>>::Service;

/// The rate limit of a server's stack: it refuses requests, or marks them, or there is none.
#[derive(Clone, Debug)]
pub struct ServerRateLimit {
    /// Without a limit if requests are marked.
    refusing: Refusing,
    /// Whether there is a limit and it refuses: a limit that is absent explains nothing.
    refuses: bool,
    marking: Marking,
}

impl ServerRateLimit {
    /// Creates the limit of this layer, which marks if the settings say so.
    pub(super) fn new(layer: Refusing, is_on: bool, settings: &RateLimitSettings, name: &str) -> Self {
        match settings.marking(layer.clone()).filter(|_| is_on) {
            // The name of a group is valid.
            Some(marking) => {
                let without_limit = RateLimitLayer::new(None);
                let refusing = without_limit.clone().named(name).unwrap_or(without_limit);
                Self { refusing, refuses: false, marking: Some(marking).into() }
            }
            None => Self { refusing: layer, refuses: is_on, marking: None.into() },
        }
    }
}

impl<S> Layer<S> for ServerRateLimit
where
    Refusing: Layer<Marked<S>>,
{
    type Service = <Refusing as Layer<Marked<S>>>::Service;

    fn layer(&self, service: S) -> Self::Service {
        Layer::layer(&self.refusing, Layer::layer(&self.marking, service))
    }
}

impl PeerLimit for ServerRateLimit {
    fn for_peer(&self, address: SocketAddr) -> Self {
        Self {
            refusing: self.refusing.for_peer(address),
            refuses: self.refuses,
            marking: self.marking.for_peer(address),
        }
    }
}

impl Explain for ServerRateLimit {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        if self.refuses { self.refusing.explain(request) } else { self.marking.explain(request) }
    }
}

/// The limit, and the requests that it has marked.
#[cfg(feature = "metrics")]
impl damper_metrics::Source for ServerRateLimit {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        match self.marking.get() {
            Some(marking) => marking.read(readings),
            None => self.refusing.read(readings),
        }
    }
}
