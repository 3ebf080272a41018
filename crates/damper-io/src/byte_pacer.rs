//! Paces bytes: a state machine without I/O and without a timer.

use crate::chunk::most_at_once;
use core::fmt;
use core::mem;
use core::time::Duration;
use damper_core::internal::reserve;
use damper_core::limit::{Denied, LimiterRef, Reservation};
use damper_core::{RateLimiter, TokenBucket};

/// The longest wait, so that a refund or a change of the quota is noticed in time.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Decides how many bytes a connection may move now, by one limit or by several.
///
/// It is the state of one direction of one connection. [`PacedReader`](crate::PacedReader), [`PacedWriter`](crate::PacedWriter) and
/// `PacedBody` have one each. The limit is a [`RateLimiter`] whose tokens are bytes, in an `Arc` or a `static`. A clone paces another
/// connection by the same limits, and starts anew.
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
/// use damper_io::{BytePacer, Turn};
///
/// let clock = ManualClock::new();
/// let limit = RateLimiter::with_clock(Quota::per_second(1_000_000).burst(2_000), &clock);
/// let mut pacer = BytePacer::new(&limit);
///
/// assert_eq!(pacer.ask(64_000), Turn::Move(2_000)); // what 2 ms bring
/// pacer.report(2_000, 1_500); // the I/O moved fewer, so 500 are given back
/// assert_eq!(pacer.ask(64_000), Turn::Wait(Duration::from_micros(1_500)));
/// clock.advance(Duration::from_micros(1_500));
/// assert_eq!(pacer.ask(64_000), Turn::Move(2_000));
/// ```
pub struct BytePacer<L: LimiterRef<Algorithm = TokenBucket>, const N: usize = 1> {
    limits: [L; N],
    state: State<L, N>,
    /// The size of the last chunk that was moved to its last byte; 0 if the last one was not.
    last: u32,
}

/// The answer of [`BytePacer::ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// So many bytes may be moved now: at least one, and at most as many as were asked for.
    Move(usize),
    /// Nothing may be moved before so much time has passed. It is at most a second; ask again then.
    Wait(Duration),
}

/// The state of a connection at its limits.
enum State<L: LimiterRef<Algorithm = TokenBucket>, const N: usize> {
    /// It has no bytes, and waits for none.
    Idle,
    /// Its chunk is not known to be there yet.
    Waiting(Chunk<L, N>),
    /// Its chunk is there, and `moved` bytes of it were moved.
    Moving { chunk: Chunk<L, N>, moved: u32 },
}

/// Bytes that were taken of all limits.
struct Chunk<L: LimiterRef<Algorithm = TokenBucket>, const N: usize> {
    reservations: [Option<Reservation<L>>; N],
    bytes: u32,
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
    /// use damper_io::{BytePacer, Turn};
    /// use std::sync::Arc;
    ///
    /// let total = Arc::new(RateLimiter::new(Quota::per_second(10_000_000)));
    /// let client = Arc::new(RateLimiter::new(Quota::per_second(1_000_000)));
    /// let mut pacer = BytePacer::all([total, client]);
    /// assert_eq!(pacer.ask(64_000), Turn::Move(2_000)); // 2 ms of the client's rate
    /// # }
    /// ```
    #[must_use]
    pub const fn all(limits: [L; N]) -> Self {
        Self { limits, state: State::Idle, last: 0 }
    }

