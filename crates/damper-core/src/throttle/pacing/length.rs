//! Durations in 64 bits, with fractions of a nanosecond.

use crate::quota::Quota;
use crate::time::random;
use core::time::Duration;

/// The bits of a nanosecond's fraction in a [`Length`].
///
/// A limit of a thousand million calls subtracts a thousandth of a millionth from a sleep.
const FRACTION_BITS: u32 = 16;

const THOUSAND: u64 = 1_000;

/// A duration of at most 3.2 days, in units of 2^-16 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(in crate::throttle) struct Length(pub(in crate::throttle) u64);

impl Length {
    pub(in crate::throttle) const ZERO: Self = Self(0);

    /// A day: the longest sleep of a strategy.
    pub(in crate::throttle) const DAY: Self = Self::of(Duration::from_secs(24 * 60 * 60));

    /// Creates a length from a duration, of which at most 3.2 days count.
    pub(in crate::throttle) const fn of(duration: Duration) -> Self {
        let units = duration.as_nanos() << FRACTION_BITS;
        Self(if duration.as_secs() > u32::MAX as u64 || units > u64::MAX as u128 { u64::MAX } else { units as u64 })
    }

    /// Returns the time in which a quota brings one token, at most a day.
    pub(in crate::throttle) const fn per_token(quota: &Quota) -> Self {
        if quota.limit() == 0 {
            return Self::DAY;
        }
        let units = ((quota.window_nanos() as u128) << FRACTION_BITS) / quota.limit() as u128;
        if units > Self::DAY.0 as u128 { Self::DAY } else { Self(units as u64) }
    }

    /// Returns the length as a duration, rounded up to nanoseconds.
    pub(in crate::throttle) const fn duration(self) -> Duration {
        Duration::from_nanos(self.0.div_ceil(1 << FRACTION_BITS))
    }

    /// Returns the length in microseconds, rounded down.
    pub(in crate::throttle) const fn micros(self) -> u64 {
        (self.0 >> FRACTION_BITS) / THOUSAND
    }

    pub(in crate::throttle) const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(in crate::throttle) const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub(in crate::throttle) const fn at_most(self, longest: Self) -> Self {
        if self.0 < longest.0 { self } else { longest }
    }

    pub(in crate::throttle) const fn at_least(self, shortest: Self) -> Self {
        if self.0 > shortest.0 { self } else { shortest }
    }

    /// Returns `numerator / denominator` of the length, rounded down; the denominator is not 0.
    pub(in crate::throttle) const fn part(self, numerator: u64, denominator: u64) -> Self {
        let part = self.0 as u128 * numerator as u128 / denominator as u128;
        Self(if part > u64::MAX as u128 { u64::MAX } else { part as u64 })
    }

    /// Returns `thousandths` thousandths of the length, rounded down.
    pub(in crate::throttle) const fn thousandths(self, thousandths: u64) -> Self {
        self.part(thousandths, THOUSAND)
    }

    /// Returns the length with up to a tenth more as jitter.
    pub(in crate::throttle) const fn jittered(self, random: u64) -> Self {
        self.plus(Self(random::below(self.0 / 10 + 1, random)))
    }
}
