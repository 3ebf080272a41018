//! Binary logarithms and their inverse, without `std` and its `libm`.

/// The bits after the point of a logarithm by [`log2_fixed`].
pub(super) const FRACTION_BITS: u32 = 10;

/// The bits of such a logarithm; those before the point hold 0 to 63.
pub(super) const LOG2_BITS: u32 = 6 + FRACTION_BITS;

/// The bits after the leading one that count.
const INDEX_BITS: u32 = 7;

/// The logarithms of 1 to 2, in the middle of each 128th.
const FRACTIONS: [u16; 1 << INDEX_BITS] = {
    let mut fractions = [0; 1 << INDEX_BITS];
    let mut index = 0;
    while index < fractions.len() {
        fractions[index] = fraction((2 * index as u64 + 1) << (WORKING_BITS - INDEX_BITS - 1)) as u16;
        index += 1;
    }
    fractions
};

/// The bits that the table is computed with.
const WORKING_BITS: u32 = 16;

/// The coefficients of log2(1 + f) ≈ f + f (1 − f) (A − B f) for f from 0 to 1, exact at both ends.
///
/// They minimize the largest error.
const A: u64 = 27_464;
const B: u64 = 9_788;

/// Returns log2(1 + f), for `f` in units of 2^-16, in units of 2^-10.
const fn fraction(f: u64) -> u64 {
    const ONE: u64 = 1 << WORKING_BITS;
    const UNIT: u32 = WORKING_BITS - FRACTION_BITS;
    let arc = (f * (ONE - f)) >> WORKING_BITS;
    let curve = (arc * (A - ((B * f) >> WORKING_BITS))) >> WORKING_BITS;
    (f + curve + (1 << (UNIT - 1))) >> UNIT
}

/// Returns the binary logarithm of a number, in units of 2^-10; of 0 as of 1.
///
/// It is at most 0.0075 off, which is 0.5 % of the number, and in the mean of different numbers much less.
///
/// It never decreases as the number grows.
#[inline]
pub(super) const fn log2_fixed(number: u64) -> u64 {
    let exponent = (number | 1).ilog2();
    // The leading one is the lowest bit then, and the bits after it the highest ones.
    let index = number.rotate_right(exponent) >> (u64::BITS - INDEX_BITS);
    ((exponent as u64) << FRACTION_BITS) + FRACTIONS[index as usize] as u64
}

/// Returns the mean of `count` logarithms by [`log2_fixed`].
#[expect(clippy::cast_precision_loss, reason = "a sum has fewer bits than a bank")]
pub(super) fn mean(sum: u64, count: u32) -> f64 {
    sum as f64 / f64::from(count) / f64::from(1 << FRACTION_BITS)
}

/// Returns 2^x, to 8 digits; 0 below the smallest number, and infinite above the greatest.
pub(in crate::concurrency) fn exp2(x: f64) -> f64 {
    const BIAS: i32 = 1_023;
    // Comparisons first: a cast saturates, and the sum below would not fit.
    if x >= 1_024.0 {
        return f64::INFINITY;
    }
    if x < -1_022.0 {
        return 0.0;
    }
    // To the nearest, so that the remainder is within -0.5 and 0.5.
    let whole = (x + if x < 0.0 { -0.5 } else { 0.5 }) as i32;
    if whole + BIAS > 2_046 {
        return f64::INFINITY;
    }
    let power = f64::from_bits(((whole + BIAS) as u64) << (f64::MANTISSA_DIGITS - 1));
    // e^y by its series, whose next term would be below 1 in 10^9.
    let y = (x - f64::from(whole)) * core::f64::consts::LN_2;
    let mut series = 1.0;
    let mut n = 8.0;
    while n >= 1.0 {
        series = 1.0 + series * y / n;
        n -= 1.0;
    }
    power * series
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "far less than the errors that are stated")]
mod tests {
    use super::{FRACTION_BITS, exp2, log2_fixed, mean};
    use std::vec::Vec;

    fn numbers() -> impl Iterator<Item = u64> {
        let small = 1..70_000;
        let spread =
            (0..64).flat_map(|bit| (0..997).map(move |part| (1u64 << bit).saturating_add((1u64 << bit) / 997 * part)));
        small.chain(spread).chain([u64::MAX])
    }

    #[test]
    fn logarithm_is_close_to_that_of_std() {
        let units = f64::from(1 << FRACTION_BITS);
        let worst = numbers().map(|n| (log2_fixed(n) as f64 / units - (n as f64).log2()).abs()).fold(0.0, f64::max);
        assert!(worst < 0.007_5, "{worst}");
        assert_eq!((log2_fixed(0), log2_fixed(2)), (log2_fixed(1), log2_fixed(1) + (1 << FRACTION_BITS)));
        assert!(log2_fixed(u64::MAX) <= 64 << FRACTION_BITS);
    }

    #[test]
    fn logarithm_never_decreases() {
        let mut numbers: Vec<u64> = numbers().collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| log2_fixed(pair[0]) <= log2_fixed(pair[1])));
    }

    #[test]
    fn power_is_that_of_std() {
        for x in (-50_000..50_000).map(|n| f64::from(n) / 731.0) {
            assert!((exp2(x) / x.exp2() - 1.0).abs() < 1e-8, "{x}");
        }
        assert_eq!((exp2(0.0), exp2(10.0), exp2(-1.0)), (1.0, 1_024.0, 0.5));
        assert_eq!((exp2(1e300), exp2(-1e300), exp2(1_023.9)), (f64::INFINITY, 0.0, f64::INFINITY));
    }

    #[test]
    fn mean_is_the_geometric_one() {
        let sum = log2_fixed(100) + log2_fixed(10_000);
        assert!((exp2(mean(sum, 2)) / 1_000.0 - 1.0).abs() < 0.005);
    }
}
