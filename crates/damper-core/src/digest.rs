//! A hash that is the same in all builds of a program.

/// An FNV hash of numbers (Fowler, Noll and Vo), whose upper bits are folded in after each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Digest(u64);

impl Digest {
    /// The digest of nothing.
    pub(crate) const EMPTY: Self = Self(0xCBF2_9CE4_8422_2325);

    /// Returns the digest with one more number.
    pub(crate) const fn with(self, number: u64) -> Self {
        let hash = (self.0 ^ number).wrapping_mul(0x0000_0100_0000_01B3);
        Self(hash ^ hash >> 29)
    }

    /// Returns the hash.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}
