//! `Read` and `Write` of `embedded-io` and of `embedded-io-async`.

use crate::{BlockingSleep, Pace, PacedReader, PacedWriter};
use core::time::Duration;
use damper_core::TokenBucket;
use damper_core::limit::LimiterRef;
use damper_core::time::Sleep;
use embedded_io::ErrorType;

#[cfg(feature = "embedded-io")]
impl<T: ErrorType, L: LimiterRef<Algorithm = TokenBucket>, S: Sleep, const N: usize> ErrorType
    for PacedReader<T, Pace<L, S, N>>
{
    type Error = T::Error;
}

#[cfg(feature = "embedded-io")]
impl<T: ErrorType, L: LimiterRef<Algorithm = TokenBucket>, S: Sleep, const N: usize> ErrorType
    for PacedWriter<T, Pace<L, S, N>>
{
    type Error = T::Error;
}

#[cfg(feature = "embedded-io")]
impl<T, L, F, const N: usize> embedded_io::Read for PacedReader<T, Pace<L, BlockingSleep<F>, N>>
where
    T: embedded_io::Read,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    F: Fn(Duration),
{
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, T::Error> {
        if buf.is_empty() {
            return self.io.read(buf);
        }
        let allowed = self.pace.blocking_turn(buf.len());
        let read = self.io.read(&mut buf[..allowed]);
        self.pace.report(allowed, read)
    }
}

#[cfg(feature = "embedded-io")]
impl<T, L, F, const N: usize> embedded_io::Write for PacedReader<T, Pace<L, BlockingSleep<F>, N>>
where
    T: embedded_io::Write,
    L: LimiterRef<Algorithm = TokenBucket>,
    F: Fn(Duration),
{
    fn write(&mut self, buf: &[u8]) -> Result<usize, T::Error> {
        self.io.write(buf)
    }

    fn flush(&mut self) -> Result<(), T::Error> {
        self.io.flush()
    }
}

#[cfg(feature = "embedded-io")]
impl<T, L, F, const N: usize> embedded_io::Write for PacedWriter<T, Pace<L, BlockingSleep<F>, N>>
where
    T: embedded_io::Write,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    F: Fn(Duration),
{
    fn write(&mut self, buf: &[u8]) -> Result<usize, T::Error> {
        if buf.is_empty() {
            return self.io.write(buf);
        }
        let allowed = self.pace.blocking_turn(buf.len());
        let written = self.io.write(&buf[..allowed]);
        self.pace.report(allowed, written)
    }

    fn flush(&mut self) -> Result<(), T::Error> {
        self.io.flush()
    }
}

#[cfg(feature = "embedded-io")]
impl<T, L, F, const N: usize> embedded_io::Read for PacedWriter<T, Pace<L, BlockingSleep<F>, N>>
where
    T: embedded_io::Read,
    L: LimiterRef<Algorithm = TokenBucket>,
    F: Fn(Duration),
{
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, T::Error> {
        self.io.read(buf)
    }
}

#[cfg(feature = "embedded-io")]
impl<T, L, S, const N: usize> embedded_io_async::Read for PacedReader<T, Pace<L, S, N>>
where
    T: embedded_io_async::Read,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep,
{
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, T::Error> {
        if buf.is_empty() {
            return self.io.read(buf).await;
        }
        let allowed = self.pace.turn(buf.len()).await;
        let read = self.io.read(&mut buf[..allowed]).await;
        self.pace.report(allowed, read)
    }
}

#[cfg(feature = "embedded-io")]
impl<T, L, S, const N: usize> embedded_io_async::Write for PacedReader<T, Pace<L, S, N>>
where
    T: embedded_io_async::Write,
    L: LimiterRef<Algorithm = TokenBucket>,
    S: Sleep,
{
    async fn write(&mut self, buf: &[u8]) -> Result<usize, T::Error> {
        self.io.write(buf).await
    }

    async fn flush(&mut self) -> Result<(), T::Error> {
        self.io.flush().await
    }
}

#[cfg(feature = "embedded-io")]
impl<T, L, S, const N: usize> embedded_io_async::Write for PacedWriter<T, Pace<L, S, N>>
where
    T: embedded_io_async::Write,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep,
{
    async fn write(&mut self, buf: &[u8]) -> Result<usize, T::Error> {
        if buf.is_empty() {
            return self.io.write(buf).await;
        }
        let allowed = self.pace.turn(buf.len()).await;
        let written = self.io.write(&buf[..allowed]).await;
        self.pace.report(allowed, written)
    }

    async fn flush(&mut self) -> Result<(), T::Error> {
        self.io.flush().await
    }
}

#[cfg(feature = "embedded-io")]
impl<T, L, S, const N: usize> embedded_io_async::Read for PacedWriter<T, Pace<L, S, N>>
where
    T: embedded_io_async::Read,
    L: LimiterRef<Algorithm = TokenBucket>,
    S: Sleep,
{
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, T::Error> {
        self.io.read(buf).await
    }
}
