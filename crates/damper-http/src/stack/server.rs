//! The builder of a server's stack, and its order.

use super::{Explain, Explanation, NoPart};
use crate::Head;
#[cfg(feature = "tokio")]
use crate::concurrency::AdmissionLayer;
use crate::concurrency::ConcurrencyLayer;
use crate::criticality::CriticalityLayer;
#[cfg(feature = "tokio")]
use crate::deadline::DeadlineLayer;
use crate::limit::{Limit, PerClient};
use crate::rate_limit::{MarkingLayer, RateLimitLayer};
use crate::rewrite::OptionalRewrite;
#[cfg(feature = "tokio")]
use crate::timed_body::STALL_LIMIT;
use alloc::sync::Arc;
use core::net::SocketAddr;
#[cfg(feature = "tokio")]
use core::time::Duration;
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, LimitBounds};
#[cfg(feature = "tokio")]
use damper_core::concurrency::{Admission, LimitRule};
use damper_core::gate::Gate;
use damper_core::limit::RateLimiter;
use damper_core::quota::Quota;
#[cfg(feature = "tokio")]
use damper_core::setting::Setting;
#[cfg(feature = "tokio")]
use damper_core::time::{Clock, TokioSleep};
use tower_layer::Layer;

/// Creates a [`ServerStack`] without any part, to which parts are added.
pub const fn server_stack() -> ServerStack {
    ServerStack(Parts { criticality: NoPart, deadline: NoPart, client_limit: NoPart, limit: NoPart, admission: NoPart })
}

/// A server's stack, whose parts are in the right order whatever the order of the calls is.
///
/// It is created by [`server_stack`].
///
/// ```text
/// request ─▶ class ─▶ deadline ─▶ limit for each client ─▶ limit for all ─▶ admission ─▶ handler
/// ```
///
/// | part | plain | a layer of its own |
/// |---|---|---|
/// | class and tenant of the request, which only trusted callers choose | [`criticality`](Self::criticality) | [`criticality_layer`](Self::criticality_layer) |
/// | deadline of the request; an expired request takes no token | `deadline`, with the feature `tokio` | [`deadline_layer`](Self::deadline_layer) |
/// | rate limit for each client, so that a busy client takes nothing from the others | [`limit_per_client`](Self::limit_per_client) | [`client_limit_layer`](Self::client_limit_layer) |
/// | rate limit for all clients together | [`limit`](Self::limit) | [`limit_layer`](Self::limit_layer) |
/// | admission, or a concurrency limit; it queues only requests that the limits let pass | [`bulkhead`](Self::bulkhead), [`adaptive`](Self::adaptive), `admission` with the feature `tokio` | [`admission_layer`](Self::admission_layer) |
///
/// The stack has only the parts that are set. Setting a part again replaces it.
///
/// **Waits.** Only admission, and parts that are set to wait, let a request wait. Each wait ends at the request's deadline. Without a
/// deadline it ends after 30 s ([`AdmissionLayer::longest_wait`](crate::AdmissionLayer::longest_wait)), or after the time passed to
/// `waiting` and `wait`.
///
/// **Readers.** A request holds its slot of admission until the client has its response, but no longer than its deadline, and not while a frame
/// waits for more than [`STALL_LIMIT`](crate::STALL_LIMIT), 30 s, for the client to take it. The handler's body is dropped then. For another
/// limit: `.admission_layer(ConcurrencyLayer::bulkhead(64).stall_limit(longest))`.
///
/// A refusal is a response: 504, 429 or 503, or a gRPC status for gRPC requests. So the error of the service is the handler's. In metrics
/// and logs, the plain limits have the names `client` and `server`.
///
/// The stack is a `tower::Layer`, for axum's `Router::layer` and tonic's `Server::layer`. With the feature `hyper`, the service is also a
/// service of hyper.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
/// # #[cfg(all(feature = "axum", feature = "tokio"))] {
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
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a stack does nothing until it is put around a service"]
pub struct ServerStack<D = NoPart, K = NoPart, L = NoPart, A = NoPart, C = NoPart>(Parts<D, K, L, A, C>);

