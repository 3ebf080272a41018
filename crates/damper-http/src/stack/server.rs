//! The builder of a server's stack, and its order.

use super::NoPart;
#[cfg(feature = "tokio")]
use crate::concurrency::AdmissionLayer;
use crate::concurrency::ConcurrencyLayer;
#[cfg(feature = "tokio")]
use crate::deadline::DeadlineLayer;
use crate::limit::{Limit, PerClient};
use crate::rate_limit::RateLimitLayer;
use alloc::sync::Arc;
use core::net::SocketAddr;
#[cfg(feature = "tokio")]
use core::time::Duration;
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, LimitBounds};
#[cfg(feature = "tokio")]
use damper_core::concurrency::{Admission, LimitRule};
use damper_core::limit::RateLimiter;
use damper_core::quota::Quota;
#[cfg(feature = "tokio")]
use damper_core::time::{Clock, TokioSleep};
use tower_layer::Layer;

/// Begins the stack of a server: a [`ServerStack`] without any part.
pub const fn server_stack() -> ServerStack {
    ServerStack { deadline: NoPart, client_limit: NoPart, limit: NoPart, admission: NoPart }
}

/// The parts of a server's stack, in the right order whatever the order of the calls is.
///
/// Made by [`server_stack`].
///
/// ```text
/// request ─▶ deadline ─▶ limit for each client ─▶ limit for all ─▶ admission ─▶ handler
/// ```
///
/// | part | plain | a layer of its own |
/// |---|---|---|
/// | deadline of the request: one that arrives expired takes no token | `deadline`, with the feature `tokio` | [`deadline_layer`](Self::deadline_layer) |
/// | rate limit for each client: one that sends too much takes nothing from the others | [`limit_per_client`](Self::limit_per_client) | [`client_limit_layer`](Self::client_limit_layer) |
/// | rate limit for all clients together | [`limit`](Self::limit) | [`limit_layer`](Self::limit_layer) |
/// | admission, or a limit of requests in flight: only those are queued that may be served | [`bulkhead`](Self::bulkhead), [`adaptive`](Self::adaptive), `admission` with the feature `tokio` | [`admission_layer`](Self::admission_layer) |
///
/// No part is there unless it is set, and a part that is set twice is the last one.
///
/// A refusal is a response: 504, 429 or 503, and the status of gRPC for its requests. So the error of the service is that of the
/// handler. In metrics and logs, the plain limits have the names `client` and `server`.
///
/// The stack is a `tower::Layer`, for axum's `Router::layer` and tonic's `Server::layer`. With the feature `hyper`, the service
/// is one of hyper too.
///
/// # Examples
///
#[cfg_attr(all(feature = "axum", feature = "tokio"), doc = "```")]
#[cfg_attr(not(all(feature = "axum", feature = "tokio")), doc = "```text")]
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
/// use axum::{Router, routing::get};
/// use damper::Quota;
/// use damper::http::server_stack;
/// use std::time::Duration;
///
/// let stack = server_stack()
///     .limit(Quota::per_second(1_000))
///     .limit_per_client(Quota::per_second(50).burst(100))
///     .deadline(Duration::from_secs(5))
///     .bulkhead(256);
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(stack);
/// // For `axum::serve`: the addresses of the clients, without which `limit_per_client` answers each request with 500.
/// let service = app.into_make_service_with_connect_info::<std::net::SocketAddr>();
/// # let _ = service;
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a stack does nothing until it is put around a service"]
pub struct ServerStack<D = NoPart, K = NoPart, L = NoPart, A = NoPart> {
    deadline: D,
    client_limit: K,
    limit: L,
    admission: A,
}

#[cfg(feature = "tokio")]
impl<D, K, L, A> ServerStack<D, K, L, A> {
    /// Sets the time that a request may take, unless its client sends a shorter one.
    ///
    /// gRPC has a header for that. For HTTP, name one: `.deadline_layer(DeadlineLayer::new(timeout).header(name, unit))`.
    pub fn deadline(self, timeout: Duration) -> ServerStack<DeadlineLayer<TokioSleep>, K, L, A> {
        self.deadline_layer(DeadlineLayer::new(timeout))
    }

    /// Lets a gate decide which requests run, which wait and which are refused: an `Admission`, or an `Arc<Admission>`, which you keep to
    /// inspect it.
    ///
    /// Requests are of one class and of one tenant. For others: `.admission_layer(AdmissionLayer::new(gate).criticality(…).tenant(…))`.
    pub fn admission<R: LimitRule, C: Clock>(
        self,
        gate: impl Into<Arc<Admission<R, C>>>,
    ) -> ServerStack<D, K, L, AdmissionLayer<TokioSleep, R, C>> {
        self.admission_layer(AdmissionLayer::new(gate.into()))
    }
}

