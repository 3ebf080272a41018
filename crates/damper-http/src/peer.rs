//! The address of the peer of a request's connection.

use core::fmt;
use core::net::SocketAddr;

/// The address of a connection's peer, as an extension of its requests.
///
/// Servers that pass the address in no other way can set it.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::{Head, PeerAddress};
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(PeerAddress(([192, 0, 2, 7], 5_000).into()));
/// assert_eq!(Head::of(&request).peer(), Some(([192, 0, 2, 7], 5_000).into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddress(pub SocketAddr);

/// The error of a limit per client address on a request without a peer address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MissingPeer;

impl fmt::Display for MissingPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a limit per client address, and the request does not tell its peer's: with axum, serve \
             into_make_service_with_connect_info::<SocketAddr>() (and have damper's feature axum); with hyper, make \
             the service with for_peer(address); with tonic, serve TCP and add damper::tonic::PeerLayer outside; else, add \
             damper::http::PeerAddress to the request's extensions",
        )
    }
}

damper_core::internal::debug_by_display!(MissingPeer);

impl core::error::Error for MissingPeer {}
