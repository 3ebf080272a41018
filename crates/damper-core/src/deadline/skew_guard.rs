//! Whether to trust deadlines that have passed on arrival.

use super::{Deadline, DeadlineExceeded};
use crate::sync::{AtomicU64, Field, IS_MODEL, Ordering, SpinWait, const_unless_loom};
use crate::time::{Clock, DefaultClock};

/// The counts of a window of a skew guard. Windows of even and odd numbers have separate words.
///
/// So the present window and the previous one are both available:
///
/// ```text
///  63    48 47       24 23      0
/// | WINDOW | REQUESTS  | REFUSED |
/// ```
///
/// | field | meaning |
/// |---|---|
/// | WINDOW | the number of the counted window; wraps |
/// | REQUESTS | the requests that arrived in it |
/// | REFUSED | the refused ones among them; both counts are halved when REQUESTS is full |
const REFUSED: Field = Field::lowest(24);
const REQUESTS: Field = REFUSED.then(24);
const WINDOW: Field = REQUESTS.then(16);
const _: () = assert!(WINDOW.end() == u64::BITS, "fields must tile the word");

/// The length of a window, in seconds.
const SECONDS: u64 = 10;

/// With fewer requests in the window, all expired ones are refused.
const FEWEST: u64 = if IS_MODEL { 4 } else { 50 };

/// At most one in this many requests is refused.
const ONE_OF: u64 = 5;

/// The most windows by which a thread's reading may be behind another thread's.
const MOST_BEHIND: u64 = 16;

/// Decides whether a server trusts deadlines that have passed when they arrive.
///
/// The question arises only if clients send deadlines as instants of their own clocks.
///
/// A few requests arrive too late, after a wait in a queue. If many do, a clock is wrong, and a server that trusted it
/// would refuse everything. So of 50 requests or more in the last 10 s, at most a fifth is refused as expired. The
/// others are served with the server's own timeout, and counted. With fewer requests, each one that arrives expired is
/// refused.
///
/// The last 10 s are the present window and a proportional part of the previous one. Across threads, the refusals in
/// each window are at most 49, or a fifth of its requests and those of the previous window.
///
/// A wrong clock of only a few clients goes unnoticed: while they send less than a fifth of the requests, all of theirs
/// are refused. Relative timeouts, such as `grpc-timeout`, need no guard.
///
/// A request costs one compare-and-swap. Put the guard in a `static` or an `Arc`, one per server.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use core::time::Duration;
/// use damper::Deadline;
/// use damper::deadline::{Arrival, SkewGuard};
///
/// static GUARD: SkewGuard = SkewGuard::new();
///
/// # fn serve(_: Deadline) -> Result<(), damper::DeadlineExceeded> { Ok(()) }
/// # fn run() -> Result<(), damper::DeadlineExceeded> {
/// let (own, sent) = (Deadline::after(Duration::from_secs(2)), Deadline::after(Duration::from_millis(300)));
/// match GUARD.arrived(&sent) {
///     Arrival::InTime => serve(own.earlier(sent)),
///     Arrival::Expired(exceeded) => Err(exceeded),
///     Arrival::Skewed => serve(own),
/// }
/// # }
/// # run().unwrap(); }
/// ```
///
/// # Range
///
/// Window numbers repeat after 65,536 windows, which is 7 days. After exactly that long without a request, give or take
/// 16 windows, old counts apply again.
#[derive(Debug)]
pub struct SkewGuard<C = DefaultClock> {
    windows: [AtomicU64; 2],
    served_expired: AtomicU64,
    clock: C,
}

/// The decision about the deadline of a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Arrival {
    /// The deadline has not passed: serve the request by it.
    InTime,
    /// The deadline has passed: refuse the request.
    Expired(DeadlineExceeded),
    /// Too many deadlines seem to have passed, including this one: serve the request as if it had none.
    Skewed,
}

/// The counts of a window.
#[derive(Clone, Copy, Debug)]
struct Counts {
    window: u64,
    requests: u64,
    refused: u64,
}

impl Counts {
    /// Reads the counts in a word, which are zero if they are of another window.
    const fn of(window: u64, word: u64) -> Self {
        if (WINDOW.get(word) ^ window) & WINDOW.max() == 0 {
            Self { window, requests: REQUESTS.get(word), refused: REFUSED.get(word) }
        } else {
            Self { window, requests: 0, refused: 0 }
        }
    }

    const fn word(self) -> u64 {
        WINDOW.put(self.window) | REQUESTS.put(self.requests) | REFUSED.put(self.refused)
    }

