//! The address of the peer of a request's connection.

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
