//! `AsyncRead` and `AsyncWrite` of the crate `futures`.

use crate::{Pace, PacedReader, PacedWriter};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::TokenBucket;
use damper_core::limit::LimiterRef;
use damper_core::time::Sleep;
use futures_io::{AsyncRead, AsyncWrite};
use std::io::{self, IoSlice, IoSliceMut};

#[cfg(feature = "futures-io")]
impl<T, L, S, const N: usize> AsyncRead for PacedReader<T, Pace<L, S, N>>
where
    T: AsyncRead,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep,
{
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        if buf.is_empty() {
            return this.io.poll_read(context, buf);
        }
        let allowed = ready!(this.pace.poll_turn(context, buf.len()));
        let polled = this.io.poll_read(context, &mut buf[..allowed]);
        this.pace.report_polled(allowed, polled)
    }

    // `poll_read_vectored` reads into the first buffer, by `poll_read`.
}

#[cfg(feature = "futures-io")]
impl<T, L, S, const N: usize> AsyncWrite for PacedReader<T, Pace<L, S, N>>
where
    T: AsyncWrite,
    L: LimiterRef<Algorithm = TokenBucket>,
    S: Sleep,
{
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.project().io.poll_write(context, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().io.poll_write_vectored(context, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_close(context)
    }
}

#[cfg(feature = "futures-io")]
impl<T, L, S, const N: usize> AsyncWrite for PacedWriter<T, Pace<L, S, N>>
where
    T: AsyncWrite,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep,
{
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        if buf.is_empty() {
            return this.io.poll_write(context, buf);
        }
        let allowed = ready!(this.pace.poll_turn(context, buf.len()));
        let polled = this.io.poll_write(context, &buf[..allowed]);
        this.pace.report_polled(allowed, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let wanted = bufs.iter().fold(0, |sum: usize, buf| sum.saturating_add(buf.len()));
        if wanted == 0 {
            return this.io.poll_write_vectored(context, bufs);
        }
        let allowed = ready!(this.pace.poll_turn(context, wanted));
        let (offered, polled) = match crate::paced_writer::first_bytes(bufs, allowed) {
            Ok((whole, offered)) => (offered, this.io.poll_write_vectored(context, whole)),
            Err(part) => (part.len(), this.io.poll_write(context, part)),
        };
        this.pace.report_polled(offered, polled)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_close(context)
    }
}

#[cfg(feature = "futures-io")]
impl<T, L, S, const N: usize> AsyncRead for PacedWriter<T, Pace<L, S, N>>
where
    T: AsyncRead,
    L: LimiterRef<Algorithm = TokenBucket>,
    S: Sleep,
{
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.project().io.poll_read(context, buf)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().io.poll_read_vectored(context, bufs)
    }
}