impl<D, K, L, A> ServerStack<D, K, L, A> {
    /// Limits the rate of each client address, whose requests need the address of their [peer](crate::Head::peer).
    ///
    /// Without it they are answered with 500, and only logs (feature `tracing`) say why. For axum:
    /// `app.into_make_service_with_connect_info::<SocketAddr>()`.
    pub fn limit_per_client(self, quota: Quota) -> ServerStack<D, RateLimitLayer<PerClient>, L, A> {
        self.client_limit_layer(named(RateLimitLayer::per_client(quota), "client"))
    }

    /// Limits the rate of all clients together.
    pub fn limit(self, quota: Quota) -> ServerStack<D, K, RateLimitLayer<Arc<RateLimiter>>, A> {
        self.limit_layer(named(RateLimitLayer::global(quota), "server"))
    }

    /// Limits the requests in flight, until their responses have ended. A request over the limit is refused at once.
    ///
    /// To wait for a slot: `.admission_layer(ConcurrencyLayer::bulkhead(64).waiting(longest))`.
    pub fn bulkhead(self, limit: u32) -> ServerStack<D, K, L, ConcurrencyLayer<Arc<Bulkhead>>> {
        self.admission_layer(ConcurrencyLayer::bulkhead(limit))
    }

    /// Limits the requests in flight as [`bulkhead`](Self::bulkhead) does, by a limit that follows the latency of responses within these
    /// bounds.
    pub fn adaptive(self, bounds: LimitBounds) -> ServerStack<D, K, L, ConcurrencyLayer<Arc<AdaptiveLimit>>> {
        self.admission_layer(ConcurrencyLayer::adaptive(bounds))
    }

    /// Sets the layer of deadlines: a [`DeadlineLayer`] that reads a header, say.
    pub fn deadline_layer<N>(self, layer: N) -> ServerStack<N, K, L, A> {
        let Self { client_limit, limit, admission, .. } = self;
        ServerStack { deadline: layer, client_limit, limit, admission }
    }

    /// Sets the layer of the limit for each client: a [`RateLimitLayer`] behind proxies, by a header, or with other settings.
    pub fn client_limit_layer<N>(self, layer: N) -> ServerStack<D, N, L, A> {
        let Self { deadline, limit, admission, .. } = self;
        ServerStack { deadline, client_limit: layer, limit, admission }
    }

    /// Sets the layer of the limit for all clients together.
    pub fn limit_layer<N>(self, layer: N) -> ServerStack<D, K, N, A> {
        let Self { deadline, client_limit, admission, .. } = self;
        ServerStack { deadline, client_limit, limit: layer, admission }
    }

    /// Sets the layer that decides which of the requests may run at once: an admission gate, a bulkhead or an adaptive limit.
    pub fn admission_layer<N>(self, layer: N) -> ServerStack<D, K, L, N> {
        let Self { deadline, client_limit, limit, .. } = self;
        ServerStack { deadline, client_limit, limit, admission: layer }
    }

    /// Returns the same stack for the connection of this peer.
    ///
    /// For servers that do not put the address into the request, such as hyper's. Clones share the limits.
    pub fn for_peer(&self, address: SocketAddr) -> Self
    where
        D: Clone,
        K: PeerLimit,
        L: PeerLimit,
        A: Clone,
    {
        Self {
            deadline: self.deadline.clone(),
            client_limit: self.client_limit.for_peer(address),
            limit: self.limit.for_peer(address),
            admission: self.admission.clone(),
        }
    }

    /// Puts the stack around a handler.
    pub fn service<S>(&self, handler: S) -> <Self as Layer<S>>::Service
    where
        Self: Layer<S>,
    {
        self.layer(handler)
    }
}

/// Gives a limit its name in metrics, logs and headers. The names here are valid.
fn named<L: Limit + Clone>(layer: RateLimitLayer<L>, name: &str) -> RateLimitLayer<L> {
    layer.clone().named(name).unwrap_or(layer)
}

/// A limit that can be told the address of a connection's peer: a [`RateLimitLayer`], or none.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be told the peer of a connection",
    note = "put `damper::http::PeerAddress` into the extensions of requests instead"
)]
pub trait PeerLimit {
    /// Returns the limit for the requests of one connection.
    #[doc(hidden)]
    #[must_use]
    fn for_peer(&self, address: SocketAddr) -> Self;
}

impl PeerLimit for NoPart {
    fn for_peer(&self, _: SocketAddr) -> Self {
        Self
    }
}

impl<L> PeerLimit for RateLimitLayer<L> {
    fn for_peer(&self, address: SocketAddr) -> Self {
        self.for_peer(address)
    }
}

impl<S, D, K, L, A> Layer<S> for ServerStack<D, K, L, A>
where
    A: Layer<S>,
    L: Layer<A::Service>,
    K: Layer<L::Service>,
    D: Layer<K::Service>,
{
    type Service = D::Service;

    fn layer(&self, handler: S) -> D::Service {
        let Self { deadline, client_limit, limit, admission } = self;
        deadline.layer(client_limit.layer(limit.layer(admission.layer(handler))))
    }
}
