//! The attempts of a retry policy and their delays, in one word.

use super::Backoff;
use crate::setting::sealed::LiveValue;
use crate::sync::Field;
use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

/// The schedule of a retry policy.
///
/// ```text
///  63    56 55     28 27      0
/// | ATTEMPTS |   BASE | LONGEST |
/// ```
///
/// BASE and LONGEST are microseconds, as a mantissa of 23 bits and a binary exponent above it.
const LONGEST: Field = Field::lowest(28);
const BASE: Field = LONGEST.then(28);
const ATTEMPTS: Field = BASE.then(8);
const _: () = assert!(ATTEMPTS.end() == u64::BITS, "fields must tile the word");

/// The number of bits of a mantissa.
const MANTISSA: u32 = 23;

/// How many attempts a call makes, and the range of the delays between them.
///
/// These are the settings of a [`Retry`](super::Retry) that can change while calls are made, together: see
/// [`Retry::schedule`](super::Retry::schedule). The growth of the delays and their jitter are those of its [`Backoff`].
///
/// It has at most 255 attempts. Delays are in microseconds and have 23 significant bits. They are rounded up, by less than a
/// millionth of them, so that whole milliseconds up to a minute are exact.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::retry::RetrySchedule;
///
/// let schedule = RetrySchedule::new(5).base_delay(Duration::from_millis(50)).max_delay(Duration::from_secs(2));
/// assert_eq!(schedule.max_attempts(), 5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RetrySchedule(NonZeroU64);

impl RetrySchedule {
    /// Makes at most so many attempts, including the first. 0 counts as 1, and more than 255 as 255.
    ///
    /// The delays are those of [`Backoff::DEFAULT`]: 100 ms at first, and at most 20 s.
    #[must_use]
    pub const fn new(max_attempts: u32) -> Self {
        let attempts = if max_attempts < 255 { max_attempts as u64 } else { 255 };
        let delays = BASE.put(packed(Backoff::DEFAULT.base())) | LONGEST.put(packed(Backoff::DEFAULT.longest()));
        Self::of(ATTEMPTS.put(if attempts == 0 { 1 } else { attempts }) | delays)
    }

    /// Sets the first delay, without jitter. Default: 100 ms.
    #[must_use]
    pub const fn base_delay(self, delay: Duration) -> Self {
        Self::of(self.0.get() & !BASE.mask() | BASE.put(packed(delay)))
    }

    /// Sets the longest delay. Default: 20 s.
    #[must_use]
    pub const fn max_delay(self, longest: Duration) -> Self {
        Self::of(self.0.get() & !LONGEST.mask() | LONGEST.put(packed(longest)))
    }

    /// Returns the maximum number of attempts, including the first.
    #[must_use]
    pub const fn max_attempts(self) -> u32 {
        ATTEMPTS.get(self.0.get()) as u32
    }

    /// Returns this backoff with the delays of the schedule.
    pub(super) const fn applied_to(self, backoff: Backoff) -> Backoff {
        let (base, longest) = (unpacked(BASE.get(self.0.get())), unpacked(LONGEST.get(self.0.get())));
        backoff.beginning_with(base).max_delay(longest)
    }

    /// Creates a schedule from a word, which has at least one attempt.
    const fn of(word: u64) -> Self {
        match NonZeroU64::new(word) {
            Some(word) => Self(word),
            None => Self(NonZeroU64::MIN),
        }
    }
}

/// Returns the microseconds in a delay in 28 bits, rounded up.
const fn packed(delay: Duration) -> u64 {
    let micros = delay.as_nanos().div_ceil(1_000);
    let micros = if micros > u64::MAX as u128 >> 12 { u64::MAX >> 12 } else { micros as u64 };
    let exponent = (u64::BITS - micros.leading_zeros()).saturating_sub(MANTISSA);
    let mantissa = micros.div_ceil(1 << exponent);
    // Rounding up may carry into another bit.
    let (mantissa, exponent) =
        if mantissa >> MANTISSA == 0 { (mantissa, exponent) } else { (mantissa >> 1, exponent + 1) };
    (exponent as u64) << MANTISSA | mantissa
}

const fn unpacked(bits: u64) -> Duration {
    Duration::from_micros((bits & ((1 << MANTISSA) - 1)) << (bits >> MANTISSA))
}

impl LiveValue for RetrySchedule {
    #[inline]
    fn to_word(self) -> NonZeroU64 {
        self.0
    }

    #[inline]
    fn of_word(word: NonZeroU64) -> Self {
        Self(word)
    }
}

impl fmt::Debug for RetrySchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetrySchedule")
            .field("max_attempts", &self.max_attempts())
            .field("base_delay", &unpacked(BASE.get(self.0.get())))
            .field("max_delay", &unpacked(LONGEST.get(self.0.get())))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_milliseconds_up_to_a_minute_are_exact() {
        for millis in (0..60_000).chain([0, 1, 100, 60_000, 300_000]) {
            let delay = Duration::from_millis(millis);
            assert_eq!(unpacked(packed(delay)), delay);
        }
    }

    #[test]
    fn other_delays_are_rounded_up_by_less_than_a_millionth() {
        for bit in 0..52_u32 {
            for micros in [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1, (1 << bit) / 3 * 2 + 1] {
                let (delay, rounded) = (Duration::from_micros(micros), unpacked(packed(Duration::from_micros(micros))));
                assert!(rounded >= delay && rounded <= delay + delay / 1_000_000, "{delay:?} became {rounded:?}");
            }
        }
        assert_eq!(unpacked(packed(Duration::from_nanos(1))), Duration::from_micros(1));
        assert!(unpacked(packed(Duration::MAX)) >= Duration::from_secs(86_400 * 365 * 100));
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        let schedule = RetrySchedule::new(1_000).max_delay(Duration::MAX).base_delay(Duration::ZERO);
        assert_eq!(schedule.max_attempts(), 255);
        assert_eq!(schedule.base_delay(Duration::MAX).max_delay(Duration::ZERO).max_attempts(), 255);
        assert_eq!(RetrySchedule::new(0).max_attempts(), 1);
    }
}
