//! Where tonic's server tells the address of a peer.

use core::net::SocketAddr;
use http::Extensions;
use tonic::transport::server::TcpConnectInfo;

/// The address that tonic's server added to a request.
pub(crate) fn peer(extensions: &Extensions) -> Option<SocketAddr> {
    if let Some(connection) = extensions.get::<TcpConnectInfo>() {
        return connection.remote_addr();
    }
    #[cfg(feature = "tonic-tls")]
    if let Some(connection) = extensions.get::<tonic::transport::server::TlsConnectInfo<TcpConnectInfo>>() {
        return connection.get_ref().remote_addr();
    }
    None
}
