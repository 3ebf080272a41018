//! How keys are hashed.

use core::fmt;
use core::hash::BuildHasher;
use siphasher::sip::SipHasher13;

/// Hashes keys by SipHash-1-3 (Aumasson and Bernstein, 2012), as std's maps do, with a seed: the hasher of what names no
/// other.
///
/// Who knows the seed can choose keys that share a bucket, or crowd one another out. With the feature `std` each limiter
/// and store has a random one. Without, take it from a source of true randomness at each start where there is one; else
/// from what differs from device to device and an outsider does not know.
///
/// # Examples
///
/// ```
/// use core::hash::BuildHasher;
/// use damper::keyed::Seed;
///
/// let seed = Seed::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);
/// assert_eq!(seed.hash_one("node 7"), seed.hash_one("node 7"));
/// ```
#[derive(Clone, Copy)]
pub struct Seed([u64; 2]);

impl Seed {
    /// A seed of 128 bits.
    #[must_use]
    pub const fn new(first: u64, second: u64) -> Self {
        Self([first, second])
    }

    /// A seed by chance, another one each time: from where std's maps have theirs.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn random() -> Self {
        let chance = || std::hash::RandomState::new().hash_one(0);
        Self([chance(), chance()])
    }
}

impl BuildHasher for Seed {
    type Hasher = SipHasher13;

    #[inline]
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

/// Keeps it to itself.
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}
