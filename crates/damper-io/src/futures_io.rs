//! `AsyncRead` and `AsyncWrite` of the crate `futures`.

use crate::async_write::async_write;
use crate::first_bytes::{first_bytes, len_of, no_buffers};
use crate::{BytePacer, PacedIo};
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::TokenBucket;
use damper_core::limit::LimiterRef;
use damper_core::time::Sleep;
use futures_io::{AsyncRead, AsyncWrite};
use std::io::{self, IoSlice};

#[cfg(feature = "futures-io")]
impl<T, L, S, const N: usize> AsyncRead for PacedIo<T, BytePacer<L, N>, S>
where
    T: AsyncRead,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep,
{
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.reads
            .poll_io(this.sleep, context, buf.len(), |context, bytes| this.io.poll_read(context, &mut buf[..bytes]))
    }
}

#[cfg(feature = "futures-io")]
impl<T, L, S, const N: usize> AsyncWrite for PacedIo<T, BytePacer<L, N>, S>
where
    T: AsyncWrite,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep,
{
    async_write!(poll_close);
}
