//! The numbers that an answer keeps to compute its waits later.

use super::shape::Shape;
use super::timeline::Pace;
use crate::time::{Frequency, Scale, Ticks};

/// The speed of a line and the reading that waits are counted from, or two waits that are known.
///
/// Packed by hand: as an enum it makes a check of two limits longer by 36 instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tempo {
    /// Units per tick, or the first wait.
    pub(super) scale: u64,
    /// Ticks per unit, or the second wait.
    pub(super) pace: u64,
    /// As in the timeline.
    pub(super) brought: u64,
    /// Also tells whether there is a line.
    pub(super) shape: Shape,
}

impl Tempo {
    /// Waits that are known, in ticks of a clock.
    #[inline]
    pub(crate) const fn known(waits: [Ticks; 2], frequency: Frequency) -> Self {
        let [first, second] = waits;
        Self { scale: first.count(), pace: second.count(), brought: 0, shape: Shape::of_clock(frequency) }
    }

    /// The waits that are known, if there is no line.
    pub(crate) const fn waits(&self) -> Option<[Ticks; 2]> {
        if self.shape.is_of_line() { None } else { Some([Ticks::of_count(self.scale), Ticks::of_count(self.pace)]) }
    }

    /// As [`Timeline::wait`](super::Timeline::wait); of a line.
    pub(crate) const fn wait(&self, units: u64) -> Ticks {
        let scale = Scale { mult: self.scale, shift: self.shape.shift() };
        let pace = Pace { mult: self.pace, shift: self.shape.pace_shift() };
        pace.wait(units, scale.fraction(self.brought), scale)
    }

    /// So many whole tokens in units; of a line.
    pub(crate) const fn units(&self, tokens: u32) -> u64 {
        (tokens as u64) << self.shape.fraction_bits()
    }

    /// So many units in whole tokens, rounded down; of a line, and of no more than a `u32` of tokens.
    pub(crate) const fn tokens(&self, units: u64) -> u32 {
        (units >> self.shape.fraction_bits()) as u32
    }

    pub(crate) const fn is_unlimited(&self) -> bool {
        self.shape.is_unlimited()
    }

    pub(crate) const fn frequency(&self) -> Frequency {
        self.shape.frequency()
    }
}
