//! The methods of `AsyncWrite` that tokio and the crate `futures` have in common.

/// Implements the methods of `AsyncWrite` for `PacedIo`, of which `$close` closes.
macro_rules! async_write {
    ($close:ident) => {
        fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            let this = self.project();
            this.writes
                .poll_io(this.sleep, context, buf.len(), |context, bytes| this.io.poll_write(context, &buf[..bytes]))
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

        fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.project().io.poll_flush(context)
        }

        fn $close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            let this = self.project();
            this.writes.pause();
            this.io.$close(context)
        }
    };
}

pub(crate) use async_write;
