//! Paces bytes: a state machine without I/O and without a timer.

use crate::chunk::most_at_once;
use core::fmt;
use core::time::Duration;
use damper_core::TokenBucket;
use damper_core::internal::reserve;
use damper_core::limit::{Denied, LimiterRef, Reservation};

/// The longest wait, so that a refund or a change of the quota is noticed in time.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Decides how many bytes a connection may move now, by one limit or by several.
///
/// It is the state of one direction of one connection. [`PacedIo`](crate::PacedIo) has one for each direction, and `PacedBody` has one. The
/// limit is a [`RateLimiter`](damper_core::RateLimiter) whose tokens are bytes, in an `Arc` or a `static`. A clone paces another connection by
/// the same limits, and starts anew.
///
/// # Fairness
///
/// A connection takes a chunk of bytes and waits for it in the limit's line, first come, first served. The size of a chunk depends
/// on the limit alone, so connections that always have something to move get equal parts, whatever the sizes of their buffers. A
/// connection with small buffers takes chunks of the size of its buffers at first, and doubles them up to the common size while
/// others wait. A chunk is:
///
/// | the limit's rate | chunk |
/// |---|---|
/// | over 730 kB/s | the bytes of 2 ms |
/// | 73 to 730 kB/s | 1,460 bytes: a packet |
/// | lower | the bytes of 20 ms, at least one |
///
/// It never exceeds the burst. With `n` busy connections, each waits for the chunks of the others, about `n` times 2 ms. If that is more
/// than a quarter of a second, or of what [`max_debt`](damper_core::Quota::max_debt) lets wait, chunks shrink in proportion. So 10,000 busy
/// connections at 10 MB/s wait for about two seconds, not for 20.
///
/// The line has room for `max_debt`, which is ten bursts unless set. Give it the bytes of a second for a thousand busy connections. As
/// the line fills up, chunks become tiny and parts less equal, but no connection is refused a place before there are as many of them as bytes.
///
/// # Unused bytes
///
/// If the I/O moves fewer bytes than it was offered, ends, fails or is not ready, the rest of the chunk is given back at once, to
/// those that wait. Otherwise the connection keeps the rest for its next bytes. That is at most a chunk, and usually nothing while no
/// other connection waits. The tokens taken of a limit are always the bytes that were moved and those that connections keep. So in any stretch
/// of time all connections together move at most the limiter's envelope and what they kept when it began.
///
/// # Several limits
///
/// [`all`](Self::all) takes an array: the limit of all connections, that of one client. A chunk has the size that suits the smallest
/// of them. It takes its place in all lines at once, and waits for the last. If a limit refuses, the others get their bytes back.
///
/// # Examples
///
/// ```
/// use core::time::Duration;
/// use damper_core::{ManualClock, Quota, RateLimiter};
/// use damper_io::BytePacer;
///
/// let clock = ManualClock::new();
/// let limit = RateLimiter::with_clock(Quota::per_second(1_000_000).burst(2_000), &clock);
/// let mut pacer = BytePacer::new(&limit);
///
/// assert_eq!(pacer.ask(64_000), Ok(2_000)); // what 2 ms bring
/// pacer.report(2_000, 1_500); // the I/O moved fewer, so 500 are given back
/// assert_eq!(pacer.ask(64_000), Err(Duration::from_micros(1_500)));
/// clock.advance(Duration::from_micros(1_500));
/// assert_eq!(pacer.ask(64_000), Ok(2_000));
/// ```
pub struct BytePacer<L: LimiterRef<Algorithm = TokenBucket>, const N: usize = 1> {
    limits: [L; N],
    /// The bytes that the connection has or waits for.
    chunk: Option<Chunk<L, N>>,
    /// The size of the last chunk that was moved to its last byte; 0 if the last one was not.
    last: u32,
}

/// Bytes that were taken of all limits.
struct Chunk<L: LimiterRef<Algorithm = TokenBucket>, const N: usize> {
    reservations: [Option<Reservation<L>>; N],
    bytes: u32,
    /// Whether all limits have brought the bytes. They stay there, also if a quota changes.
    is_there: bool,
    moved: u32,
}

impl<L: LimiterRef<Algorithm = TokenBucket> + Clone> BytePacer<L> {
    /// Paces a connection by one limit.
    #[must_use]
    pub const fn new(limit: L) -> Self {
        Self::all([limit])
    }
}

impl<L: LimiterRef<Algorithm = TokenBucket> + Clone, const N: usize> BytePacer<L, N> {
    /// Paces a connection by several limits at once.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use damper_core::{Quota, RateLimiter};
    /// use damper_io::BytePacer;
    /// use std::sync::Arc;
    ///
    /// let total = Arc::new(RateLimiter::new(Quota::per_second(10_000_000)));
    /// let client = Arc::new(RateLimiter::new(Quota::per_second(1_000_000)));
    /// let mut pacer = BytePacer::all([total, client]);
    /// assert_eq!(pacer.ask(64_000), Ok(2_000)); // 2 ms of the client's rate
    /// # }
    /// ```
    #[must_use]
    pub const fn all(limits: [L; N]) -> Self {
        Self { limits, chunk: None, last: 0 }
    }

