//! The times in a breaker's word of 64 bits: they wrap, so only nearby ones can be compared.

use super::state_word::Word;

/// The bits of the end of a cooldown.
const UNTIL: u64 = u64::MAX >> (u64::BITS - u64::LAYOUT.until_bits());

/// The bits of the end of a half-open state.
const DEADLINE: u64 = u64::MAX >> (u64::BITS - u64::LAYOUT.deadline_bits());

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

    /// The microseconds since `earlier`; a time in the past appears as very far ahead.
    pub(super) const fn since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0) & UNTIL
    }
}

/// When the half-open state ends, counted in fractions of `max_half_open`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HalfOpenDeadline(u32);

impl HalfOpenDeadline {
    /// Into how many parts `max_half_open` is divided.
    pub(super) const PARTS: u64 = 4_096;

    /// The beginning of that part.
    pub(super) const fn at(part: u64) -> Self {
        Self((part & DEADLINE) as u32)
    }

    pub(super) const fn to_bits(self) -> u32 {
        self.0
    }

    /// Whether it has passed in the part `now`. One that lies further ahead than so many parts has passed long ago;
    /// half the circle is as far as it can lie.
    pub(super) const fn has_passed(self, now: u64, farthest: u64) -> bool {
        let ahead = (self.0 as u64).wrapping_sub(now) & DEADLINE;
        ahead == 0 || ahead > farthest || ahead > DEADLINE / 2
    }
}

#[cfg(test)]
mod tests {
    use super::{HalfOpenDeadline, WrappingMicros};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_wrap(micros in any::<u64>(), wait in 0..1u64 << 44) {
            let now = WrappingMicros::from_micros(micros);
            prop_assert_eq!(now.after(wait).since(now), wait);
        }

        #[test]
        fn half_open_ends_when_its_part_begins(
            now in 0..u64::MAX / 2,
            ahead in 0..=4_097u64,
            parts in 0..16_384u64,
        ) {
            let has_passed = HalfOpenDeadline::at(now + ahead).has_passed(now + parts, ahead);
            prop_assert_eq!(has_passed, parts >= ahead);
        }
    }
}
