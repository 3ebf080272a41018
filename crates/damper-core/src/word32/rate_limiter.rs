//! The token bucket in one word of 32 bits.

use super::line::{Line32, Take32};
use crate::gate::Forecast;
use crate::limit::{Allowed, Denied, Limiter, Usage};
use crate::out_of_range::OutOfRange;
use crate::quota::Quota;
use crate::sync::{AtomicU32, Ordering, const_unless_loom};
use crate::time::{FixedFrequency, Frequency, Ticks};
use core::fmt;

/// A token bucket in 32 bits, lock-free where the target has atomics of 32.
///
/// On a Cortex-M4 it takes 64 bytes, and a check 39 instructions (`firmware/run` counts them).
///
/// In any stretch of time of `t` ticks at most `burst + rate · (t + 2 ticks)` tokens are allowed, for any number of
/// threads and interrupts. The rate is rounded up by less than 2^-29 of itself (more, where a burst takes decades to be
/// refilled), and a token may come early by the 2^-27th part of the time in which a burst is refilled, never late.
///
/// # Range
///
/// The burst is below 2^28. The word circles after sixteen times or more of the time in which a burst is refilled: a
/// bucket that was idle for so long reads as full for 15/16 of that time or more; for the rest it is judged more
/// strictly, as if up to a burst had been taken just now, until that is refilled. Never more is allowed by it. (10/s
/// with a burst of 10 on a clock of 1 MHz: a circle takes 27 minutes, and for one second of these it may refuse what it
/// should allow, if it was idle since the last time round. The finer the ticks, the shorter the circle: 26 s with
/// nanoseconds.) One that is made while its clock is not near tick 0 may begin so. Where the
/// clock steps back by more than it states and than a burst takes to be refilled, a burst may be given anew. Where the clock's 64 bits themselves
/// wrap, which nanoseconds do after 584 years, a burst may be given anew.
///
/// The quota is fixed; [`RateLimiter`](crate::RateLimiter) has one that can be changed, and much more.
///
/// # Memory ordering
///
/// It orders nothing else: it neither publishes nor acquires the memory of others.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::{CoarseClock, Quota, RateLimiter32};
///
/// static TIME: CoarseClock = CoarseClock::new(); // or a timer of your own
/// static MESSAGES: RateLimiter32<&CoarseClock> = match RateLimiter32::new(Quota::per_second(10).burst(2), &TIME) {
///     Ok(limiter) => limiter,
///     Err(_) => panic!("the burst is too large"),
/// };
///
/// assert!(MESSAGES.check().is_ok());
/// assert!(MESSAGES.check().is_ok());
/// let denied = MESSAGES.check().unwrap_err();
/// assert_eq!(denied.to_string(), "rate limit exceeded, retry in 100 ms");
/// ```
pub struct RateLimiter32<C> {
    word: AtomicU32,
    line: Line32,
    quota: Quota,
    clock: C,
}

impl<C: FixedFrequency + Copy> RateLimiter32<C> {
    const_unless_loom! {
        /// A full bucket.
        ///
        /// # Errors
        ///
        /// [`OutOfRange`] if the burst is 2^28 or more.
        pub const fn new(quota: Quota, clock: C) -> Result<Self, OutOfRange> {
            match Line32::new(&quota, C::HERTZ, C::MAX_STEP_BACK) {
                Ok(line) => Ok(Self { word: AtomicU32::new(0), line, quota, clock }),
                Err(error) => Err(error),
            }
        }
    }
}

impl<C: FixedFrequency> RateLimiter32<C> {
    /// Takes one token if it is there.
    ///
    /// # Errors
    ///
    /// [`Denied`], which has the time of the next attempt. A refusal writes nothing.
    #[expect(clippy::inline_always, reason = "the unused part of the answer is then not computed")]
    #[inline(always)]
    pub fn check(&self) -> Result<Allowed, Denied> {
        self.check_n(1)
    }

