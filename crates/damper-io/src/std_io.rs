//! `Read` and `Write` of `std::io`.

use crate::first_bytes::{first_bytes, len_of, no_buffers};
use crate::{BytePacer, PacedIo};
use core::future::Ready;
use damper_core::TokenBucket;
use damper_core::limit::LimiterRef;
use damper_core::time::Sleep;
use std::io::{self, IoSlice, Read, Write};

#[cfg(feature = "std")]
impl<T, L, S, const N: usize> Read for PacedIo<T, BytePacer<L, N>, S>
where
    T: Read,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep<Sleeping = Ready<()>>,
{
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reads.blocking_io(&self.sleep, buf.len(), |bytes| self.io.read(&mut buf[..bytes]))
    }
}

#[cfg(feature = "std")]
impl<T, L, S, const N: usize> Write for PacedIo<T, BytePacer<L, N>, S>
where
    T: Write,
    L: LimiterRef<Algorithm = TokenBucket> + Clone,
    S: Sleep<Sleeping = Ready<()>>,
{
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.writes.blocking_io(&self.sleep, buf.len(), |bytes| self.io.write(&buf[..bytes]))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.writes.blocking_io(&self.sleep, len_of(bufs), |bytes| {
            self.io.write_vectored(first_bytes(bufs, bytes, &mut no_buffers()))
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.io.flush()
    }
}
