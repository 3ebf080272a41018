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
///
/// If marks have a header, it is removed from the requests of clients, also without a limit: a server behind this one trusts it.
#[derive(Clone, Debug)]
pub struct ServerRateLimit {
    /// Without a limit if requests are marked.
    refusing: Refusing,
    /// Whether there is a limit: one that is absent explains nothing, and has no metrics of marks.
    is_on: bool,
    marking: Marking,
}

impl ServerRateLimit {
    /// Creates the limit of this layer, which marks if the settings say so.
    pub(super) fn new(layer: Refusing, is_on: bool, settings: &RateLimitSettings, name: &str) -> Self {
        match settings.marking(layer.clone()) {
            // The name of a group is valid.
            Some(marking) => {
                let without_limit = RateLimitLayer::new(None);
                let refusing = without_limit.clone().named(name).unwrap_or(without_limit);
                Self { refusing, is_on, marking: Some(marking).into() }
            }
            None => Self { refusing: layer, is_on, marking: None.into() },
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
        Self { refusing: self.refusing.for_peer(address), is_on: self.is_on, marking: self.marking.for_peer(address) }
    }
}

impl Explain for ServerRateLimit {
    fn explain(&self, request: &mut Request<()>) -> Option<ExplainedPart> {
        let part = match self.marking.get() {
            Some(_) => self.marking.explain(request),
            None => self.refusing.explain(request),
        };
        // A limit that is off explains nothing, but the header of its marks is removed from the head.
        part.filter(|_| self.is_on)
    }
}

/// The limit, and the requests that it has marked.
#[cfg(feature = "metrics")]
impl damper_metrics::Source for ServerRateLimit {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        match self.marking.get() {
            Some(marking) if self.is_on => marking.read(readings),
            _ => self.refusing.read(readings),
        }
    }
}
