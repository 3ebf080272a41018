//! The shifts, the fixed point and the clock of a line, in one word.
//!
//! ```text
//!  63           58 57      26 25  15   14      13        12        6 5    0
//! | FRACTION BITS | FREQUENCY | SPARE | LINE | UNLIMITED | PACE SHIFT | SHIFT |
//! ```
//!
//! A check needs the fields at the ends, where it costs least to get at them. An answer keeps the whole word.

use crate::sync::Field;
use crate::time::Frequency;

/// The shape of a quota's line.
const SHIFT: Field = Field::lowest(6);
const PACE_SHIFT: Field = SHIFT.then(7);
const UNLIMITED: Field = PACE_SHIFT.then(1);
/// Whether there is a line; an answer may have none.
const LINE: Field = UNLIMITED.then(1);
const SPARE: Field = LINE.then(11);
const FREQUENCY: Field = SPARE.then(32);
const FRACTION_BITS: Field = FREQUENCY.then(6);
const _: () = assert!(FRACTION_BITS.end() == u64::BITS, "fields must tile the word");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape(u64);

impl Shape {
    pub(super) const fn new(shift: u32, pace_shift: u32, fraction_bits: u32, frequency: Frequency) -> Self {
        Self(
            FRACTION_BITS.put(fraction_bits as u64)
                | PACE_SHIFT.put(pace_shift as u64)
                | SHIFT.put(shift as u64)
                | LINE.put(1)
                | FREQUENCY.put(frequency.to_bits() as u64),
        )
    }

    /// Of a clock, without a line.
    pub(super) const fn of_clock(frequency: Frequency) -> Self {
        Self(FREQUENCY.put(frequency.to_bits() as u64))
    }

    pub(super) const fn unlimited(self, unlimited: bool) -> Self {
        Self(self.0 | UNLIMITED.put(unlimited as u64))
    }

    #[inline]
    pub(super) const fn of_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    pub(super) const fn is_of_line(self) -> bool {
        LINE.get(self.0) != 0
    }

    /// The shift of the units per tick.
    #[inline]
    pub(super) const fn shift(self) -> u32 {
        SHIFT.get(self.0) as u32
    }

    /// The shift of the ticks per unit.
    #[inline]
    pub(super) const fn pace_shift(self) -> u32 {
        PACE_SHIFT.get(self.0) as u32
    }

    #[inline]
    pub(super) const fn fraction_bits(self) -> u32 {
        FRACTION_BITS.get(self.0) as u32
    }

    #[inline]
    pub(super) const fn frequency(self) -> Frequency {
        Frequency::from_bits(FREQUENCY.get(self.0) as u32)
    }

    #[inline]
    pub(super) const fn is_unlimited(self) -> bool {
        UNLIMITED.get(self.0) != 0
    }
}
