//! What is before the body: of a request, and of an answer.

use super::peer;
use core::net::{IpAddr, SocketAddr};
use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode, Uri, Version, request};

/// A request without its body: what limits and breakers decide on, and what closures of yours are shown.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The target: a server mostly sees a path and a query.
    pub uri: &'a Uri,
    /// The version of HTTP.
    pub version: Version,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// What others added to the request.
    pub extensions: &'a Extensions,
    /// The address that the layer was told.
    peer: Option<&'a SocketAddr>,
}

impl<'a> Head<'a> {
    /// The head of a request.
    #[inline]
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            headers: request.headers(),
            extensions: request.extensions(),
            peer: None,
        }
    }

    /// The same head, from a peer that is known otherwise.
    #[inline]
    #[must_use]
    pub(super) fn told(self, peer: Option<&'a SocketAddr>) -> Self {
        Self { peer, ..self }
    }

    /// The other end of the connection: what the layer was [told](super::RateLimitLayer::for_peer), or else the
    /// [`PeerAddress`](super::PeerAddress) among the extensions, or else (with the feature `axum`) axum's
    /// `ConnectInfo<SocketAddr>` or (with the feature `tonic`) what tonic's server tells of a connection.
    #[must_use]
    #[inline]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer_as(|&address| address)
    }

    /// As [`peer`](Self::peer), its address without the port.
    #[inline]
    pub(super) fn peer_ip(&self) -> Option<IpAddr> {
        self.peer_as(SocketAddr::ip)
    }

    #[inline]
    fn peer_as<T>(&self, of: impl Fn(&SocketAddr) -> T) -> Option<T> {
        match self.peer {
            Some(told) => Some(of(told)),
            None => peer::among(self.extensions, of),
        }
    }
}

impl<'a> From<&'a request::Parts> for Head<'a> {
    fn from(parts: &'a request::Parts) -> Self {
        let request::Parts { method, uri, version, headers, extensions, .. } = parts;
        Self { method, uri, version: *version, headers, extensions, peer: None }
    }
}

/// An answer without its body: what [`Classify`](super::Classify) judges.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: StatusCode,
    /// The version of HTTP.
    pub version: Version,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// What others added to the answer.
    pub extensions: &'a Extensions,
}

impl<'a> ResponseHead<'a> {
    /// The head of an answer.
    pub fn of<B>(response: &'a Response<B>) -> Self {
        Self {
            status: response.status(),
            version: response.version(),
            headers: response.headers(),
            extensions: response.extensions(),
        }
    }
}
