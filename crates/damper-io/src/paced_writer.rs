//! Writers whose bytes wait for a limit.

use crate::{BytePacer, Pace};
use core::fmt;
use damper_core::TokenBucket;
use damper_core::limit::LimiterRef;
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use pin_project_lite::pin_project;

pin_project! {
    /// A writer that passes bytes on no faster than a limit.
    ///
    /// It asks for bytes of the limit first, and writes at most as many as it got. So a write may take less of the buffer, as writers may.
    /// Flushing and closing never wait. If the inner type reads too, so does this one, without a limit.
    ///
    /// An empty buffer costs nothing and does not wait. The timer is allocated at the first wait, and never again.
    ///
    /// # Cancel safety
    ///
    /// A write that is cancelled has moved no bytes, and keeps its place in the line for the next one.
    ///
    /// # Panics
    ///
    /// With [`TokioSleep`](damper_core::time::TokioSleep) a write that has to wait panics outside of a tokio runtime with an enabled timer.
    pub struct PacedWriter<T, P> {
        #[pin]
        pub(crate) io: T,
        pub(crate) pace: P,
    }
}

#[cfg(feature = "tokio")]
impl<T, L: LimiterRef<Algorithm = TokenBucket>, const N: usize> PacedWriter<T, Pace<L, TokioSleep, N>> {
    /// Paces a writer by tokio's timer.
    #[must_use]
    pub const fn new(io: T, pacer: BytePacer<L, N>) -> Self {
        Self::sleeping_by(io, pacer, TokioSleep)
    }
}

impl<T, L: LimiterRef<Algorithm = TokenBucket>, S: Sleep, const N: usize> PacedWriter<T, Pace<L, S, N>> {
    /// Paces a writer that sleeps by `sleep`.
    #[must_use]
    pub const fn sleeping_by(io: T, pacer: BytePacer<L, N>, sleep: S) -> Self {
        Self { io, pace: Pace::new(pacer, sleep) }
    }

    /// Returns the pacer.
    pub const fn pacer(&self) -> &BytePacer<L, N> {
        self.pace.pacer()
    }

    /// Returns the inner writer.
    pub const fn get_ref(&self) -> &T {
        &self.io
    }

    /// Returns the inner writer. Bytes that are moved by it directly are not paced.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.io
    }

    /// Returns the inner writer, and gives back what was taken for it and not moved.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.io
    }
}

impl<T: fmt::Debug, P: fmt::Debug> fmt::Debug for PacedWriter<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedWriter").field("io", &self.io).field("pacer", &self.pace).finish()
    }
}

/// Returns the first buffers that hold at most `allowed` bytes together, and their bytes.
///
/// The error is the part of the first buffer with bytes that is allowed, if the whole of it is not.
#[cfg(any(feature = "futures-io", feature = "tokio"))]
pub(crate) fn first_bytes<'a>(
    bufs: &'a [std::io::IoSlice<'a>],
    allowed: usize,
) -> Result<(&'a [std::io::IoSlice<'a>], usize), &'a [u8]> {
    let mut offered: usize = 0;
    for (place, buf) in bufs.iter().enumerate() {
        match offered.checked_add(buf.len()).filter(|&sum| sum <= allowed) {
            Some(sum) => offered = sum,
            None if offered == 0 => return Err(&buf[..allowed]),
            None => return Ok((&bufs[..place], offered)),
        }
    }
    Ok((bufs, offered))
}
