//! Converts ticks to units of a rate, by one multiplication and one shift.

/// Units per tick as a binary fraction, rounded up: `units = ticks · mult >> shift`.
///
/// `mult` stays below or at 2^62, so that its product with any signed 64-bit number of ticks fits 128 bits; `shift` is
/// the largest that allows it, 63 at most. Rounding up makes a unit at most early, by `ticks / 2^shift` units after so
/// many ticks, and never late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) mult: u64,
    pub(crate) shift: u32,
}

/// `mult` reaches this only by rounding up.
const MULT_BITS: u32 = 62;

const MAX_SHIFT: u32 = 63;

impl Scale {
    /// No units, however many ticks.
    pub(crate) const STOPPED: Self = Self { mult: 0, shift: 0 };

    /// `units / ticks`, rounded up; `STOPPED` where either is 0. At most 2^62 units per tick.
    pub(crate) const fn ratio(units: u128, ticks: u128) -> Self {
        Self::ratio_below(units, ticks, MULT_BITS)
    }

    /// As [`ratio`](Self::ratio), with a `mult` of at most `bits` bits: for packing.
    pub(crate) const fn ratio_below(units: u128, ticks: u128, bits: u32) -> Self {
        if units == 0 || ticks == 0 {
            return Self::STOPPED;
        }
        let mut quotient = units / ticks;
        let mut remainder = units % ticks;
        let mut shift = 0;
        // Long division, a bit a step. `remainder` is doubled without overflow: it is compared with half of what is
        // left.
        while shift < MAX_SHIFT && quotient < 1 << (bits - 1) {
            quotient <<= 1;
            if remainder >= ticks - remainder {
                remainder -= ticks - remainder;
                quotient |= 1;
            } else {
                remainder <<= 1;
            }
            shift += 1;
        }
        if remainder > 0 {
            quotient += 1;
        }
        Self { mult: quotient as u64, shift }
    }

    /// The units produced in a signed number of ticks, rounded down (towards the past).
    ///
    /// With the lowest 64 bits of the product, of which the lowest `shift` are what is rounded off.
    #[inline]
    pub(crate) const fn units(self, ticks: i64) -> (i64, u64) {
        if usize::BITS < u64::BITS {
            return (self.units_in_halves(ticks), (ticks as u64).wrapping_mul(self.mult));
        }
        // One signed multiplication and one double shift: `mult` fits an `i64`, and the mask says that `shift` is below
        // 64.
        let product = ticks as i128 * self.mult as i64 as i128;
        ((product >> (self.shift & MAX_SHIFT)) as i64, product as u64)
    }

    /// The part of a product that [`units`](Self::units) rounds off, in 2^-64 units.
    #[inline]
    pub(crate) const fn fraction(self, product: u64) -> u64 {
        // By 64 in all where `shift` is 0.
        (product << 1) << (MAX_SHIFT - (self.shift & MAX_SHIFT))
    }

    /// Whether `ticks` bring `units`, of which `part` was there before, in 2^-64 units. At most 2^64 units.
    #[inline]
    pub(crate) const fn brings(self, ticks: u64, units: u64, part: u64) -> bool {
        let product = ticks as u128 * self.mult as u128;
        let (_, is_whole) = self.fraction(product as u64).overflowing_add(part);
        (product >> (self.shift & MAX_SHIFT)) as u64 + is_whole as u64 >= units
    }

    /// As [`units`](Self::units), on 32 bits with half of the instructions.
    ///
    /// Two shifts by less than 32 stand in place of one by less than 64.
    #[inline]
    const fn units_in_halves(self, ticks: i64) -> i64 {
        let product = ticks as u64 as u128 * self.mult as u128;
        // A negative number is in the upper half modulo 2^64.
        let high = ((product >> 64) as u64).wrapping_sub(if ticks < 0 { self.mult } else { 0 });
        let low = product as u64;
        let (high, low) =
            if self.shift & 32 != 0 { (((high as i64) >> 32) as u64, high << 32 | low >> 32) } else { (high, low) };
        let shift = self.shift & 31;
        (low >> shift | high << 1 << (63 - shift)) as i64
    }

