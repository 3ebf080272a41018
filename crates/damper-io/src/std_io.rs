//! `Read` and `Write` of `std::io`.

use crate::{BlockingSleep, Pace, PacedReader, PacedWriter};
use core::time::Duration;
use damper_core::TokenBucket;
use damper_core::limit::LimiterRef;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};

#[cfg(feature = "std")]
impl<T, L, F, const N: usize> Read for PacedReader<T, Pace<L, BlockingSleep<F>, N>>
where
    T: Read,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    F: Fn(Duration),
{
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return self.io.read(buf);
        }
        let allowed = self.pace.blocking_turn(buf.len());
        let read = self.io.read(&mut buf[..allowed]);
        self.pace.report(allowed, read)
    }
}

#[cfg(feature = "std")]
impl<T, L, F, const N: usize> Write for PacedReader<T, Pace<L, BlockingSleep<F>, N>>
where
    T: Write,
    L: LimiterRef<Algorithm = TokenBucket>,
    F: Fn(Duration),
{
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.io.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.io.flush()
    }
}

#[cfg(feature = "std")]
impl<T, L, F, const N: usize> Write for PacedWriter<T, Pace<L, BlockingSleep<F>, N>>
where
    T: Write,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    F: Fn(Duration),
{
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return self.io.write(buf);
        }
        let allowed = self.pace.blocking_turn(buf.len());
        let written = self.io.write(&buf[..allowed]);
        self.pace.report(allowed, written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.io.flush()
    }
}

#[cfg(feature = "std")]
impl<T, L, F, const N: usize> Read for PacedWriter<T, Pace<L, BlockingSleep<F>, N>>
where
    T: Read,
    L: LimiterRef<Algorithm = TokenBucket>,
    F: Fn(Duration),
{
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.io.read_vectored(bufs)
    }
}
