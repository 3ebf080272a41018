//! Why a quota means nothing.

use core::fmt;

/// Why a [`Quota`](super::Quota) was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
