//! `AsyncRead` and `AsyncWrite` of tokio.

use crate::async_write::async_write;
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
    async_write!(poll_shutdown);

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