    /// Adds a request.
    const fn with_request(mut self) -> Self {
        if self.requests == REQUESTS.max() {
            (self.requests, self.refused) = (self.requests / 2, self.refused / 2);
        }
        self.requests += 1;
        self
    }

    /// Adds a refusal of the last request, or returns `None` if it may not be refused.
    ///
    /// The previous window counts by the fraction `part / whole`.
    const fn with_refusal(mut self, before: Self, part: u64, whole: u64) -> Option<Self> {
        let requests = weighted(self.requests, before.requests, part, whole);
        let refused = weighted(self.refused + 1, before.refused, part, whole);
        if requests >= FEWEST as u128 * whole as u128 && refused * ONE_OF as u128 > requests {
            return None;
        }
        self.refused += 1;
        Some(self)
    }
}

/// Adds a count of the present window and a part of the previous one, in units of a `whole`th.
const fn weighted(now: u64, before: u64, part: u64, whole: u64) -> u128 {
    now as u128 * whole as u128 + before as u128 * part as u128
}

#[cfg(feature = "std")]
impl SkewGuard {
    const_unless_loom! {
        /// Creates a guard on the [default clock](DefaultClock).
        #[must_use]
        pub const fn new() -> Self {
            Self::with_clock(crate::time::Monotonic)
        }
    }
}

#[cfg(feature = "std")]
impl Default for SkewGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> SkewGuard<C> {
    const_unless_loom! {
        /// Creates a guard whose windows are measured by `clock`. A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(clock: C) -> Self {
            Self { windows: [AtomicU64::new(0), AtomicU64::new(0)], served_expired: AtomicU64::new(0), clock }
        }
    }

    /// Counts a request, and decides whether to trust its deadline.
    #[must_use]
    pub fn arrived<D: Clock>(&self, deadline: &Deadline<D>) -> Arrival {
        let exceeded = deadline.check().err();
        let whole = self.clock.frequency().saturating_mul(SECONDS).max(1);
        let spin = SpinWait::new();
        loop {
            let now = self.clock.now();
            let (mut window, mut elapsed) = (now / whole, now % whole);
            // ORDERING: Relaxed throughout, as each word is the whole state of a window and the swap replaces what was
            // decided on.
            // A stale value of the other word does not exceed this window's bound.
            // loom-tests: skew_guard::one_request_of_five_is_refused, late_thread_forgets_no_refusal.
            let word = self.word_of(window).load(Ordering::Relaxed);
            let ahead = WINDOW.get(word).wrapping_sub(window) & WINDOW.max();
            if ahead != 0 && ahead <= MOST_BEHIND {
                // This thread's clock is behind another's, or the thread was descheduled after reading the clock.
                (window, elapsed) = (window.wrapping_add(ahead), 0);
            }
            let other = self.word_of(window.wrapping_sub(1)).load(Ordering::Relaxed);
            let counts = Counts::of(window, word).with_request();
            let before = Counts::of(window.wrapping_sub(1), other);
            let (counts, arrival) = match exceeded {
                None => (counts, Arrival::InTime),
                Some(exceeded) => match counts.with_refusal(before, whole - elapsed, whole) {
                    Some(counts) => (counts, Arrival::Expired(exceeded)),
                    None => (counts, Arrival::Skewed),
                },
            };
            let swapped =
                self.word_of(window).compare_exchange_weak(word, counts.word(), Ordering::Relaxed, Ordering::Relaxed);
            if swapped.is_ok() {
                if arrival == Arrival::Skewed {
                    // ORDERING: Relaxed, as the counter publishes nothing.
                    self.served_expired.fetch_add(1, Ordering::Relaxed);
                }
                return arrival;
            }
            spin.spin();
        }
    }

    /// Returns the number of requests that arrived expired and were served. It wraps.
    #[must_use]
    pub fn served_expired(&self) -> u64 {
        // ORDERING: Relaxed, as the counter publishes nothing.
        self.served_expired.load(Ordering::Relaxed)
    }

    fn word_of(&self, window: u64) -> &AtomicU64 {
        let [even, odd] = &self.windows;
        if window.is_multiple_of(2) { even } else { odd }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_counts_keep_their_ratio() {
        let full = Counts { window: 7, requests: REQUESTS.max(), refused: REQUESTS.max() / 5 };
        let halved = full.with_request();
        assert_eq!((halved.requests, halved.refused), (REQUESTS.max() / 2 + 1, REQUESTS.max() / 10));
        assert_eq!(Counts::of(7, halved.word()).requests, halved.requests);
        assert_eq!(Counts::of(8, halved.word()).requests, 0, "another window's");
    }
}
