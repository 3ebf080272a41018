//! The random part of a wait.

use crate::out_of_range::{OutOfRange, check};
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
/// | `Spread` | `d` less a part of it to `d` more that part |
///
/// The first four are those of Marc Brooker's "Exponential Backoff And Jitter" (AWS, 2015), which found `Full` to cost
/// a server the least. gRPC's is [`PROPORTIONAL`](Jitter::PROPORTIONAL), a spread of 0.2.
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
    /// The wait is from the delay less a part of it to the delay more that part. Made by [`spread`](Self::spread).
    #[non_exhaustive]
    Spread {
        /// The part, in thousandths.
        thousandths: u16,
    },
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
    /// The wait is from 0.8 to 1.2 of the delay, as gRPC's.
    pub const PROPORTIONAL: Self = Self::Spread { thousandths: 200 };

    /// Spreads waits around the delay: by `part` of it at most, 0.0 to 1.0, rounded to thousandths.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], if the part is out of this range.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::Backoff;
    /// use damper::retry::Jitter;
    ///
    /// // 0.7 to 1.3 s, then 1.4 to 2.6 s, then 2.1 to 3.9 s …
    /// let backoff = Backoff::linear(Duration::from_secs(1)).jitter(Jitter::spread(0.3)?);
    /// assert!(backoff.delays(7).next() >= Some(Duration::from_millis(700)));
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub const fn spread(part: f64) -> Result<Self, OutOfRange> {
        check!(check_ratio("spread", part, 0.0..=1.0));
        Ok(Self::Spread { thousandths: (part * 1_000.0 + 0.5) as u16 })
    }

    /// Draws a wait.
    pub(super) const fn draw(self, Draw { delay, base, previous, longest }: Draw, random: u64) -> u64 {
        let (least, most) = match self {
            Self::None => (delay, delay),
            Self::Full => (0, delay),
            Self::Equal => (delay / 2, delay),
            Self::Decorrelated => (smaller(base, longest), smaller(previous.saturating_mul(3), longest)),
            Self::Spread { thousandths } => {
                // At most the delay.
                let part = (delay as u128 * thousandths as u128 / 1_000) as u64;
                (delay - part, smaller(delay.saturating_add(part), longest))
            }
        };
        // `previous` may be less than a third of `base` after another backoff.
        let range = most.saturating_sub(least);
        least + random::below(range + 1, random)
    }
}

const fn smaller(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}
