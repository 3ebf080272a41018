//! Whether to believe deadlines that have passed on arrival.

use super::{Deadline, DeadlineExceeded};
use crate::sync::{AtomicU64, Field, IS_MODEL, Ordering, SpinWait, const_unless_loom};
use crate::time::{Clock, DefaultClock};

/// There is a word for windows of even numbers and one for those of odd numbers, so that the present window and the one
/// before are there at once:
///
/// ```text
///  63    48 47       24 23      0
/// | WINDOW | REQUESTS  | REFUSED |
/// ```
///
/// | field | meaning |
/// |---|---|
/// | WINDOW | the number of the window that the counts are of; wraps |
/// | REQUESTS | the requests that arrived |
/// | REFUSED | those among them that were refused; both counts are halved when REQUESTS is full |
const REFUSED: Field = Field::lowest(24);
const REQUESTS: Field = REFUSED.then(24);
const WINDOW: Field = REQUESTS.then(16);
const _: () = assert!(WINDOW.end() == u64::BITS, "fields must tile the word");

/// The length of a window, in seconds.
const SECONDS: u64 = 10;

/// With fewer requests in the window, all that arrive expired are refused.
const FEWEST: u64 = if IS_MODEL { 4 } else { 50 };

/// At most one request of so many is refused.
const ONE_OF: u64 = 5;

/// By how many windows a thread's reading may be behind that of another thread.
const MOST_BEHIND: u64 = 16;

/// Decides whether a server believes deadlines that have passed when they arrive.
///
/// That is a question only where clients send them as instants of their clocks.
///
/// A few requests arrive too late, after a wait in a queue. Where many do, a clock is wrong, and a server that believed it
/// would refuse everything. So of 50 requests or more in the last 10 s at most a fifth is refused as expired. The others
/// are served, with the server's own timeout, and counted. With fewer requests, each that arrives expired is refused.
///
/// The last 10 s are a full window and a part of the one before, which counts in proportion. In each window, whatever the
/// threads, at most a fifth of its requests and of those of the window before are refused, or 49.
///
/// A clock that is ahead of a few clients only is not noticed: while they send less than a fifth of the requests, all of
/// theirs are refused. Relative timeouts, such as `grpc-timeout`, need no guard.
///
/// A request costs one compare-and-swap. Put the guard in a `static` or an `Arc`, one per server.
///
/// # Examples
///
#[cfg_attr(feature = "std", doc = "```")]
#[cfg_attr(not(feature = "std"), doc = "```text")]
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::Deadline;
/// use damper::deadline::{Arrival, SkewGuard};
///
/// static GUARD: SkewGuard = SkewGuard::new();
///
/// # fn serve(_: Deadline) -> Result<(), damper::DeadlineExceeded> { Ok(()) }
/// # fn main() -> Result<(), damper::DeadlineExceeded> {
/// let (own, sent) = (Deadline::after(Duration::from_secs(2)), Deadline::after(Duration::from_millis(300)));
/// match GUARD.arrived(&sent) {
///     Arrival::InTime => serve(own.earlier(sent)),
///     Arrival::Expired(exceeded) => Err(exceeded),
///     Arrival::Skewed => serve(own),
/// }
/// # }
/// ```
///
/// # Range
///
/// Numbers of windows repeat after 65,536, which is 7 days. After exactly that long without a request, give or take 16
/// windows, old counts count once more.
#[derive(Debug)]
pub struct SkewGuard<C = DefaultClock> {
    windows: [AtomicU64; 2],
    served_expired: AtomicU64,
    clock: C,
}

/// What a server does about the deadline of a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Arrival {
    /// The deadline has not passed: serve the request by it.
    InTime,
    /// The deadline has passed: refuse the request.
    Expired(DeadlineExceeded),
    /// The deadline seems to have passed, but so do too many: serve the request as if it had none.
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
    /// The counts in a word, if they are of this window.
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

    /// Adds the refusal of the last request, if there may be one: of the window before, `part` of `whole` counts.
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

/// A count of the present window and a part of that before, in units of a `whole`th.
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

    /// Counts a request, and decides whether to believe its deadline.
    #[must_use]
    pub fn arrived<D: Clock>(&self, deadline: &Deadline<D>) -> Arrival {
        let exceeded = deadline.check().err();
        let whole = self.clock.frequency().saturating_mul(SECONDS).max(1);
        let spin = SpinWait::new();
        loop {
            let now = self.clock.now();
            let (mut window, mut elapsed) = (now / whole, now % whole);
            // ORDERING: Relaxed throughout: a word is all the counts of a window, and the swap is from what was decided on.
            // An older reading of the other word leaves the bound of this window as it is.
            // loom-tests: skew_guard::one_request_of_five_is_refused, late_thread_forgets_no_refusal.
            let word = self.word_of(window).load(Ordering::Relaxed);
            let ahead = WINDOW.get(word).wrapping_sub(window) & WINDOW.max();
            if ahead != 0 && ahead <= MOST_BEHIND {
                // This thread's clock is behind another's, or the thread was stopped after it had read the clock.
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
                    // ORDERING: Relaxed: a count, through which nothing is published.
                    self.served_expired.fetch_add(1, Ordering::Relaxed);
                }
                return arrival;
            }
            spin.spin();
        }
    }

    /// Returns how many requests were served though they arrived expired. It wraps.
    #[must_use]
    pub fn served_expired(&self) -> u64 {
        // ORDERING: Relaxed: a count, through which nothing is published.
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
