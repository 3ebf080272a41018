//! Why a budget's setting was refused.

use core::fmt;
use core::time::Duration;

/// The refused setting of a budget, with its value.
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RetryBudgetError {
    /// The ratio is not in 0.0..=100.0.
    Ratio(f64),
    /// The ttl of a deposit is not in 1 ms..=1 day.
    Ttl(Duration),
    /// The reserve is 0 although there is a floor, so its refill would have no room.
    Reserve,
    /// The tokens of a [`RetryThrottle`](super::RetryThrottle) are not in 1..=1000.
    MaxTokens(u32),
}

impl fmt::Display for RetryBudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio(ratio) => write!(f, "ratio is {ratio:?}, it must be 0.0 to 100.0"),
            Self::Ttl(ttl) => write!(f, "ttl is {ttl:?}, it must be 1 ms to 1 day"),
            Self::Reserve => f.write_str("reserve is 0, it must be at least 1 where there is a floor"),
            Self::MaxTokens(tokens) => write!(f, "max_tokens is {tokens}, it must be 1 to 1000"),
        }
    }
}

crate::internal::debug_by_display!(RetryBudgetError);

impl core::error::Error for RetryBudgetError {}