    /// Takes `n` tokens if all of them are there, else none.
    ///
    /// # Errors
    ///
    /// [`Denied`], which has the time of the next attempt, or says that `n` exceeds the burst. A refusal writes nothing.
    #[expect(clippy::inline_always, reason = "as `check`")]
    #[inline(always)]
    pub fn check_n(&self, n: u32) -> Result<Allowed, Denied> {
        if self.line.is_worth_a_try(n) {
            // The word first, then the clock: an interrupt between the two makes the reading later, never the word.
            let word = self.load();
            let at = self.line.position(self.clock.now());
            if let Take32::Taken(after) = self.line.take(word, at, n)
                && self.replace(word, after)
            {
                return Ok(self.allowed(Line32::owed(after, at)));
            }
        }
        self.check_slow(n)
    }

    #[cold]
    fn check_slow(&self, n: u32) -> Result<Allowed, Denied> {
        self.decide(n, |old, new| self.replace(old, new))
    }

    /// Decides about `n` tokens, and stores the word after them by `replace`, until it succeeds.
    fn decide(&self, n: u32, replace: impl Fn(u32, u32) -> bool) -> Result<Allowed, Denied> {
        loop {
            let word = self.load();
            let at = self.line.position(self.clock.now());
            let owed = self.line.surely_owed(word, at);
            if n == 0 || self.quota.is_unlimited() {
                return Ok(self.allowed(owed));
            }
            if !self.line.is_takeable(n) {
                return Err(self.denied(owed, Ticks::ZERO));
            }
            match self.line.take(at.wrapping_add(owed), at, n) {
                Take32::Taken(after) if replace(word, after) => return Ok(self.allowed(Line32::owed(after, at))),
                Take32::Taken(_) => {}
                Take32::Owed(owed) => return Err(self.denied(owed, self.line.wait_for(n, owed))),
            }
        }
    }

    /// Returns how much is used, and takes nothing.
    pub fn peek(&self) -> Usage {
        let word = self.load();
        let owed = self.line.surely_owed(word, self.line.position(self.clock.now()));
        let resets_in = self.line.wait(owed).duration(frequency::<C>());
        Usage::of(self.quota, self.remaining(owed), resets_in)
    }

    /// The quota.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    #[inline]
    fn remaining(&self, owed: u32) -> u32 {
        if self.quota.is_unlimited() { u32::MAX } else { self.line.remaining(owed) }
    }

    #[inline]
    fn allowed(&self, owed: u32) -> Allowed {
        Allowed::counted_by(frequency::<C>(), self.remaining(owed), self.line.wait(owed))
    }

    fn denied(&self, owed: u32, wait: Ticks) -> Denied {
        Denied::counted_by(frequency::<C>(), self.remaining(owed), self.line.wait(owed), wait)
    }

    #[inline]
    fn load(&self) -> u32 {
        // ORDERING: Relaxed, here and below. The word is the whole state and nothing else is published through it, so
        // the modification order of this one location is all that the compare-and-swap needs. loom-tests:
        // word32::burst_is_never_exceeded.
        self.word.load(Ordering::Relaxed)
    }

    #[inline]
    fn replace(&self, old: u32, new: u32) -> bool {
        self.word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl<C: FixedFrequency> Limiter for RateLimiter32<C> {
    #[inline]
    fn try_acquire(&self, n: u32) -> Result<(), Denied> {
        self.check_n(n).map(drop)
    }

    fn usage(&self) -> Usage {
        self.peek()
    }

    fn forecast(&self, n: u32) -> Forecast<Denied> {
        self.decide(n, |_, _| true).err().into()
    }
}

const fn frequency<C: FixedFrequency>() -> Frequency {
    const { Frequency::from_hertz(C::HERTZ) }
}

impl<C> fmt::Debug for RateLimiter32<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter32").field("quota", &self.quota).finish_non_exhaustive()
    }
}
