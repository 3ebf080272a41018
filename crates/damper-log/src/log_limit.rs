//! A limit of similar events, with the count of those that it suppressed.

use crate::SuppressedCount;
use core::fmt;
use damper_core::internal::Tally;
use damper_core::limit::{Limiter, RateLimiter};
#[cfg(feature = "std")]
use damper_core::quota::Quota;

/// Lets some of many similar events pass, and counts the others.
///
/// The macros create one for each call site. Create one yourself to share it between call sites, or to choose the limiter: a
/// [`RateLimiter32`](damper_core::RateLimiter32) in firmware, a [`RateLimiter`] on a clock of your own, or another
/// [`Limiter`].
///
/// The count is exact. An event that passes takes it, and each suppressed event is in the count of one event that passes, or
/// still in the limit. A count with 32 bits wraps, on targets without atomics of 64 bits.
///
/// A count waits for the next event that passes. If none may come, call [`take_suppressed`](Self::take_suppressed) now and then, or
/// use a `LimitedLayer`, which reports by itself.
///
/// # Cost
///
/// An event that is suppressed costs a check of the limiter, which writes nothing, and an addition. Nothing is locked or
/// allocated. On targets of 64 bits a limit takes 368 bytes, and 80 with a `RateLimiter32`. Most of this are the settings of the
/// limiter.
///
/// # Memory ordering
///
/// A check orders no other memory access.
///
/// # Examples
///
/// ```
/// # extern crate damper_log as logs;
/// # #[cfg(feature = "std")] {
/// use logs::{LogLimit, Quota};
///
/// static DISK_FULL: LogLimit = LogLimit::new(Quota::per_second(1).burst(5));
///
/// if let Some(suppressed) = DISK_FULL.check() {
///     eprintln!("disk full{suppressed}"); // "disk full (1204 suppressed)" after a flood
/// }
/// # }
/// ```
///
/// In firmware, in words of 32 bits on a clock of its own. Mind their
/// [range](damper_core::RateLimiter32#range): after a long idle time such a limit may suppress events that it should pass.
///
/// ```
/// # extern crate damper_log as logs;
/// use damper_core::{CoarseClock, RateLimiter32};
/// use logs::{LogLimit, Quota};
///
/// static TIME: CoarseClock = CoarseClock::new(); // or a timer of yours
/// static BUS_ERRORS: LogLimit<RateLimiter32<&CoarseClock>> =
///     LogLimit::with_limiter(match RateLimiter32::new(Quota::per_second(1), &TIME) {
///         Ok(limiter) => limiter,
///         Err(_) => panic!("the burst does not fit 32 bits"), // a compile error
///     });
///
/// assert!(BUS_ERRORS.check().is_some());
/// assert!(BUS_ERRORS.check().is_none());
/// ```
pub struct LogLimit<L = RateLimiter> {
    limiter: L,
    suppressed: Tally,
}

#[cfg(feature = "std")]
impl LogLimit {
    /// Creates a limit of this quota on the default clock, full at the start.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self::with_limiter(RateLimiter::new(quota))
    }
}

impl<L> LogLimit<L> {
    /// Creates a limit from a limiter.
    #[must_use]
    pub const fn with_limiter(limiter: L) -> Self {
        Self { limiter, suppressed: Tally::new() }
    }

    /// Returns the limiter.
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    /// Decides by `decide` whether an event passes.
    ///
    /// Use it if more than the limiter has a say, such as a limit per key. If the event passes, the result has the count of
    /// the events that were suppressed before it. Otherwise this event is counted.
    ///
    /// # Examples
    ///
    /// Ten lines a second, and of each peer one in a minute:
    ///
    /// ```
    /// # extern crate damper_log as logs;
    /// # #[cfg(feature = "std")] {
    /// use damper_core::KeyedLimiter;
    /// use logs::{LogLimit, Quota};
    ///
    /// static RESETS: LogLimit = LogLimit::new(Quota::per_second(10));
    ///
    /// let peers = KeyedLimiter::<str>::builder(Quota::per_minute(1)).capacity(1_000).build()?;
    /// let check = |peer: &str| RESETS.check_with(|all| peers.check_n_with(peer, 1, all).is_ok());
    /// assert!(check("192.0.2.7").is_some());
    /// assert!(check("192.0.2.7").is_none());
    /// assert_eq!(check("192.0.2.8").and_then(|suppressed| suppressed.get()), Some(1));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn check_with(&self, decide: impl FnOnce(&L) -> bool) -> Option<SuppressedCount> {
        if decide(&self.limiter) {
            Some(self.take_suppressed())
        } else {
            self.suppressed.add();
            None
        }
    }

    /// Takes the count of the events that were suppressed since an event took it.
    ///
    /// Use it to report what was suppressed when a flood has ended, or before the program exits.
    #[inline]
    pub fn take_suppressed(&self) -> SuppressedCount {
        SuppressedCount::new(self.suppressed.take())
    }
}

impl<L: Limiter> LogLimit<L> {
    /// Returns whether an event passes.
    ///
    /// If it does, the result has the count of the events that were suppressed before it. Otherwise this event is counted.
    #[inline]
    pub fn check(&self) -> Option<SuppressedCount> {
        self.check_with(|limiter| limiter.try_acquire(1).is_ok())
    }
}

impl<L: fmt::Debug> fmt::Debug for LogLimit<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLimit")
            .field("limiter", &self.limiter)
            .field("suppressed", &self.suppressed.count())
            .finish()
    }
}
