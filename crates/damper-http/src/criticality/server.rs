//! The server's layer of classes: decides whose class and tenant to believe.

use super::{CallClass, ClassHeaders};
use crate::Head;
use crate::rewrite::{Rewrite, RewriteService};
use crate::wire::{self, TrustedProxies};
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;
use damper_core::concurrency::Criticality;
use http::{HeaderMap, Request};

/// Gives each request of a server its class and tenant, which only trusted callers can choose.
///
/// The layer puts a [`CallClass`] into the extensions of every request, where an [`AdmissionLayer`](crate::AdmissionLayer) inside finds it
/// without a setting of its own. A handler takes it by axum's `Extension<CallClass>` or tonic's `request.extensions()`, and passes it on by a
/// [`ClientCriticalityLayer`](crate::ClientCriticalityLayer).
///
/// | the caller | class | tenant | headers |
/// |---|---|---|---|
/// | is trusted, and names a valid class | the one it names | the one it names | stay |
/// | is trusted, and names none, or one that is not valid | the [default](Self::default_class) | the one it names | a header that is not valid is removed |
/// | is not trusted | the default | none | removed |
///
/// So behind the layer the headers are true: limits may use them as keys, such as
/// [`RateLimitLayer::by_header`](crate::RateLimitLayer::by_header), and what forwards a request forwards no claim from outside. A header with
/// two lines is not valid, because the second one may have been added to the first.
///
/// **Trust.** A caller is trusted if its [peer address](Head::peer) is in [these networks](Self::trusting), or if
/// [a predicate](Self::trusting_if) says so. By default no caller is, and a request without a peer address is in no network. The caller
/// is the peer of the connection. A trusted proxy at the edge must therefore set or remove the headers itself, as this layer does.
///
/// Put it outside of all limits. [`server_stack`](crate::server_stack) does.
///
/// # Examples
///
/// With axum:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(all(feature = "axum", feature = "tokio"))] {
/// use axum::http::HeaderName;
/// use axum::{Extension, Router, routing::get};
/// use damper::concurrency::{Admission, Criticality, LimitBounds};
/// use damper::http::{CallClass, ClassHeaders, CriticalityLayer, server_stack};
/// use damper::wire::TrustedProxies;
///
/// async fn page(Extension(class): Extension<CallClass>) -> String {
///     format!("{} of {}", class.criticality(), class.tenant_name().unwrap_or("no tenant"))
/// }
///
/// let headers = ClassHeaders::new(HeaderName::from_static("x-criticality")).tenant(HeaderName::from_static("x-tenant"));
/// let classes = CriticalityLayer::new(headers)
///     .trusting(TrustedProxies::new(["10.0.0.0/8"])?)
///     .default_class(Criticality::SheddablePlus) // of calls from outside
///     .urgency();
/// let stack = server_stack().criticality(classes).admission(Admission::new(LimitBounds::DEFAULT));
/// let app: Router = Router::new().route("/", get(page)).layer(stack);
/// # let _ = app;
/// # }
/// # Ok::<(), damper::InvalidText>(())
/// ```
#[derive(Clone)]
pub struct CriticalityLayer {
    headers: ClassHeaders,
    networks: Option<TrustedProxies>,
    predicate: Option<Predicate>,
    default_class: Criticality,
    reads_urgency: bool,
    peer: Option<SocketAddr>,
}