/// The parts, from the outside in.
///
/// They are in a struct of their own, so that rustc does not take a field for a setter that needs a feature.
#[derive(Clone, Copy, Debug)]
struct Parts<D, K, L, A, C> {
    criticality: C,
    deadline: D,
    client_limit: K,
    limit: L,
    admission: A,
}

#[cfg(feature = "tokio")]
impl<D, K, L, A, C> ServerStack<D, K, L, A, C> {
    /// Sets the time that a request may take, unless its client sends a shorter one.
    ///
    /// gRPC has a header for that. For HTTP, name one: `.deadline_layer(DeadlineLayer::new(timeout).header(name, unit))`.
    pub fn deadline(self, timeout: impl Into<Setting<Duration>>) -> ServerStack<DeadlineLayer<TokioSleep>, K, L, A, C> {
        self.deadline_layer(DeadlineLayer::new(timeout))
    }

    /// Lets a gate decide which requests run, which wait and which are refused.
    ///
    /// Pass an `Admission`, or an `Arc<Admission>`, which you keep to inspect it. `Admission::fixed(64)` has a fixed limit, and
    /// `Admission::new(bounds)` one that follows the latency.
    ///
    /// Requests have the class and the tenant that [`criticality`](Self::criticality) finds. For others, use `.admission_layer(ConcurrencyLayer::admission(gate).criticality(…).tenant(…))`.
    #[expect(clippy::type_complexity, reason = "a stack has a parameter for each of its places")]
    pub fn admission<G: SharedAdmission>(
        self,
        gate: G,
    ) -> ServerStack<D, K, L, AdmissionLayer<TokioSleep, G::Rule, G::Clock>, C> {
        self.admission_layer(ConcurrencyLayer::admission(gate.into_shared()).stall_limit(STALL_LIMIT))
    }
}

impl<D, K, L, A, C> ServerStack<D, K, L, A, C> {
    /// Limits the rate of each client address, which is the address of the [peer](crate::Head::peer).
    ///
    /// Requests without that address get a 500, and only logs (feature `tracing`) give the reason. For axum:
    /// `app.into_make_service_with_connect_info::<SocketAddr>()`.
    pub fn limit_per_client(self, quota: Quota) -> ServerStack<D, RateLimitLayer<PerClient>, L, A, C> {
        self.client_limit_layer(named(RateLimitLayer::per_client(quota), "client"))
    }

    /// Limits the rate of all clients together.
    pub fn limit(self, quota: Quota) -> ServerStack<D, K, RateLimitLayer<Arc<RateLimiter>>, A, C> {
        self.limit_layer(named(RateLimitLayer::global(quota), "server"))
    }

    /// Limits the requests in flight, until their responses have ended.
    ///
    /// A request over the limit is refused at once.
    ///
    /// To wait for a slot: `.admission_layer(ConcurrencyLayer::bulkhead(64).waiting(longest))`.
    pub fn bulkhead(self, limit: u32) -> ServerStack<D, K, L, ConcurrencyLayer<Arc<Bulkhead>>, C> {
        self.admission_layer(watched(ConcurrencyLayer::bulkhead(limit)))
    }

    /// Limits the requests in flight by a limit within these bounds that follows the latency.
    ///
    /// Apart from that it does the same as [`bulkhead`](Self::bulkhead). The latency is that of the responses.
    pub fn adaptive(self, bounds: LimitBounds) -> ServerStack<D, K, L, ConcurrencyLayer<Arc<AdaptiveLimit>>, C> {
        self.admission_layer(watched(ConcurrencyLayer::adaptive(bounds)))
    }

    /// Gives each request a class and a tenant, which only trusted callers choose.
    ///
    /// [`admission`](#method.admission) decides by them, and a [`ClientStack`](crate::ClientStack) passes them on.
    pub fn criticality(self, layer: CriticalityLayer) -> ServerStack<D, K, L, A, CriticalityLayer> {
        self.criticality_layer(layer)
    }

