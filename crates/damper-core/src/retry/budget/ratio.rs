//! Retries per call, in thousandths.

use crate::out_of_range::{OutOfRange, check};

const THOUSAND: u32 = 1_000;

/// Retries per call, from 0 to 100, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Ratio(u32);

impl Ratio {
    /// A fifth.
    pub(super) const DEFAULT: Self = Self(200);

    /// Rounds a number to thousandths.
    pub(super) const fn new(ratio: f64) -> Result<Self, OutOfRange> {
        check!(check_ratio("ratio", ratio, 0.0..=100.0));
        Ok(Self((ratio * THOUSAND as f64 + 0.5) as u32))
    }

    pub(super) const fn thousandths(self) -> u32 {
        self.0
    }

    /// Returns a call's deposit and a retry's cost, in the largest unit in which both are whole numbers.
    pub(super) const fn in_units(self) -> (u32, u32) {
        let unit = greatest_common_divisor(self.0, THOUSAND);
        (self.0 / unit, THOUSAND / unit)
    }
}

const fn greatest_common_divisor(mut one: u32, mut other: u32) -> u32 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}
