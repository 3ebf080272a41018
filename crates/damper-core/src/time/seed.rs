//! How keys are hashed.

#[cfg(feature = "std")]
use super::random;
use core::fmt;
use core::hash::{BuildHasher, Hasher};
use siphasher::sip::SipHasher13;

/// Hashes keys by SipHash-1-3 with a seed, where no other hasher is named.
///
/// It is the algorithm of std's maps (Aumasson and Bernstein, 2012).
///
/// A client that knows the seed can choose keys that share a bucket, or crowd one another out. With the feature `std`
/// each limiter and store has a random one. Without, take it from a source of true randomness at each start where there
/// is one; else from what differs from device to device and an outsider does not know.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::hash::BuildHasher;
/// use damper::time::Seed;
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

    /// Returns the numbers of the seed, for processes that share it.
    #[cfg(target_has_atomic = "64")]
    pub(crate) const fn numbers(self) -> [u64; 2] {
        self.0
    }

    /// Draws a random seed, another one each time, from the source of std's maps.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn random() -> Self {
        Self([random::draw(), random::draw()])
    }
}

/// A random seed, as [`Seed::random`] draws it.
#[cfg(feature = "std")]
impl Default for Seed {
    fn default() -> Self {
        Self::random()
    }
}

impl BuildHasher for Seed {
    type Hasher = SeedHasher;

    #[inline]
    fn build_hasher(&self) -> SeedHasher {
        SeedHasher(SipHasher13::new_with_keys(self.0[0], self.0[1]))
    }
}

/// Hashes one key: made by a [`Seed`].
#[derive(Clone, Copy)]
pub struct SeedHasher(SipHasher13);

impl Hasher for SeedHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0.finish()
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.0.write_u8(number);
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.0.write_u16(number);
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0.write_u32(number);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0.write_u64(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.0.write_usize(number);
    }
}

/// Keeps the seed to itself.
impl fmt::Debug for SeedHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeedHasher(..)")
    }
}

/// Keeps it to itself.
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}