    /// The units produced in `ticks`, rounded down, modulo 2^64.
    #[inline]
    pub(crate) const fn wrapping_units(self, ticks: u64) -> u64 {
        ((ticks as u128 * self.mult as u128) >> (self.shift & MAX_SHIFT)) as u64
    }

    /// The units produced in `ticks`, rounded down; 2^64 - 1 if there are more.
    pub(crate) const fn saturating_units(self, ticks: u64) -> u64 {
        let units = (ticks as u128 * self.mult as u128) >> self.shift;
        if units > u64::MAX as u128 { u64::MAX } else { units as u64 }
    }

    /// The inverse, rounded up: ticks per unit as a binary fraction with 64 significant bits.
    pub(crate) const fn inverse(self) -> Inverse {
        if self.mult == 0 {
            return Inverse { mult: 0, shift: 0 };
        }
        // 2^exponent / mult lies in 2^63..2^64, or is exactly 2^63 where `mult` is a power of two.
        let bits = u64::BITS - self.mult.leading_zeros();
        let exponent = if self.mult.is_power_of_two() { bits - 1 } else { bits } + 63;
        let mult = (1u128 << exponent).div_ceil(self.mult as u128);
        // 1/scale = 2^shift / scale.mult; a shift below 0 would be a unit longer than 2^63 ticks.
        if exponent < self.shift {
            return Inverse { mult: u64::MAX, shift: 0 };
        }
        // Rounded up to 2^64 exactly only if 2^exponent / mult > 2^64 - 1, which a 62-bit `mult` excludes.
        Inverse { mult: mult as u64, shift: exponent - self.shift }
    }
}

/// Ticks per unit: `ticks = units · mult >> shift`; `mult` is rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inverse {
    pub(crate) mult: u64,
    pub(crate) shift: u32,
}

#[cfg(test)]
mod tests {
    use super::Scale;
    use proptest::prelude::*;

    proptest! {
        /// Against the definition: `mult / 2^shift` is the smallest sufficient fraction.
        ///
        /// That is the smallest which is no less than `units / ticks`.
        #[test]
        fn ratio_is_rounded_up_by_less_than_one_step(units in 1..u64::MAX, ticks in 1..u64::MAX, narrow in 0..60u32) {
            let units = units >> narrow.max(2);
            prop_assume!(units > 0);
            let scale = Scale::ratio(units.into(), ticks.into());
            prop_assert!(scale.shift <= 63 && scale.mult <= 1 << 62);
            // How many whole units so many ticks are, with a given `mult`.
            let produced = |mult: u64| (u128::from(mult) * u128::from(ticks)) >> scale.shift;
            prop_assert!(produced(scale.mult) >= u128::from(units));
            prop_assert!(produced(scale.mult - 1) < u128::from(units));
        }

        #[test]
        fn units_in_halves_match_units(mult in 0..=1u64 << 62, shift in 0..64u32, ticks: i64) {
            let scale = Scale { mult, shift };
            prop_assert_eq!(scale.units_in_halves(ticks), scale.units(ticks).0);
        }

        #[test]
        fn inverse_turns_units_back_into_ticks(units in 1..u64::MAX, ticks in 1..u64::MAX, narrow in 2..60u32, n in 1..1u64 << 40) {
            let scale = Scale::ratio(u128::from(units >> narrow).max(1), ticks.into());
            let inverse = scale.inverse();
            prop_assume!(inverse.shift > 0);
            let exact = (u128::from(n) << scale.shift).div_ceil(u128::from(scale.mult));
            let found = (u128::from(n) * u128::from(inverse.mult)) >> inverse.shift;
            // Within one of the exact quotient where that fits a reasonable wait.
            prop_assume!(exact < 1 << 62);
            prop_assert!(found + 1 >= exact && found <= exact + 1, "{found} for {exact}");
        }
    }
}
