//! A timer of few bits, counted on to 64.

use super::{Clock, FixedFrequency};
use crate::sync::{AtomicU32, Ordering, const_unless_loom, fence};

/// A timer of the hardware that counts up, wraps, and never stops: what [`ExtendedTimer`] makes a clock of.
pub trait Timer {
    /// Ticks per second.
    const HERTZ: u64;

    /// How many bits it counts in before it starts over from 0: 2 to 32, and 32 unless overridden.
    const BITS: u32 = 32;

    /// Reads it; what stands above its `BITS` is ignored. Neither blocks nor panics.
    ///
    /// One that counts down from all ones is read as its complement, `!register`. One that wraps elsewhere than at a
    /// power of two does not fit: a `SysTick` with a reload value for milliseconds, for example.
    fn count(&self) -> u32;
}

/// A [`Timer`] that wraps, as a clock that does not.
///
/// The main loop, interrupts and other cores may read it.
///
/// Put it in a `static` and share it by reference. It counts halves of the timer's period beside the timer, in a word
/// of 32 bits that its readers advance. Every reading is exact, even if it is interrupted, and no reader waits for
/// another.
///
/// # How often it has to be read
///
/// **At least once in every half of the timer's period**, by any reader: in 86 seconds of 32 bits at 25 MHz, in a third of
/// a second of `SysTick`'s 24 bits. A program whose main loop is slower than that reads it in the timer's overflow
/// interrupt, and in that of the half (a compare channel), or in any interrupt that comes as often: `_ = TIME.now();`.
///
/// Read less often it falls behind by whole periods, and may step back by less than one. Tokens then come late. A
/// [`RateLimiter`](crate::RateLimiter) never allows too many. A [`RateLimiter32`](crate::RateLimiter32) may allow a
/// burst too many for each step, because it cannot tell a debt from before the step from one of long ago.
///
/// # Range
///
/// It starts over after 2^31 periods: of 32 bits at 25 MHz after 11,000 years, of 24 bits after 45; of 16 bits at 1 MHz
/// after 4.4. That is a clock that steps back once.
///
/// # Cost
///
/// Two loads beside the timer's own reading: some twenty instructions on a Cortex-M4. Where there is no
/// compare-and-swap (Cortex-M0) the loads are critical sections.
///
/// # Examples
///
/// A timer of 24 bits that counts down:
///
/// ```
/// # extern crate damper_core as damper;
/// use core::sync::atomic::{AtomicU32, Ordering};
/// use damper::time::{ExtendedTimer, Timer};
/// use damper::{Clock, Quota, RateLimiter, TokenBucket};
///
/// static REGISTER: AtomicU32 = AtomicU32::new(5); // at 0x4000_0004, say
///
/// #[derive(Debug)]
/// struct Countdown;
///
/// impl Timer for Countdown {
///     const HERTZ: u64 = 25_000_000;
///     const BITS: u32 = 24;
///
///     fn count(&self) -> u32 {
///         !REGISTER.load(Ordering::Relaxed)
///     }
/// }
///
/// static TIME: ExtendedTimer<Countdown> = ExtendedTimer::new(Countdown);
/// static MESSAGES: RateLimiter<TokenBucket, &ExtendedTimer<Countdown>> =
///     RateLimiter::with_clock(Quota::per_second(10).burst(5), &TIME);
///
/// let before = TIME.now();
/// REGISTER.store((1 << 24) - 5, Ordering::Relaxed); // ten ticks later
/// assert_eq!(TIME.now() - before, 10);
/// assert!(MESSAGES.check().is_ok());
/// ```
#[derive(Debug)]
pub struct ExtendedTimer<T> {
    timer: T,
    /// The half of the timer's period at the last reading, counted from the start.
    ///
    /// The lowest bit is the highest of the timer, so that a reading shows whether the next half has begun.
    halves: AtomicU32,
}

impl<T: Timer> ExtendedTimer<T> {
    const_unless_loom! {
        /// A clock that starts within the timer's first period.
        #[must_use]
        pub const fn new(timer: T) -> Self {
            const { assert!(T::BITS >= 2 && T::BITS <= 32, "a timer has 2 to 32 bits") };
            Self { timer, halves: AtomicU32::new(0) }
        }
    }

    /// Once in every half.
    #[cold]
    fn begin_half_after(&self, halves: u32) {
        // ORDERING: Release pairs with the Acquire in `now`: a thread that sees the half reads a count no older than the
        // one it was begun for. Relaxed on failure: then another thread did it. loom-tests:
        // clock::every_reading_is_exact.
        _ = self.halves.compare_exchange(halves, halves.wrapping_add(1), Ordering::Release, Ordering::Relaxed);
    }
}

impl<T: Timer> Clock for ExtendedTimer<T> {
    #[inline]
    fn now(&self) -> u64 {
        let bits_of_half = T::BITS - 1;
        loop {
            // ORDERING: Acquire pairs with the Release in `begin_half_after`.
            let halves = self.halves.load(Ordering::Acquire);
            let count = self.timer.count();
            // Interrupted here for long, the count would be that of a later period. So the half is read again: if it is
            // the same, every half so far was read by some thread, and the count is of this half or of the next.
            // ORDERING: the Acquire fence keeps the second load behind the count. A thread that sees a count from before
            // a half was begun may see the half before, and the highest bit of the count shows that. loom-tests:
            // clock::every_reading_is_exact.
            fence(Ordering::Acquire);
            if self.halves.load(Ordering::Relaxed) != halves {
                continue;
            }
            let has_begun_next = (count >> bits_of_half ^ halves) & 1;
            if has_begun_next != 0 {
                self.begin_half_after(halves);
            }
            let half = halves.wrapping_add(has_begun_next);
            return u64::from(half) << bits_of_half | u64::from(count & !(u32::MAX << bits_of_half));
        }
    }

    #[inline]
    fn frequency(&self) -> u64 {
        T::HERTZ
    }

    /// 1 ms, though no reading is less than one before it.
    ///
    /// A processor may read the timer a little before the word that stands first in the program.
    #[inline]
    fn max_step_back(&self) -> u64 {
        Self::MAX_STEP_BACK
    }
}

impl<T: Timer> FixedFrequency for ExtendedTimer<T> {
    const HERTZ: u64 = T::HERTZ;
    const MAX_STEP_BACK: u64 = T::HERTZ.div_ceil(1_000);
}
