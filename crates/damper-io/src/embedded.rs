//! `Read` and `Write` of `embedded-io` and of `embedded-io-async`.

use crate::{BytePacer, PacedIo};
use core::future::Ready;
use damper_core::TokenBucket;
use damper_core::limit::LimiterRef;
use damper_core::time::Sleep;
use embedded_io::ErrorType;

#[cfg(feature = "embedded-io")]
impl<T: ErrorType, P, S: Sleep> ErrorType for PacedIo<T, P, S> {
    type Error = T::Error;
}

#[cfg(feature = "embedded-io")]
impl<T, L, S, const N: usize> embedded_io::Read for PacedIo<T, BytePacer<L, N>, S>
where
    T: embedded_io::Read,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep<Sleeping = Ready<()>>,
{
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, T::Error> {
        self.reads.blocking_io(&self.sleep, buf.len(), |bytes| self.io.read(&mut buf[..bytes]))
    }
}

#[cfg(feature = "embedded-io")]
impl<T, L, S, const N: usize> embedded_io::Write for PacedIo<T, BytePacer<L, N>, S>
where
    T: embedded_io::Write,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep<Sleeping = Ready<()>>,
{
    fn write(&mut self, buf: &[u8]) -> Result<usize, T::Error> {
        self.writes.blocking_io(&self.sleep, buf.len(), |bytes| self.io.write(&buf[..bytes]))
    }

    fn flush(&mut self) -> Result<(), T::Error> {
        self.io.flush()
    }
}

#[cfg(feature = "embedded-io")]
impl<T, L, S, const N: usize> embedded_io_async::Read for PacedIo<T, BytePacer<L, N>, S>
where
    T: embedded_io_async::Read,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep,
{
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, T::Error> {
        self.reads.io(&self.sleep, buf.len(), async |bytes| self.io.read(&mut buf[..bytes]).await).await
    }
}

#[cfg(feature = "embedded-io")]
impl<T, L, S, const N: usize> embedded_io_async::Write for PacedIo<T, BytePacer<L, N>, S>
where
    T: embedded_io_async::Write,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep,
{
    async fn write(&mut self, buf: &[u8]) -> Result<usize, T::Error> {
        self.writes.io(&self.sleep, buf.len(), async |bytes| self.io.write(&buf[..bytes]).await).await
    }

    async fn flush(&mut self) -> Result<(), T::Error> {
        self.io.flush().await
    }
}
