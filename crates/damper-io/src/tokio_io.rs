//! `AsyncRead` and `AsyncWrite` of tokio.

use crate::first_bytes::{first_bytes, len_of, no_buffers};
use crate::{BytePacer, PacedIo};
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::TokenBucket;
use damper_core::limit::LimiterRef;
use damper_core::time::Sleep;
use std::io::{self, IoSlice};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(feature = "tokio")]
impl<T, L, S, const N: usize> AsyncRead for PacedIo<T, BytePacer<L, N>, S>
where
    T: AsyncRead,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep,
{
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let (before, wanted) = (buf.filled().len(), buf.remaining());
        let done = this.reads.poll_io(this.sleep, context, wanted, |context, bytes| {
            if bytes == wanted {
                return this.io.poll_read(context, buf).map_ok(|()| buf.filled().len().saturating_sub(before));
            }
            // Only the part that may be read is initialized. It is already, but for buffers that are not.
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(bytes));
            let done = this.io.poll_read(context, &mut part);
            let read = part.filled().len();
            done.map_ok(|()| {
                buf.advance(read);
                read
            })
        });
        done.map_ok(drop)
    }
}

#[cfg(feature = "tokio")]
impl<T, L, S, const N: usize> AsyncWrite for PacedIo<T, BytePacer<L, N>, S>
where
    T: AsyncWrite,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep,
{
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.writes.poll_io(this.sleep, context, buf.len(), |context, bytes| this.io.poll_write(context, &buf[..bytes]))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.writes.poll_io(this.sleep, context, len_of(bufs), |context, bytes| {
            this.io.poll_write_vectored(context, first_bytes(bufs, bytes, &mut no_buffers()))
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        this.writes.pause();
        this.io.poll_shutdown(context)
    }
}
