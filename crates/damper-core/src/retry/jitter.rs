//! How much of a wait is left to chance.

use crate::time::random;

/// How much of a wait is left to chance, so that callers who failed together do not come back together.
///
/// Every variant is drawn between two bounds, and the [longest delay](super::Backoff::max_delay) limits the bounds and
/// not what was drawn: else all that was drawn beyond it would come back at exactly that time. With `d` the delay that
/// the backoff says, and `base` its first one:
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
/// a server the least; `Proportional` is gRPC's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Jitter {
    /// None: all who failed together come back together.
    None,
    /// From nothing to the whole delay. The default.
    #[default]
    Full,
    /// From half of the delay to all of it.
    Equal,
    /// From the first delay to three times the previous wait. The backoff's growth does not matter.
    Decorrelated,
    /// From 0.8 to 1.2 of the delay.
    Proportional,
}

/// What a wait is drawn from, in nanoseconds; all are at most 2^63 - 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    /// The delay that the backoff says, which is at most `longest`.
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
        // `previous` may be less than a third of `base`, after another backoff.
        let range = most.saturating_sub(least);
        least + random::below(range + 1, random)
    }
}

const fn smaller(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}
