//! The fingerprint of a key: 64 bits of its hash, which identify the key in the table.

use core::num::NonZeroU64;

/// The hash that identifies a key. It is never 0, because a stored 0 marks a vacant slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(NonZeroU64);

/// 2^64 divided by the golden ratio, which is the factor of Fibonacci hashing.
///
/// See Knuth, The Art of Computer Programming, volume 3, section 6.4.
const MIXER: NonZeroU64 = NonZeroU64::new(0x9E37_79B9_7F4A_7C15).expect("it is not 0");

/// 2^64 divided by the plastic number.
///
/// A key can have a slot in two sets of slots. The number of the first comes from [`MIXER`], and that of the second
/// from this factor. With these two factors the pairs of sets are spread evenly, too.
const SECOND_MIXER: u64 = 0xC13F_A9A9_02A6_328F;

/// A third odd factor, which makes a key's line of shared words independent of its sets of slots.
///
/// Any odd number of 64 random bits would do.
const OTHER_MIXER: u64 = 0xAF25_1AF3_B0F0_25B5;

impl Fingerprint {
    #[inline]
    pub(crate) fn of(hash: u64) -> Self {
        // A hasher of the caller's own may return an integer key unchanged, so a hash of 0 is not rare. It is replaced
        // by `MIXER`, a hash that hardly any key has.
        Self(NonZeroU64::new(hash).unwrap_or(MIXER))
    }

    /// Reads the fingerprint that a slot stores; `None` if the slot is vacant.
    #[inline]
    pub(super) fn from_stored(fingerprint: u64) -> Option<Self> {
        NonZeroU64::new(fingerprint).map(Self)
    }

    #[inline]
    pub(in crate::keyed) fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the number of the key's first set of slots; `sets` is less than 2^32.
    #[inline]
    pub(crate) fn first_set(self, sets: usize) -> usize {
        // A hasher of the caller's own may mix the bits badly. The upper bits of the product are mixed best.
        scaled(self.get().wrapping_mul(MIXER.get()), sets)
    }

    /// Returns the number of the key's second set of slots; `sets` is less than 2^32.
    #[inline]
    pub(crate) fn second_set(self, sets: usize) -> usize {
        scaled(self.get().wrapping_mul(SECOND_MIXER), sets)
    }

    /// Returns the number of the key's line of shared words; `lines` is less than 2^32.
    ///
    /// The number is independent of the key's sets of slots.
    pub(super) fn shared_line(self, lines: usize) -> usize {
        scaled(self.get().wrapping_mul(OTHER_MIXER), lines)
    }

    /// Returns a short form of the fingerprint: a number from 1 to `most`. `most` is below 2^32.
    ///
    /// It is for slots without room for the whole fingerprint. The number is independent of the key's sets of slots.
    #[cfg(target_has_atomic = "64")]
    pub(crate) fn short(self, most: u64) -> u64 {
        1 + scaled(self.get().wrapping_mul(OTHER_MIXER), most as usize) as u64
    }

    /// Returns the tag that names the key in a shared word: a number from 1 to `most`. `most` is below 2^16.
    ///
    /// The tag is independent of the key's sets of slots and of its line of shared words.
    pub(super) fn tag(self, most: u64) -> u64 {
        let bits = self.get().wrapping_mul(OTHER_MIXER) >> 16 & 0xFFFF;
        1 + ((bits * most) >> 16)
    }
}

/// Maps `number` to `0..count` in proportion, so that its upper bits decide. `count` is less than 2^32.
#[inline]
fn scaled(number: u64, count: usize) -> usize {
    // This is one multiplication on targets whose words have 64 bits.
    #[cfg(target_pointer_width = "64")]
    return ((u128::from(number) * count as u128) >> 64) as usize;
    #[cfg(not(target_pointer_width = "64"))]
    return (((number >> 32) * count as u64) >> 32) as usize;
}
