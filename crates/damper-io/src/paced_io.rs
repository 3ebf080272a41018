//! I/O whose bytes wait for a limit.

use crate::BytePacer;
use crate::direction::Direction;
use core::fmt;
#[cfg(feature = "std")]
use core::future::{Ready, ready};
#[cfg(feature = "std")]
use core::time::Duration;
use damper_core::TokenBucket;
use damper_core::limit::LimiterRef;
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use pin_project_lite::pin_project;

pin_project! {
    /// A reader or a writer, or both, whose bytes are moved no faster than a limit.
    ///
    /// [`pace_reads`](Self::pace_reads) and [`pace_writes`](Self::pace_writes) say which direction has which limit. A direction without one
    /// passes unlimited. The two may have different limits, or share one. It implements the traits of I/O that the inner type has: those of
    /// tokio, `futures` and `embedded-io-async`, and those of `std` and `embedded-io` if its sleep blocks.
    ///
    /// It asks the limit for bytes first, and then moves at most as many as it got. So a read may fill less of the buffer and a write may take
    /// less of it, as reads and writes may. While a reader waits it reads nothing: the buffers of a connection fill, and TCP slows the peer
    /// down. So the end of a stream and errors also come after the wait.
    ///
    /// Flushing, closing and empty buffers never wait. Bytes of the limit that the inner type did not move go back at once, also when it is not
    /// ready, and when writing is shut down. I/O that blocks, or that of `embedded-io-async`, keeps its chunk while it waits for the peer.
    ///
    /// The timer of a direction is allocated at its first wait, and never again.
    ///
    /// # Cancel safety
    ///
    /// A read or a write that is cancelled while it waits for the limit has moved no bytes, and keeps its place in the line for the next one.
    /// Once the inner I/O has begun, that of `embedded-io-async` is as cancel safe as the inner type.
    ///
    /// # Panics
    ///
    /// With [`TokioSleep`](damper_core::time::TokioSleep) I/O that has to wait panics outside of a tokio runtime with an enabled timer.
    ///
    /// # Examples
    ///
    /// A stream of tokio that sends at most 1 MB/s, and receives at most 200 kB/s:
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// use damper_core::time::TokioSleep;
    /// use damper_core::{Quota, RateLimiter};
    /// use damper_io::{BytePacer, PacedIo};
    /// use std::sync::Arc;
    /// use tokio::net::TcpStream;
    ///
    /// fn pace(stream: TcpStream) -> PacedIo<TcpStream, BytePacer<Arc<RateLimiter>>, TokioSleep> {
    ///     let up = RateLimiter::new(Quota::per_second(1_000_000).burst(100_000));
    ///     let down = RateLimiter::new(Quota::per_second(200_000).burst(20_000));
    ///     PacedIo::new(stream)
    ///         .pace_writes(BytePacer::new(Arc::new(up)))
    ///         .pace_reads(BytePacer::new(Arc::new(down)))
    /// }
    /// # }
    /// ```
    pub struct PacedIo<T, P, S: Sleep> {
        #[pin]
        pub(crate) io: T,
        pub(crate) sleep: S,
        pub(crate) reads: Direction<P, S>,
        pub(crate) writes: Direction<P, S>,
    }
}

#[cfg(feature = "tokio")]
impl<T, L: LimiterRef<Algorithm = TokenBucket>, const N: usize> PacedIo<T, BytePacer<L, N>, TokioSleep> {
    /// Wraps I/O that waits by tokio's timer.
    ///
    /// Neither direction has a limit yet. The compiler knows the type once one has.
    #[must_use]
    pub const fn new(io: T) -> Self {
        Self::sleeping_by(io, TokioSleep)
    }
}

#[cfg(feature = "std")]
impl<T, L: LimiterRef<Algorithm = TokenBucket>, const N: usize> PacedIo<T, BytePacer<L, N>, fn(Duration) -> Ready<()>> {
    /// Wraps I/O of `std` that blocks its thread while it waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use damper_core::{Quota, RateLimiter};
    /// use damper_io::{BytePacer, PacedIo};
    /// use std::{fs::File, io, sync::Arc};
    ///
    /// fn back_up(file: File, remote: &mut impl io::Write) -> io::Result<u64> {
    ///     let limit = Arc::new(RateLimiter::new(Quota::per_second(5_000_000)));
    ///     io::copy(&mut PacedIo::blocking(file).pace_reads(BytePacer::new(limit)), remote)
    /// }
    /// ```
    #[must_use]
    pub fn blocking(io: T) -> Self {
        Self::sleeping_by(io, |time| {
            std::thread::sleep(time);
            ready(())
        })
    }
}

impl<T, L: LimiterRef<Algorithm = TokenBucket>, S: Sleep, const N: usize> PacedIo<T, BytePacer<L, N>, S> {
    /// Wraps I/O that waits by `sleep`.
    ///
    /// A function that blocks and then returns [`ready(())`](core::future::ready) makes I/O that blocks, for the traits of `std` and of
    /// `embedded-io`.
    #[must_use]
    pub const fn sleeping_by(io: T, sleep: S) -> Self {
        Self { io, sleep, reads: Direction::new(None), writes: Direction::new(None) }
    }

    /// Limits what is read.
    #[must_use]
    pub fn pace_reads(mut self, pacer: BytePacer<L, N>) -> Self {
        self.reads = Direction::new(Some(pacer));
        self
    }

    /// Limits what is written.
    #[must_use]
    pub fn pace_writes(mut self, pacer: BytePacer<L, N>) -> Self {
        self.writes = Direction::new(Some(pacer));
        self
    }

    /// Returns the inner I/O.
    pub const fn get_ref(&self) -> &T {
        &self.io
    }

    /// Returns the inner I/O. Bytes that are moved by it directly are not paced.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.io
    }

    /// Returns the inner I/O, and gives back what was taken for it and not moved.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.io
    }
}

impl<T: fmt::Debug, P: fmt::Debug, S: Sleep> fmt::Debug for PacedIo<T, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedIo")
            .field("io", &self.io)
            .field("reads", &self.reads)
            .field("writes", &self.writes)
            .finish_non_exhaustive()
    }
}
