//! The fields of a packed word.

/// A group of adjacent bits in a 64-bit word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    offset: u32,
    bits: u32,
}

impl Field {
    /// Creates a field of the lowest `bits` of a word.
    pub(crate) const fn lowest(bits: u32) -> Self {
        Self { offset: 0, bits }
    }

    /// Creates a field of the `bits` from this offset on.
    pub(crate) const fn at(offset: u32, bits: u32) -> Self {
        Self { offset, bits }
    }

    /// Returns the field of the `bits` above this one.
    pub(crate) const fn then(self, bits: u32) -> Self {
        Self { offset: self.end(), bits }
    }

    /// Returns the number of bits up to the end of this field.
    ///
    /// For the last field it shows whether the fields tile the word.
    pub(crate) const fn end(self) -> u32 {
        self.offset + self.bits
    }

    pub(crate) const fn bits(self) -> u32 {
        self.bits
    }

    /// Returns the largest value that fits.
    pub(crate) const fn max(self) -> u64 {
        u64::MAX >> (u64::BITS - self.bits)
    }

    /// Returns the mask of the bits that belong to this field.
    pub(crate) const fn mask(self) -> u64 {
        self.max() << self.offset
    }

    pub(crate) const fn get(self, word: u64) -> u64 {
        (word >> self.offset) & self.max()
    }

    /// Returns a word with `value` in this field.
    ///
    /// Bits that do not fit are cut off, so that generations and times wrap.
    pub(crate) const fn put(self, value: u64) -> u64 {
        (value & self.max()) << self.offset
    }

    /// Returns how far the value `one` of this field is ahead of `other`.
    ///
    /// Values wrap, so only nearby ones can be compared.
    #[inline]
    pub(crate) const fn ahead(self, one: u64, other: u64) -> i64 {
        signed(one.wrapping_sub(other), self.bits)
    }
}

/// Returns the lowest `bits` of a wrapping number as a signed number.
#[inline]
pub(crate) const fn signed(number: u64, bits: u32) -> i64 {
    let unused = u64::BITS - bits;
    (number << unused) as i64 >> unused
}
