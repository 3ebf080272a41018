//! A frequency in 32 bits.

/// Ticks per second as `mantissa · 2^exponent`, rounded down to 26 significant bits.
///
/// ```text
///  31       6 5        0
/// | MANTISSA | EXPONENT |
/// ```
///
/// Small enough to travel in every answer. Exact for every frequency whose odd part is below 2^26, so for all
/// that people choose (10^9, 32,768, 84 MHz); a measured one is at most 3·10^-8 too low, so that a wait converted
/// with it is never too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frequency(u32);

const EXPONENT_BITS: u32 = 6;
const MANTISSA_BITS: u32 = u32::BITS - EXPONENT_BITS;

impl Frequency {
    pub(crate) const fn from_hertz(hertz: u64) -> Self {
        // First drop the zeros, which loses nothing, then what does not fit.
        let zeros = if hertz == 0 { 0 } else { hertz.trailing_zeros() };
        let odd = hertz >> zeros;
        let excess = (u64::BITS - odd.leading_zeros()).saturating_sub(MANTISSA_BITS);
        Self((((odd >> excess) as u32) << EXPONENT_BITS) | (zeros + excess))
    }

    /// The nearest frequency that is exact.
    #[cfg(feature = "std")]
    pub(crate) const fn nearest(hertz: u64) -> Self {
        let excess = (u64::BITS - hertz.leading_zeros()).saturating_sub(MANTISSA_BITS);
        Self::from_hertz(hertz.saturating_add((1 << excess) >> 1))
    }

    pub(crate) const fn hertz(self) -> u64 {
        ((self.0 >> EXPONENT_BITS) as u64) << (self.0 & ((1 << EXPONENT_BITS) - 1))
    }

    /// The field as stored in a packed word.
    pub(crate) const fn to_bits(self) -> u32 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::Frequency;

    #[test]
    fn usual_frequencies_are_exact() {
        for hertz in [0, 1, 50, 1_000, 32_768, 1_000_000, 16_000_000, 84_000_000, 1_000_000_000, 1 << 63] {
            assert_eq!(Frequency::from_hertz(hertz).hertz(), hertz);
        }
    }
}
