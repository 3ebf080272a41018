//! A wait in ticks.

use super::Frequency;
use core::time::Duration;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A wait, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(u64);

impl Ticks {
    pub(crate) const ZERO: Self = Self(0);
    /// No wait helps.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// A finite wait, of at most 2^64 - 2 ticks.
    pub(crate) const fn new(ticks: u64) -> Self {
        if ticks == u64::MAX { Self(u64::MAX - 1) } else { Self(ticks) }
    }

    /// The ticks in a duration, rounded down.
    pub(crate) fn within(duration: Duration, frequency: Frequency) -> Self {
        let ticks = duration.as_nanos().saturating_mul(u128::from(frequency.hertz())) / NANOS_PER_SECOND;
        Self::new(u64::try_from(ticks).unwrap_or(u64::MAX))
    }

    /// As many ticks as [`count`](Self::count) said.
    pub(crate) const fn of_count(count: u64) -> Self {
        Self(count)
    }

    /// The number of ticks; `u64::MAX` for a wait that never ends.
    pub(crate) const fn count(self) -> u64 {
        self.0
    }

    /// The rest of this wait after another; a wait that never ends stays one.
    pub(crate) const fn less(self, other: Self) -> Self {
        if self.0 == u64::MAX { self } else { Self(self.0.saturating_sub(other.0)) }
    }

    /// The shortest duration, in whole nanoseconds, that is no shorter than these ticks.
    pub(crate) fn duration(self, frequency: Frequency) -> Option<Duration> {
        let hertz = frequency.hertz();
        if self == Self::ZERO {
            return Some(Duration::ZERO);
        }
        if self == Self::NEVER || hertz == 0 {
            return None;
        }
        let (seconds, rest) = (self.0 / hertz, self.0 % hertz);
        let nanos = match rest.checked_mul(NANOS_PER_SECOND as u64) {
            Some(product) => product.div_ceil(hertz),
            // Of a clock that is faster than 18 GHz.
            None => (u128::from(rest) * NANOS_PER_SECOND).div_ceil(u128::from(hertz)) as u64,
        };
        // `nanos` may be a whole second by rounding up; the sum stays far below `Duration::MAX`.
        Some(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos)))
    }
}

#[cfg(test)]
mod tests {
    use super::Ticks;
    use crate::time::Frequency;
    use core::time::Duration;
    use proptest::prelude::*;

    #[test]
    fn ticks_per_second_last_a_second() {
        for hertz in [1, 1_000, 32_768, 1_000_000_000] {
            let frequency = Frequency::from_hertz(hertz);
            assert_eq!(Ticks::new(hertz).duration(frequency), Some(Duration::from_secs(1)));
        }
        assert_eq!(Ticks::new(1).duration(Frequency::from_hertz(3)), Some(Duration::from_nanos(333_333_334)));
        assert_eq!(Ticks::NEVER.duration(Frequency::from_hertz(3)), None);
        assert_eq!(Ticks::new(1).duration(Frequency::from_hertz(0)), None);
    }

    proptest! {
        #[test]
        fn waits_are_rounded_up_by_less_than_a_nanosecond(hertz in 1..u64::MAX, ticks in 0..u64::MAX) {
            let rounded = Frequency::from_hertz(hertz).hertz();
            prop_assert!(rounded <= hertz);
            prop_assert!(u128::from(hertz - rounded) << 25 <= u128::from(hertz));
            let nanos = Ticks::new(ticks).duration(Frequency::from_hertz(hertz)).unwrap().as_nanos();
            prop_assert!(nanos * u128::from(rounded) >= u128::from(ticks) * 1_000_000_000);
            prop_assert!(nanos == 0 || (nanos - 1) * u128::from(rounded) < u128::from(ticks) * 1_000_000_000);
        }
    }
}