type Predicate = Arc<dyn Fn(&Head<'_>) -> bool + Send + Sync>;

impl CriticalityLayer {
    /// Creates a layer that trusts no caller yet.
    #[must_use]
    pub const fn new(headers: ClassHeaders) -> Self {
        Self {
            headers,
            networks: None,
            predicate: None,
            default_class: Criticality::Critical,
            reads_urgency: false,
            peer: None,
        }
    }

    /// Believes callers whose connections come from these networks. Default: none.
    ///
    /// Only the address of the peer counts, and no header of forwarding.
    #[must_use]
    pub fn trusting(self, networks: TrustedProxies) -> Self {
        Self { networks: Some(networks), ..self }
    }

    /// Believes callers for which the predicate is true, beside those in [trusted networks](Self::trusting). Default: none.
    ///
    /// Decide by what the caller cannot make up, such as the identity of its certificate in the request's extensions.
    #[must_use]
    pub fn trusting_if(self, predicate: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self { predicate: Some(Arc::new(predicate)), ..self }
    }

    /// Sets the class of requests that name none, and of all requests of callers that are not trusted.
    ///
    /// Default: [`Criticality::Critical`].
    #[must_use]
    pub const fn default_class(mut self, class: Criticality) -> Self {
        self.default_class = class;
        self
    }

    /// Reads the urgency of a request without a valid class, from `Priority` (RFC 9218). Default: off.
    ///
    /// | `u` | class |
    /// |---|---|
    /// | 0, 1 | `CriticalPlus` |
    /// | 2, 3 | `Critical` |
    /// | 4, 5 | `SheddablePlus` |
    /// | 6, 7 | `Sheddable` |
    ///
    /// The urgency of a trusted caller is believed. That of any other caller can only lower the [default](Self::default_class): a browser
    /// may say that a picture can wait, and no caller from outside can say that it cannot. The header stays, because proxies and servers of HTTP/2 and HTTP/3 use it too. A
    /// trusted proxy that passes on its clients' `Priority` has to set the header of the class.
    #[must_use]
    pub const fn urgency(mut self) -> Self {
        self.reads_urgency = true;
        self
    }

    /// Returns the same layer for the connection of this peer.
    ///
    /// Use it for servers that do not put the address into the request, such as hyper's.
    #[must_use]
    pub fn for_peer(&self, address: SocketAddr) -> Self {
        Self { peer: Some(address), ..self.clone() }
    }

    /// Gives classes to the requests of a service.
    pub fn layer<T>(&self, service: T) -> RewriteService<T, Self> {
        RewriteService::new(service, self.clone())
    }

    fn trusts(&self, head: &Head<'_>) -> bool {
        let is_in_network = |networks: &TrustedProxies| head.peer_ip().is_some_and(|peer| networks.trusts(peer));
        self.networks.as_ref().is_some_and(is_in_network)
            || self.predicate.as_ref().is_some_and(|predicate| predicate(head))
    }

    /// Returns the class of the request's urgency.
    fn class_of_urgency(&self, headers: &HeaderMap) -> Option<Criticality> {
        let urgency = self.reads_urgency.then(|| wire::urgency_in(headers)).flatten()?;
        Criticality::ALL.get(usize::from(urgency) / 2).copied()
    }
}

impl Rewrite for CriticalityLayer {
    fn rewrite<B>(&self, request: &mut Request<B>) {
        let is_trusted = self.trusts(&Head::of(request).with_peer(self.peer.as_ref()));
        let headers = request.headers_mut();
        let class = if is_trusted {
            let class = self.headers.take_class(headers).or_else(|| self.class_of_urgency(headers));
            CallClass::new(class.unwrap_or(self.default_class)).with_tenant(self.headers.take_tenant(headers))
        } else {
            self.headers.remove(headers);
            let class = CallClass::new(self.default_class);
            match self.class_of_urgency(headers) {
                Some(urgency) => class.at_most(urgency),
                None => class,
            }
        };
        request.extensions_mut().insert(class);
    }
}

impl<T> tower_layer::Layer<T> for CriticalityLayer {
    type Service = RewriteService<T, Self>;

    fn layer(&self, service: T) -> Self::Service {
        self.layer(service)
    }
}

impl fmt::Debug for CriticalityLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CriticalityLayer")
            .field("headers", &self.headers)
            .field("networks", &self.networks)
            .field("default_class", &self.default_class)
            .finish_non_exhaustive()
    }
}
