//! One port for several processes.

use std::io;
use std::net::SocketAddr;
use tokio::net::TcpSocket;

/// Returns a socket that is bound to an address which other processes may bind too.
///
/// The kernel spreads connections over those that listen. One that only holds the socket keeps the port, and gets none.
pub(crate) fn shared(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}
