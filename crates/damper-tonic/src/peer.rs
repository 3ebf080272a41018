//! The address of a peer, as tonic's server tells it.

use core::task::{Context, Poll};
use damper_http::PeerAddress;
use http::{Extensions, Request};
use tonic::server::NamedService;
use tonic::transport::server::TcpConnectInfo;
use tower_layer::Layer;
use tower_service::Service;

/// Tells the layers inside the address that a request of tonic's server comes from.
///
/// It is for limits per client and for closures that call [`Head::peer`](damper_http::Head::peer). Put it outside of them. The server has to
/// serve TCP, with TLS or without.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub extern crate damper_tonic as tonic; }
/// use damper::Quota;
/// use damper::http::RateLimitLayer;
/// use damper::tonic::PeerLayer;
/// use tonic::transport::Server;
///
/// let each_client = RateLimitLayer::per_client(Quota::per_second(50).burst(100));
/// let server = Server::builder().layer(PeerLayer).layer(each_client);
/// # let _ = server;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerLayer;

/// A service behind a [`PeerLayer`].
#[derive(Clone, Copy, Debug)]
pub struct PeerService<S>(S);

impl PeerLayer {
    /// Tells the layers of a service the peers of its requests.
    pub fn layer<S>(&self, service: S) -> PeerService<S> {
        PeerService(service)
    }
}

impl<S> Layer<S> for PeerLayer {
    type Service = PeerService<S>;

    fn layer(&self, service: S) -> PeerService<S> {
        self.layer(service)
    }
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for PeerService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    #[inline]
    fn call(&mut self, mut request: Request<B>) -> S::Future {
        insert_peer(request.extensions_mut());
        self.0.call(request)
    }
}

impl<S: NamedService> NamedService for PeerService<S> {
    const NAME: &'static str = S::NAME;
}

/// Adds the peer of a connection to the extensions of its request, unless they have one.
pub(crate) fn insert_peer(extensions: &mut Extensions) {
    let address = extensions.get::<TcpConnectInfo>().and_then(|connection| connection.remote_addr);
    if let Some(address) = address
        && extensions.get::<PeerAddress>().is_none()
    {
        extensions.insert(PeerAddress(address));
    }
}