    /// Sets the layer of classes and tenants, for example one of your own.
    pub fn criticality_layer<N>(self, layer: N) -> ServerStack<D, K, L, A, N> {
        let Parts { deadline, client_limit, limit, admission, .. } = self.0;
        ServerStack(Parts { criticality: layer, deadline, client_limit, limit, admission })
    }

    /// Sets the layer of deadlines, for example a [`DeadlineLayer`] that reads a header.
    pub fn deadline_layer<N>(self, layer: N) -> ServerStack<N, K, L, A, C> {
        let Parts { criticality, client_limit, limit, admission, .. } = self.0;
        ServerStack(Parts { criticality, deadline: layer, client_limit, limit, admission })
    }

    /// Sets the layer of the limit for each client.
    ///
    /// For example, pass a [`RateLimitLayer`] behind proxies, by a header, or with other settings.
    pub fn client_limit_layer<N>(self, layer: N) -> ServerStack<D, N, L, A, C> {
        let Parts { criticality, deadline, limit, admission, .. } = self.0;
        ServerStack(Parts { criticality, deadline, client_limit: layer, limit, admission })
    }

    /// Sets the layer of the limit for all clients together.
    pub fn limit_layer<N>(self, layer: N) -> ServerStack<D, K, N, A, C> {
        let Parts { criticality, deadline, client_limit, admission, .. } = self.0;
        ServerStack(Parts { criticality, deadline, client_limit, limit: layer, admission })
    }

    /// Sets the layer that decides which requests may run at once.
    ///
    /// Pass an admission gate, a bulkhead or an adaptive limit.
    pub fn admission_layer<N>(self, layer: N) -> ServerStack<D, K, L, N, C> {
        let Parts { criticality, deadline, client_limit, limit, .. } = self.0;
        ServerStack(Parts { criticality, deadline, client_limit, limit, admission: layer })
    }

    /// Returns the same stack for the connection of this peer.
    ///
    /// Use it for servers that do not put the address into the request, such as hyper's. Clones share the limits.
    pub fn for_peer(&self, address: SocketAddr) -> Self
    where
        C: PeerLimit,
        D: Clone,
        K: PeerLimit,
        L: PeerLimit,
        A: Clone,
    {
        let Parts { criticality, deadline, client_limit, limit, admission } = &self.0;
        Self(Parts {
            criticality: criticality.for_peer(address),
            deadline: deadline.clone(),
            client_limit: client_limit.for_peer(address),
            limit: limit.for_peer(address),
            admission: admission.clone(),
        })
    }

    /// Returns what would happen to a request of this head now, and changes nothing.
    ///
    /// Each part says what it would do: pass, wait, mark or refuse, with the wait and the standing of its quota. Nothing is taken, counted,
    /// logged or written, so any number of explanations changes no later decision. It says the truth as long as nothing else happens meanwhile.
    ///
    /// Parts of your own take part with [`Explain`]. A limit that decides elsewhere, as one on Redis does, says that it does not know. A client's
    /// stack has [the same](crate::ClientStack::explain).
    /// Whoever may ask learns how much of its quota a client has left, so do not offer it to the world.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
    /// use damper::Quota;
    /// use damper::http::{Head, server_stack};
    /// use http::Request;
    ///
    /// let stack = server_stack().limit(Quota::per_second(10)).bulkhead(0);
    /// let request = Request::get("/search").body(())?;
    /// let explanation = stack.explain(&Head::of(&request));
    /// assert_eq!(
    ///     explanation.to_string(),
    ///     "limit \"server\": passes (10 left of 10/s burst 10)\n\
    ///      admission: refuses: too many calls in flight, limit 0\n\
    ///      refused by the admission"
    /// );
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn explain(&self, head: &Head<'_>) -> Explanation
    where
        C: Explain,
        D: Explain,
        K: Explain,
        L: Explain,
        A: Explain,
    {
        let Parts { criticality, deadline, client_limit, limit, admission } = &self.0;
        let parts: [(&dyn Explain, _); 5] = [
            (criticality, "class"),
            (deadline, "deadline"),
            (client_limit, "client limit"),
            (limit, "limit"),
            (admission, "admission"),
        ];
        Explanation::of(head, &parts)
    }

    /// Puts the stack around a handler.
    pub fn service<S>(&self, handler: S) -> <Self as Layer<S>>::Service
    where
        Self: Layer<S>,
    {
        self.layer(handler)
    }
}

/// An admission gate that services share: an `Admission`, or an `Arc<Admission>`.
#[cfg(feature = "tokio")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an admission gate",
    note = "`admission` takes a gate: `Admission::fixed(64)`, `Admission::new(bounds)`, or either in an `Arc`",
    note = "an `AdmissionLayer` goes into `admission_layer`"
)]
pub trait SharedAdmission {
    /// The rule that sets its limit.
    type Rule: LimitRule;

