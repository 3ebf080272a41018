//! Why a quota means nothing.

use core::fmt;

/// Why a [`Quota`](super::Quota) was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum QuotaError {
    /// The window, or the interval, is zero.
    ZeroWindow,
    /// The window, or the interval, is longer than 2^64 - 1 nanoseconds (584 years).
    WindowTooLong,
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroWindow => "the window of a quota is zero, it must be at least 1 ns",
            Self::WindowTooLong => "the window of a quota is too long, it must be at most 2^64 - 1 ns (584 years)",
        })
    }
}

impl core::error::Error for QuotaError {}

/// Why a quota was not put in force; the one before stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SetQuotaError {
    /// Somebody else is changing the quota at this moment.
    Busy,
    /// Too fast for the fixed point of the limiter's word, which was chosen for the quota that it was built with: a
    /// thousand times faster always fits, more than two thousand times never. A limiter that is to become this fast is
    /// built with its fastest quota, and slowed down.
    TooFast,
    /// The burst and the deepest debt, or the limit of a window, are too large for the limiter's word.
    TooLarge,
    /// The limit is another one than that which the limiter was built with, and its algorithm has a place for each
    /// token: only the window can be changed.
    FixedLimit,
    /// The burst is no more than the budget of leases or stripes that the limiter was built with, so that nothing would
    /// be left to its bucket.
    BurstWithinBudget,
}

impl fmt::Display for SetQuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "the quota is being changed by somebody else",
            Self::TooFast => "the quota is too fast for the precision that the limiter was built with: build it with its fastest quota",
            Self::TooLarge => {
                "the burst and the deepest debt, or the limit, are too large for what the limiter was built with"
            }
            Self::FixedLimit => "the limit of this limiter is fixed by what it was built with, only its window can be changed",
            Self::BurstWithinBudget => "the burst must be more than the budget of leases or stripes that the limiter was built with",
        })
    }
}

impl core::error::Error for SetQuotaError {}
