//! The times in a breaker's word of 64 bits: they wrap, so only nearby ones can be compared.
//!
//! A time has 44 bits of microseconds, so it wraps after 203 days. One that seems to lie more than half of that ahead is read as
//! past. So a cooldown lasts at most 100 days.

use super::state_word::Word;

/// The bits of a cooldown's end.
const UNTIL: u64 = u64::MAX >> (u64::BITS - u64::LAYOUT.until_bits());

/// A time in microseconds as the word keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrappingMicros(u64);

impl WrappingMicros {
    /// How far ahead a time can lie, in microseconds: half the range.
    pub(super) const FARTHEST: u64 = UNTIL / 2;

    pub(super) const fn from_micros(micros: u64) -> Self {
        Self(micros & UNTIL)
    }

    pub(super) const fn to_bits(self) -> u64 {
        self.0
    }

    pub(super) const fn after(self, micros: u64) -> Self {
        Self::from_micros(self.0.wrapping_add(micros))
    }

    /// Returns the microseconds since `earlier`; a time in the past appears as very far ahead.
    pub(super) const fn since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0) & UNTIL
    }
}

#[cfg(test)]
mod tests {
    use super::WrappingMicros;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_wrap(micros in any::<u64>(), wait in 0..1u64 << 44) {
            let now = WrappingMicros::from_micros(micros);
            prop_assert_eq!(now.after(wait).since(now), wait);
        }
    }
}
