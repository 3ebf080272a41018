//! The fields of a packed word.

/// Some adjacent bits of a 64-bit word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    offset: u32,
    bits: u32,
}

impl Field {
    /// The lowest `bits` of a word.
    pub(crate) const fn lowest(bits: u32) -> Self {
        Self { offset: 0, bits }
    }

    /// The `bits` from this offset on.
    pub(crate) const fn at(offset: u32, bits: u32) -> Self {
        Self { offset, bits }
    }

    /// The `bits` above this field.
    pub(crate) const fn then(self, bits: u32) -> Self {
        Self { offset: self.end(), bits }
    }

    /// The number of bits up to the end of this field.
    ///
    /// That of the last field shows whether the fields tile the word.
    pub(crate) const fn end(self) -> u32 {
        self.offset + self.bits
    }

    pub(crate) const fn bits(self) -> u32 {
        self.bits
    }

    /// The largest value that fits.
    pub(crate) const fn max(self) -> u64 {
        u64::MAX >> (u64::BITS - self.bits)
    }

    /// The bits of a word that belong to this field.
    pub(crate) const fn mask(self) -> u64 {
        self.max() << self.offset
    }

    pub(crate) const fn get(self, word: u64) -> u64 {
        (word >> self.offset) & self.max()
    }

    /// `value` in its place; bits that do not fit are cut off, which is how generations and times wrap.
    pub(crate) const fn put(self, value: u64) -> u64 {
        (value & self.max()) << self.offset
    }

    /// How far `one` is ahead of `other`, both as far as the field has them.
    ///
    /// They wrap, so only nearby ones can be compared.
    #[inline]
    pub(crate) const fn ahead(self, one: u64, other: u64) -> i64 {
        signed(one.wrapping_sub(other), self.bits)
    }
}

/// The lowest `bits` of a number that wraps, as a signed number.
#[inline]
pub(crate) const fn signed(number: u64, bits: u32) -> i64 {
    let unused = u64::BITS - bits;
    (number << unused) as i64 >> unused
}