    /// Its clock.
    type Clock: Clock;

    /// Returns the gate.
    #[doc(hidden)]
    fn into_shared(self) -> Arc<Admission<Self::Rule, Self::Clock>>;
}

#[cfg(feature = "tokio")]
impl<R: LimitRule, C: Clock> SharedAdmission for Admission<R, C> {
    type Rule = R;
    type Clock = C;

    fn into_shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}

#[cfg(feature = "tokio")]
impl<R: LimitRule, C: Clock> SharedAdmission for Arc<Admission<R, C>> {
    type Rule = R;
    type Clock = C;

    fn into_shared(self) -> Self {
        self
    }
}

/// Sets the stall limit, where there is a timer.
fn watched<L: Gate>(layer: ConcurrencyLayer<L>) -> ConcurrencyLayer<L> {
    #[cfg(feature = "tokio")]
    let layer = layer.stall_limit(STALL_LIMIT);
    layer
}

/// Gives a limit its name in metrics, logs and headers. The names used here are valid.
fn named<L: Limit + Clone>(layer: RateLimitLayer<L>, name: &str) -> RateLimitLayer<L> {
    layer.clone().named(name).unwrap_or(layer)
}

/// A part that can be given the address of a connection's peer.
///
/// It is a [`RateLimitLayer`], a [`MarkingLayer`], a [`CriticalityLayer`], or none.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be told the peer of a connection",
    note = "put `damper::http::PeerAddress` into the extensions of requests instead"
)]
pub trait PeerLimit {
    /// Returns the part for the requests of one connection.
    #[doc(hidden)]
    #[must_use]
    fn for_peer(&self, address: SocketAddr) -> Self;
}

impl PeerLimit for NoPart {
    fn for_peer(&self, _: SocketAddr) -> Self {
        Self
    }
}

impl PeerLimit for CriticalityLayer {
    fn for_peer(&self, address: SocketAddr) -> Self {
        self.for_peer(address)
    }
}

impl<L: PeerLimit> PeerLimit for OptionalRewrite<L> {
    fn for_peer(&self, address: SocketAddr) -> Self {
        Self::from(self.get().map(|layer| layer.for_peer(address)))
    }
}

impl<L> PeerLimit for MarkingLayer<L> {
    fn for_peer(&self, address: SocketAddr) -> Self {
        self.for_peer(address)
    }
}

impl<L> PeerLimit for RateLimitLayer<L> {
    fn for_peer(&self, address: SocketAddr) -> Self {
        self.for_peer(address)
    }
}

impl<S, D, K, L, A, C> Layer<S> for ServerStack<D, K, L, A, C>
where
    A: Layer<S>,
    L: Layer<A::Service>,
    K: Layer<L::Service>,
    D: Layer<K::Service>,
    C: Layer<D::Service>,
{
    type Service = C::Service;

    fn layer(&self, handler: S) -> C::Service {
        let Parts { criticality, deadline, client_limit, limit, admission } = &self.0;
        criticality.layer(deadline.layer(client_limit.layer(limit.layer(admission.layer(handler)))))
    }
}
