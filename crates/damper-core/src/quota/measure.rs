//! What a line is measured in: tokens that drip in, or windows that pass.

use super::{Alignment, Quota};
use crate::time::Clock;

/// The position at which the line of a new limiter starts, if its bucket is to be full.
///
/// A word of 0 lies far enough behind it to read as full even to a thread whose clock is behind the one that
/// started the line.
const FULL_FOR_LONG: u64 = 1 << 60;

/// What a line is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Tokens, as they drip in.
    Tokens,
    /// Tokens whose positions are kept in 56 bits: the deepest debt is a quarter of their circle at the most.
    Levels,
    /// Windows of the quota: the whole part of a position is the number of a window.
    Windows(Alignment),
}

impl Measure {
    /// How much of it a window brings.
    pub(super) const fn per_window(self, quota: &Quota) -> u32 {
        match self {
            Self::Tokens | Self::Levels => quota.limit(),
            Self::Windows(_) => 1,
        }
    }

    /// What can be there at once, as `Timeline::full` has it.
    pub(super) const fn full(self, quota: &Quota, fraction_bits: u32) -> u64 {
        match self {
            Self::Tokens | Self::Levels if quota.is_unlimited() => 0,
            Self::Tokens | Self::Levels => (quota.burst_size() as u64) << fraction_bits,
            Self::Windows(_) => quota.limit() as u64,
        }
    }

    /// The deepest debt in it.
    pub(super) const fn deepest_debt(self, quota: &Quota) -> u64 {
        match self {
            Self::Tokens | Self::Levels if quota.is_unlimited() => 0,
            Self::Tokens | Self::Levels => quota.deepest_debt(),
            Self::Windows(_) => 1,
        }
    }

    /// The most bits of the deepest debt.
    pub(super) const fn debt_bits(self) -> u32 {
        match self {
            Self::Tokens => 61,
            Self::Levels => 54,
            // Leaves 7 bits for the number of a window, and 4 in the stamps of a sliding log.
            Self::Windows(_) => 58,
        }
    }

    /// The tick at which a line starts that is first used at the tick `now`.
    pub(super) fn origin(self, quota: &Quota, clock: &impl Clock, now: u64) -> u64 {
        match self {
            Self::Tokens | Self::Levels => now,
            Self::Windows(alignment) => alignment.boundary(quota, clock, now),
        }
    }

    /// The position at which a line starts on which `missing` tokens are missing.
    pub(super) const fn start(self, fraction_bits: u32, missing: u32) -> u64 {
        match (self, missing) {
            (Self::Tokens | Self::Levels, 0) => FULL_FOR_LONG,
            (Self::Tokens | Self::Levels, _) => ((missing as u64) << fraction_bits).wrapping_neg(),
            // The window after that of a word of 0.
            (Self::Windows(_), _) => 1 << fraction_bits,
        }
    }
}
