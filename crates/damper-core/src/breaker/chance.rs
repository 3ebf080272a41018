//! What looks like chance where there is no source of it: for the jitter of cooldowns, not for secrets.

/// A number that differs from place to place and from moment to moment, spread evenly over all 64 bits.
pub(super) const fn chance(place: u64, moment: u64) -> u64 {
    // Turned by half, so that the low bits of the two, which differ most, do not meet.
    mixed(place ^ moment.rotate_left(32))
}

/// As the generator splitmix64 mixes its state.
const fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::{chance, mixed};

    /// The first numbers of splitmix64 from the seed 0.
    #[test]
    fn mixes_as_splitmix64() {
        let steps = (1..4u64).map(|step| mixed(step.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        assert!(steps.eq([0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]));
    }

    /// Places side by side, a microsecond apart.
    #[test]
    fn neighbours_are_spread_evenly() {
        let mut sixteenths = [0u32; 16];
        for (place, moment) in (0..64).flat_map(|place| (0..64).map(move |moment| (place, moment))) {
            sixteenths[(chance(0x7FFF_0000_1000 + place * 64, 1_000_000 + moment) >> 60) as usize] += 1;
        }
        assert!(sixteenths.iter().all(|count| (192..320).contains(count)), "{sixteenths:?}");
    }
}