    /// Returns how many of `wanted` bytes may be moved now, or how long to wait.
    ///
    /// It takes a chunk if the connection has none. After [`Turn::Move`] do the I/O with at most so many bytes and
    /// [`report`](Self::report) it. After [`Turn::Wait`] ask again later: the chunk stays taken, also if another number is
    /// asked for then. If nothing is wanted, nothing is taken and `Move(0)` returned.
    pub fn ask(&mut self, wanted: usize) -> Turn {
        if wanted == 0 {
            return Turn::Move(0);
        }
        loop {
            match mem::replace(&mut self.state, State::Idle) {
                State::Idle => match self.take(wanted) {
                    Ok(chunk) => self.state = State::Waiting(chunk),
                    // The burst may be 0, the line full, or the quota one that never refills. Another quota helps in each case.
                    Err(denied) => {
                        return Turn::Wait(denied.retry_after().map_or(LONGEST_WAIT, |wait| wait.min(LONGEST_WAIT)));
                    }
                },
                State::Waiting(chunk) => match chunk.ready_in() {
                    Some(Duration::ZERO) => self.state = State::Moving { chunk, moved: 0 },
                    wait => {
                        self.state = State::Waiting(chunk);
                        return Turn::Wait(wait.map_or(LONGEST_WAIT, |wait| wait.min(LONGEST_WAIT)));
                    }
                },
                State::Moving { chunk, moved } => {
                    let left = chunk.bytes - moved;
                    self.state = State::Moving { chunk, moved };
                    return Turn::Move(wanted.min(left as usize));
                }
            }
        }
    }

    /// Takes a chunk for `wanted` bytes of all limits.
    fn take(&self, wanted: usize) -> Result<Chunk<L, N>, Denied> {
        let (mut most, mut is_awaited) = (u32::MAX, false);
        for limit in &self.limits {
            let (quota, debt) = (limit.limiter().quota(), limit.limiter().debt());
            most = most.min(most_at_once(&quota, debt));
            is_awaited |= debt > 0;
        }
        // While others wait, small buffers must not make small turns. It grows by what was moved, so that a connection which
        // moves little keeps little.
        let grown = if is_awaited { self.last.saturating_mul(2) } else { 0 };
        let bytes = u32::try_from(wanted).unwrap_or(u32::MAX).max(grown).min(most);
        let mut chunk = Chunk { reservations: [const { None }; N], bytes };
        for (place, limit) in chunk.reservations.iter_mut().zip(&self.limits) {
            match reserve(limit.clone(), bytes) {
                Ok(reservation) => *place = Some(reservation),
                Err(denied) => {
                    chunk.settle(0);
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
    /// Fewer than offered mean that no more can be moved now: the rest of the chunk is given back.
    /// If more were moved than allowed, they are charged.
    pub fn report(&mut self, offered: usize, bytes: usize) {
        let State::Moving { chunk, moved } = &mut self.state else { return };
        *moved = moved.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if bytes < offered {
            self.pause();
        } else if *moved >= chunk.bytes {
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
        match mem::replace(&mut self.state, State::Idle) {
            State::Idle => {}
            State::Waiting(chunk) => chunk.settle(0),
            State::Moving { chunk, moved } => chunk.settle(moved),
        }
    }

    /// Returns the limits.
    pub fn limits(&self) -> impl ExactSizeIterator<Item = &RateLimiter<TokenBucket, L::Clock>> {
        self.limits.iter().map(LimiterRef::limiter)
    }
}

impl<L: LimiterRef<Algorithm = TokenBucket>, const N: usize> Chunk<L, N> {
    /// Returns the time until all limits have brought the bytes; `None` if one never will.
    fn ready_in(&self) -> Option<Duration> {
        let mut waits = self.reservations.iter().flatten().map(Reservation::ready_in);
        waits.try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?)))
    }

    /// Gives back the bytes that were not moved.
    fn settle(self, moved: u32) {
        for reservation in self.reservations.into_iter().flatten() {
            reservation.settle(moved);
        }
    }
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
        let (state, bytes) = match &self.state {
            State::Idle => ("idle", 0),
            State::Waiting(chunk) => ("waiting", chunk.bytes),
            State::Moving { chunk, moved } => ("moving", chunk.bytes - moved),
        };
        f.debug_struct("BytePacer").field("state", &state).field("bytes", &bytes).finish_non_exhaustive()
    }
}
