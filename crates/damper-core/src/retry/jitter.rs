//! The random part of a wait.

use crate::time::random;

/// The random part of a wait, so that callers that failed together do not return together.
///
/// Every variant draws between two bounds. The [longest delay](super::Backoff::max_delay) caps the bounds, not the
/// result: otherwise all longer draws would return at exactly that time. With the backoff's delay `d` and its first
/// delay `base`:
///
/// | variant | drawn from |
/// |---|---|
/// | `None` | `d` |
/// | `Full` | 0 to `d` |
/// | `Equal` | `d / 2` to `d` |
/// | `Decorrelated` | `base` to three times the previous wait |
/// | `Proportional` | 0.8 `d` to 1.2 `d` |
///
/// The first four are those of Marc Brooker's "Exponential Backoff And Jitter" (AWS, 2015), which found `Full` to cost
/// a server the least. `Proportional` is gRPC's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Jitter {
    /// No jitter: all callers that failed together return together.
    None,
    /// The wait is from zero to the whole delay. The default.
    #[default]
    Full,
    /// The wait is from half of the delay to all of it.
    ///
    /// The formula of textbooks, `base + random(0, base)`, is this one with twice the base.
    Equal,
    /// The wait is from the first delay to three times the previous wait.
    ///
    /// It does not depend on the backoff's growth.
    Decorrelated,
    /// The wait is from 0.8 to 1.2 of the delay.
    Proportional,
}

/// The input of a draw, in nanoseconds. All values are at most 2^63 - 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    /// The backoff's delay, which is at most `longest`.
    pub(super) delay: u64,
    pub(super) base: u64,
    pub(super) previous: u64,
    pub(super) longest: u64,
}

impl Jitter {
    /// Draws a wait.
    pub(super) const fn draw(self, Draw { delay, base, previous, longest }: Draw, random: u64) -> u64 {
        let (least, most) = match self {
            Self::None => (delay, delay),
            Self::Full => (0, delay),
            Self::Equal => (delay / 2, delay),
            Self::Decorrelated => (smaller(base, longest), smaller(previous.saturating_mul(3), longest)),
            Self::Proportional => (delay - delay / 5, smaller(delay.saturating_add(delay / 5), longest)),
        };
        // `previous` may be less than a third of `base` after another backoff.
        let range = most.saturating_sub(least);
        least + random::below(range + 1, random)
    }
}

const fn smaller(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}
