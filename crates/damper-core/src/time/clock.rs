//! Clocks: readings in ticks that never step back further than stated.

#[cfg(feature = "std")]
use super::Monotonic;

/// The clock of a limiter or breaker that names none: [`Monotonic`] with the feature `std`.
#[cfg(feature = "std")]
pub type DefaultClock = Monotonic;

/// The clock of a limiter or breaker that names none: there is none without the feature `std`.
#[cfg(not(feature = "std"))]
pub type DefaultClock = NoClock;

/// Stands where a clock has to be named: without the feature `std` there is no default.
#[cfg(not(feature = "std"))]
#[derive(Clone, Copy, Debug)]
pub struct NoClock;

/// A source of time: ticks that count up, and their frequency.
///
/// # Contract
///
/// - `now` never steps back by more than [`max_step_back`](Clock::max_step_back) ticks, whichever threads or cores
///   read it. A larger step is survived: no caller is locked out for longer than the deepest debt takes to refill. A
///   `RateLimiter` credits nothing twice either. Limiters whose positions have fewer bits may take a debt from before
///   the step for one of long ago, and give a burst anew: keyed limiters, `RateLimiter32` and those in `words`.
/// - `now` is 64 bits wide, may start anywhere and may wrap. There are two exceptions. A new `WordLimiter` has a full
///   bucket only if the clock starts far from its wrap. Types that count microseconds, such as `CircuitBreaker`, see
///   the wrap of a clock of more than 1 MHz as a step back. A timer of fewer bits is extended by
///   [`ExtendedTimer`](super::ExtendedTimer).
/// - `frequency` and `max_step_back` return the same at every call.
/// - No method blocks or panics; `now` is called once in every decision of a limiter.
///
/// # Examples
///
/// A timer that counts microseconds:
///
/// ```
/// # extern crate damper_core as damper;
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use damper::{Clock, Quota, RateLimiter};
///
/// static MICROS: AtomicU64 = AtomicU64::new(0); // counted up by an interrupt, say
///
/// #[derive(Debug)]
/// struct Timer;
///
/// impl Clock for Timer {
///     fn now(&self) -> u64 {
///         MICROS.load(Ordering::Relaxed)
///     }
///     fn frequency(&self) -> u64 {
///         1_000_000
///     }
/// }
///
/// static MESSAGES: RateLimiter<damper::TokenBucket, Timer> =
///     RateLimiter::with_clock(Quota::per_second(10).burst(1), Timer);
/// assert!(MESSAGES.check().is_ok());
/// assert!(MESSAGES.check().is_err());
/// MICROS.fetch_add(100_000, Ordering::Relaxed);
/// assert!(MESSAGES.check().is_ok());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a clock",
    note = "without damper's feature `std` there is no default clock: name one with `with_clock`"
)]
pub trait Clock {
    /// Reads the clock, in ticks.
    fn now(&self) -> u64;

    /// Ticks per second. A frequency of 0 is a clock that stands still: nothing is ever refilled.
    ///
    /// All of its digits count where tokens are produced. Where a wait is computed, a frequency of more than 26 significant
    /// bits (which no round one has) is rounded down to those, so that the wait is at most 3·10^-8 of itself too long.
    fn frequency(&self) -> u64;

    /// How many ticks `now` may step back from one reading to a later one; 0 unless overridden.
    fn max_step_back(&self) -> u64 {
        0
    }
}

/// A clock whose frequency is known at compile time, as that of a timer in firmware is.
///
/// Everything that depends on the frequency is computed at compile time too.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::Clock;
/// use damper::time::FixedFrequency;
///
/// #[derive(Clone, Copy)]
/// struct Timer;
///
/// impl FixedFrequency for Timer {
///     const HERTZ: u64 = 25_000_000;
/// }
///
/// impl Clock for Timer {
///     fn now(&self) -> u64 {
///         0 // read the timer here
///     }
///     fn frequency(&self) -> u64 {
///         Self::HERTZ
///     }
/// }
/// ```
pub trait FixedFrequency: Clock {
    /// The result of [`frequency`](Clock::frequency).
    const HERTZ: u64;

    /// The result of [`max_step_back`](Clock::max_step_back); 0 unless overridden.
    const MAX_STEP_BACK: u64 = 0;
}

impl<C: FixedFrequency + ?Sized> FixedFrequency for &C {
    const HERTZ: u64 = C::HERTZ;
    const MAX_STEP_BACK: u64 = C::MAX_STEP_BACK;
}

impl<C: Clock + ?Sized> Clock for &C {
    #[inline]
    fn now(&self) -> u64 {
        (**self).now()
    }

    #[inline]
    fn frequency(&self) -> u64 {
        (**self).frequency()
    }

    #[inline]
    fn max_step_back(&self) -> u64 {
        (**self).max_step_back()
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<C: Clock + ?Sized> Clock for alloc::sync::Arc<C> {
    #[inline]
    fn now(&self) -> u64 {
        (**self).now()
    }

    #[inline]
    fn frequency(&self) -> u64 {
        (**self).frequency()
    }

    #[inline]
    fn max_step_back(&self) -> u64 {
        (**self).max_step_back()
    }
}
