//! As much of HTTP as the clients of the check need, over a socket whose every byte they time.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// A connection to one of the workers.
pub(crate) struct Connection(TcpStream);

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// The process that answered.
    pub(crate) worker: u32,
}

impl Connection {
    /// Connects from an address of the loopback network.
    pub(crate) async fn open(from: Ipv4Addr, to: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // Addresses of connections that ended a moment ago.
        socket.set_reuseaddr(true)?;
        socket.bind((from, 0).into())?;
        let stream = socket.connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Makes a request without a body, and returns the head of its response, which has none either.
    pub(crate) async fn request(&mut self, method_and_path: &str) -> io::Result<Head> {
        self.send(&format!("{method_and_path} HTTP/1.1\r\nhost: prefork\r\ncontent-length: 0\r\n\r\n")).await?;
        self.head().await
    }

    /// Sends the head of a request with one byte of a body, which [`end`](Self::end) sends later.
    pub(crate) async fn begin(&mut self, method_and_path: &str) -> io::Result<Head> {
        self.send(&format!("{method_and_path} HTTP/1.1\r\nhost: prefork\r\ncontent-length: 1\r\n\r\n")).await?;
        self.head().await
    }

    /// Ends a request, and waits for the end of its response in chunks.
    pub(crate) async fn end(&mut self) -> io::Result<()> {
        self.send("x").await?;
        self.until(b"0\r\n\r\n").await.map(|_| ())
    }

    async fn send(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(text.as_bytes()).await
    }

    async fn head(&mut self) -> io::Result<Head> {
        let head = self.until(b"\r\n\r\n").await?;
        let text = String::from_utf8_lossy(&head);
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let worker = text.lines().find_map(|line| line.strip_prefix("x-worker: ")?.parse().ok());
        match (status, worker) {
            (Some(status), Some(worker)) => Ok(Head { status, worker }),
            _ => Err(io::Error::other(format!("not a response of a worker: {text}"))),
        }
    }

    /// Reads until these bytes; the server sends nothing after them before the next request.
    async fn until(&mut self, last: &[u8]) -> io::Result<Vec<u8>> {
        let mut read = Vec::with_capacity(256);
        while !read.ends_with(last) {
            if self.0.read_buf(&mut read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(read)
    }
}
