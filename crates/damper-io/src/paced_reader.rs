//! Readers whose bytes wait for a limit.

use crate::{BytePacer, Pace};
use core::fmt;
use damper_core::TokenBucket;
use damper_core::limit::LimiterRef;
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use pin_project_lite::pin_project;

pin_project! {
    /// A reader whose bytes come no faster than a limit.
    ///
    /// It asks for bytes of the limit first, and reads at most as many as it got. Bytes that the reader did not have are given back. While it
    /// waits it reads nothing: the buffers of a connection fill, and TCP slows the peer down. So the end of a stream and errors also come after
    /// the wait. If the inner type writes too, so does this one, without a limit.
    ///
    /// A reader that blocks, or one of `embedded-io-async`, keeps its chunk while it waits for data. A reader that is polled gives the chunk
    /// back as soon as there is no data.
    ///
    /// An empty buffer costs nothing and does not wait. The timer is allocated at the first wait, and never again.
    ///
    /// # Cancel safety
    ///
    /// A read that is cancelled has moved no bytes, and keeps its place in the line for the next one.
    ///
    /// # Panics
    ///
    /// With [`TokioSleep`](damper_core::time::TokioSleep) a read that has to wait panics outside of a tokio runtime with an enabled timer.
    pub struct PacedReader<T, P> {
        #[pin]
        pub(crate) io: T,
        pub(crate) pace: P,
    }
}

#[cfg(feature = "tokio")]
impl<T, L: LimiterRef<Algorithm = TokenBucket>, const N: usize> PacedReader<T, Pace<L, TokioSleep, N>> {
    /// Paces a reader by tokio's timer.
    #[must_use]
    pub const fn new(io: T, pacer: BytePacer<L, N>) -> Self {
        Self::sleeping_by(io, pacer, TokioSleep)
    }
}

impl<T, L: LimiterRef<Algorithm = TokenBucket>, S: Sleep, const N: usize> PacedReader<T, Pace<L, S, N>> {
    /// Paces a reader that sleeps by `sleep`.
    #[must_use]
    pub const fn sleeping_by(io: T, pacer: BytePacer<L, N>, sleep: S) -> Self {
        Self { io, pace: Pace::new(pacer, sleep) }
    }

    /// Returns the pacer.
    pub const fn pacer(&self) -> &BytePacer<L, N> {
        self.pace.pacer()
    }

    /// Returns the inner reader.
    pub const fn get_ref(&self) -> &T {
        &self.io
    }

    /// Returns the inner reader. Bytes that are moved by it directly are not paced.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.io
    }

    /// Returns the inner reader, and gives back what was taken for it and not moved.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.io
    }
}

impl<T: fmt::Debug, P: fmt::Debug> fmt::Debug for PacedReader<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedReader").field("io", &self.io).field("pacer", &self.pace).finish()
    }
}
