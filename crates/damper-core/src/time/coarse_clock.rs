//! A clock that is read by one load and refreshed now and then.

use super::Clock;
use crate::sync::{AtomicU64, Ordering, const_unless_loom};
use core::time::Duration;
use crossbeam_utils::CachePadded;

/// Nanoseconds that stand still between two refreshes: the cheapest clock to read, one relaxed load.
///
/// It has to be refreshed: by a [`CoarseTicker`](super::CoarseTicker), which is a thread that you start and stop, or by
/// a timer of your own through [`advance`](Self::advance) or [`advance_to`](Self::advance_to). Otherwise the clock
/// never advances, and a limiter refills nothing. It never steps back, whatever refreshes it.
///
/// Share it by reference, in a `static` or an `Arc`; it takes a cache line of its own.
///
/// # Resolution
///
/// The time between two refreshes is the clock's resolution; a decision sees the time late by at most that, and by
/// what the refreshing thread or interrupt is late itself. For a limiter this means:
///
/// - On the clock's own readings nothing changes: never more tokens than the quota's envelope. In real time that can be
///   as many more as the longest time between two refreshes brings, for a call just before a refresh counts as one just
///   after the last. On a machine whose cores are all busy the ticker's thread may run late by many resolutions: with one
///   of a millisecond, a limit of 1,000/s was seen to allow 11 tokens more, after a pause of 11 ms.
/// - Tokens come in steps, `rate · resolution` at a time. **A burst smaller than that caps the rate**, because a bucket
///   holds no more than its burst: 10,000/s at a resolution of 1 ms take a burst of at least 10.
/// - A caller that waits for exactly [`retry_after`](crate::Denied::retry_after) may find the clock not refreshed yet. It is
///   refused once more, with a wait of at most one resolution.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use core::time::Duration;
/// use damper::{CoarseClock, CoarseTicker, Quota, RateLimiter, TokenBucket};
///
/// static CLOCK: CoarseClock = CoarseClock::new();
/// static REQUESTS: RateLimiter<TokenBucket, &CoarseClock> =
///     RateLimiter::with_clock(Quota::per_second(10_000).burst(100), &CLOCK);
///
/// // At the start of the program, and kept to its end: the clock runs for as long as the ticker lives.
/// let ticker = CoarseTicker::start(&CLOCK, Duration::from_millis(1))?;
/// assert!(REQUESTS.check().is_ok());
/// ticker.stop();
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// From a timer of one's own, without `std`:
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{CoarseClock, Quota, RateLimiter, TokenBucket};
///
/// static CLOCK: CoarseClock = CoarseClock::new();
/// static MESSAGES: RateLimiter<TokenBucket, &CoarseClock> =
///     RateLimiter::with_clock(Quota::per_second(10).burst(1), &CLOCK);
///
/// /// The interrupt of a timer that fires ten times a second.
/// fn on_timer() {
///     CLOCK.advance(Duration::from_millis(100));
/// }
///
/// assert!(MESSAGES.check().is_ok());
/// assert!(MESSAGES.check().is_err());
/// on_timer();
/// assert!(MESSAGES.check().is_ok());
/// ```
#[derive(Debug)]
pub struct CoarseClock {
    /// Apart from words that are written often, because every reading would miss beside one.
    ///
    /// It is read by all threads and written rarely.
    nanos: CachePadded<AtomicU64>,
}

impl CoarseClock {
    const_unless_loom! {
        /// A clock that reads 0 until it is refreshed.
        #[must_use]
        pub const fn new() -> Self {
            Self { nanos: CachePadded::new(AtomicU64::new(0)) }
        }
    }

    /// Moves the clock forward by `elapsed`: for a timer that fires periodically.
    ///
    /// After 2^64 - 1 nanoseconds (584 years) the clock stands still.
    pub fn advance(&self, elapsed: Duration) {
        let elapsed = saturating_nanos(elapsed);
        self.update(|nanos| nanos.saturating_add(elapsed));
    }

    /// Moves the clock forward to `since_start`, for a timer that can be read.
    ///
    /// That is the time since some fixed moment.
    ///
    /// Does nothing where the clock is there already or further, so it does not matter how many refresh it, nor in
    /// which order. More than 2^64 - 1 nanoseconds (584 years) count as so many.
    pub fn advance_to(&self, since_start: Duration) {
        let since_start = saturating_nanos(since_start);
        self.update(|nanos| nanos.max(since_start));
    }

    /// `next` never returns less than it is given, so that no reading is followed by a smaller one.
    #[inline]
    fn update(&self, next: impl Fn(u64) -> u64) {
        // ORDERING: Relaxed throughout. The reading is the whole state and nothing else is published through it; the
        // swaps of this one location are totally ordered, and each stores what is no less than what it replaces.
        // loom-tests: clock::coarse_clock_is_monotonic_and_keeps_every_refresh.
        let mut nanos = self.nanos.load(Ordering::Relaxed);
        while let Err(newer) =
            self.nanos.compare_exchange_weak(nanos, next(nanos), Ordering::Relaxed, Ordering::Relaxed)
        {
            nanos = newer;
        }
    }
}

impl Default for CoarseClock {
    fn default() -> Self {
        Self::new()
    }
}

impl super::FixedFrequency for CoarseClock {
    const HERTZ: u64 = 1_000_000_000;
    const MAX_STEP_BACK: u64 = 3_600_000_000_000;
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> u64 {
        // ORDERING: Relaxed, as in `update`; see `max_step_back` for what that allows.
        self.nanos.load(Ordering::Relaxed)
    }

    /// 10^9.
    #[inline]
    fn frequency(&self) -> u64 {
        1_000_000_000
    }

    /// One hour, in nanoseconds, though the clock never steps back.
    ///
    /// A processor may load the clock a little before the word that stands first in the program, and so find the word
    /// of a thread that saw a later refresh. That the refresh moved the clock by more than an hour is not expected.
    // A skew of 0 would heal the legal debt in that word, and admit more than the burst. loom-tests:
    // clock::coarse_clock_read_late_keeps_the_debt.
    #[inline]
    fn max_step_back(&self) -> u64 {
        <Self as super::FixedFrequency>::MAX_STEP_BACK
    }
}

const fn saturating_nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos() as u64)
}
