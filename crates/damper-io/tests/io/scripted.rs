//! I/O that follows a script, by the traits of tokio, `futures`, `std` and `embedded-io`.

use embedded_io::ErrorKind;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::ReadBuf;

/// I/O that follows a script, which says what each call does with the bytes that it is offered.
///
/// At its end a call moves all of them.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    script: VecDeque<Poll<io::Result<usize>>>,
    /// The bytes that each call was offered.
    pub(crate) offered: Vec<usize>,
    pub(crate) written: Vec<u8>,
    pub(crate) flushes: usize,
    pub(crate) closes: usize,
}

impl Scripted {
    pub(crate) fn new(script: impl IntoIterator<Item = Poll<io::Result<usize>>>) -> Self {
        Self { script: script.into_iter().collect(), ..Self::default() }
    }

    fn next(&mut self, offered: usize) -> Poll<io::Result<usize>> {
        self.offered.push(offered);
        self.script.pop_front().unwrap_or(Poll::Ready(Ok(offered))).map_ok(|bytes| bytes.min(offered))
    }

    fn poll_fill(&mut self, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.next(buf.len()).map_ok(|bytes| {
            buf[..bytes].fill(7);
            bytes
        })
    }

    fn poll_take(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.next(bytes.len()).map_ok(|written| {
            self.written.extend(&bytes[..written]);
            written
        })
    }

    fn poll_take_all(&mut self, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.poll_take(&bufs.iter().flat_map(|buf| buf.iter().copied()).collect::<Vec<_>>())
    }

    fn flushed(&mut self) -> Poll<io::Result<()>> {
        self.flushes += 1;
        Poll::Ready(Ok(()))
    }

    fn closed(&mut self) -> Poll<io::Result<()>> {
        self.closes += 1;
        Poll::Ready(Ok(()))
    }
}

/// The result of I/O that blocks. Where polled I/O is not ready, it would block.
fn blocking<T>(done: Poll<io::Result<T>>) -> io::Result<T> {
    match done {
        Poll::Ready(done) => done,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// Returns what [`blocking`] does, with an error of `embedded-io`.
fn of_embedded<T>(done: Poll<io::Result<T>>) -> Result<T, ErrorKind> {
    blocking(done).map_err(|_| ErrorKind::Other)
}

impl tokio::io::AsyncRead for Scripted {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.next(buf.remaining()).map_ok(|bytes| buf.put_slice(&vec![7; bytes]))
    }
}

impl tokio::io::AsyncWrite for Scripted {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_take(buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_take_all(bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushed()
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.closed()
    }
}

impl futures_util::AsyncRead for Scripted {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_fill(buf)
    }
}

impl futures_util::AsyncWrite for Scripted {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_take(buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_take_all(bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushed()
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.closed()
    }
}

impl io::Read for Scripted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        blocking(self.poll_fill(buf))
    }
}

impl io::Write for Scripted {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        blocking(self.poll_take(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        blocking(self.poll_take_all(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        blocking(self.flushed())
    }
}

impl embedded_io::ErrorType for Scripted {
    type Error = ErrorKind;
}

impl embedded_io::Read for Scripted {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, ErrorKind> {
        of_embedded(self.poll_fill(buf))
    }
}

impl embedded_io::Write for Scripted {
    fn write(&mut self, buf: &[u8]) -> Result<usize, ErrorKind> {
        of_embedded(self.poll_take(buf))
    }

    fn flush(&mut self) -> Result<(), ErrorKind> {
        of_embedded(self.flushed())
    }
}

impl embedded_io_async::Read for Scripted {
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, ErrorKind> {
        of_embedded(self.poll_fill(buf))
    }
}

impl embedded_io_async::Write for Scripted {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, ErrorKind> {
        of_embedded(self.poll_take(buf))
    }

    async fn flush(&mut self) -> Result<(), ErrorKind> {
        of_embedded(self.flushed())
    }
}