    /// Returns how many of `wanted` bytes may be moved now.
    ///
    /// It is at least one byte, and none only if none is wanted. It takes a chunk if the connection has none. Do the I/O with at most so many
    /// bytes, and [`report`](Self::report) it.
    ///
    /// # Errors
    ///
    /// The time before which no byte may be moved. It is at most a second; ask again then. The chunk stays taken, also if another number is
    /// asked for then.
    pub fn ask(&mut self, wanted: usize) -> Result<usize, Duration> {
        if wanted == 0 {
            return Ok(0);
        }
        let chunk = match self.chunk.take() {
            Some(chunk) => chunk,
            // The burst may be 0, the line full, or the quota one that never refills. Another quota helps in each case.
            None => self.take(wanted).map_err(|denied| within_longest(denied.retry_after()))?,
        };
        let chunk = self.chunk.insert(chunk);
        if !chunk.is_there {
            let wait = chunk.ready_in();
            if wait != Some(Duration::ZERO) {
                return Err(within_longest(wait));
            }
            chunk.is_there = true;
        }
        Ok(wanted.min((chunk.bytes - chunk.moved) as usize))
    }

    /// Takes a chunk for `wanted` bytes of all limits.
    fn take(&self, wanted: usize) -> Result<Chunk<L, N>, Denied> {
        let (mut most, mut is_awaited) = (u32::MAX, false);
        for limit in &self.limits {
            let (quota, debt) = (limit.limiter().quota(), limit.limiter().debt());
            most = most.min(most_at_once(&quota, debt));
            is_awaited |= debt > 0;
        }
        // While others wait, small buffers must not make small chunks. It grows by what was moved, so that a connection which
        // moves little keeps little.
        let grown = if is_awaited { self.last.saturating_mul(2) } else { 0 };
        let bytes = u32::try_from(wanted).unwrap_or(u32::MAX).max(grown).min(most);
        let mut chunk = Chunk { reservations: [const { None }; N], bytes, is_there: false, moved: 0 };
        for (place, limit) in chunk.reservations.iter_mut().zip(&self.limits) {
            match reserve(limit.clone(), bytes) {
                Ok(reservation) => *place = Some(reservation),
                Err(denied) => {
                    chunk.settle();
                    return Err(denied);
                }
            }
        }
        Ok(chunk)
    }
}

impl<L: LimiterRef<Algorithm = TokenBucket>, const N: usize> BytePacer<L, N> {
    /// Reports that the I/O moved `bytes` of the `offered` ones.
    ///
    /// Fewer than offered mean that no more can be moved now: the rest of the chunk is given back. More than allowed are charged. Without an
    /// [`ask`](Self::ask) that allowed bytes it does nothing.
    pub fn report(&mut self, offered: usize, bytes: usize) {
        let Some(chunk) = self.chunk.as_mut().filter(|chunk| chunk.is_there) else { return };
        chunk.moved = chunk.moved.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if bytes < offered {
            self.pause();
        } else if chunk.moved >= chunk.bytes {
            self.last = chunk.bytes;
            self.settle();
        }
    }

    /// Gives back what was taken and not moved.
    ///
    /// Call it when the I/O is not ready, has ended or has failed; dropping the pacer does the same. A chunk for which it still waits
    /// goes back only if no bytes were taken after it. Otherwise it counts as moved, because the waiters behind it have their moments.
    pub fn pause(&mut self) {
        self.last = 0;
        self.settle();
    }

    /// Settles the chunk, if there is one.
    fn settle(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            chunk.settle();
        }
    }

    #[cfg(any(feature = "embedded-io", feature = "futures-io", feature = "http-body", feature = "tokio"))]
    pub(crate) const fn limits(&self) -> &[L; N] {
        &self.limits
    }
}

impl<L: LimiterRef<Algorithm = TokenBucket>, const N: usize> Chunk<L, N> {
    /// Returns the time until all limits have brought the bytes; `None` if one never will.
    fn ready_in(&self) -> Option<Duration> {
        let mut waits = self.reservations.iter().flatten().map(Reservation::ready_in);
        waits.try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?)))
    }

    /// Gives back the bytes that were not moved.
    fn settle(self) {
        for reservation in self.reservations.into_iter().flatten() {
            reservation.settle(self.moved);
        }
    }
}

/// Returns a wait after which to look again; `None` is one without an end.
fn within_longest(wait: Option<Duration>) -> Duration {
    wait.map_or(LONGEST_WAIT, |wait| wait.min(LONGEST_WAIT))
}

/// Paces another connection by the same limits; nothing is taken for it yet.
impl<L: LimiterRef<Algorithm = TokenBucket> + Clone, const N: usize> Clone for BytePacer<L, N> {
    fn clone(&self) -> Self {
        Self::all(self.limits.clone())
    }
}

/// Gives back what was taken and not moved.
impl<L: LimiterRef<Algorithm = TokenBucket>, const N: usize> Drop for BytePacer<L, N> {
    fn drop(&mut self) {
        self.settle();
    }
}

impl<L: LimiterRef<Algorithm = TokenBucket>, const N: usize> fmt::Debug for BytePacer<L, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, bytes) = match &self.chunk {
            None => ("idle", 0),
            Some(chunk) if chunk.is_there => ("moving", chunk.bytes - chunk.moved),
            Some(chunk) => ("waiting", chunk.bytes),
        };
        f.debug_struct("BytePacer").field("state", &state).field("bytes", &bytes).finish_non_exhaustive()
    }
}
