//! Rates as tokens per microseconds, in lowest terms.

use core::fmt;
use core::time::Duration;
use damper_core::Quota;

/// A rate of p tokens in q microseconds, in lowest terms.
///
/// A rate of 0 is 0 tokens in 1 µs. Then nothing drips in, and taken tokens never come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    tokens: u64,
    micros: u64,
}

impl Rate {
    /// The longest period in lowest terms. The script cannot multiply a longer one exactly.
    pub const LONGEST: u64 = 1 << 48;

    /// Returns p: the tokens that drip in within [`micros`](Self::micros), below 2^43.
    #[must_use]
    pub const fn tokens(self) -> u64 {
        self.tokens
    }

    /// Returns q: the period in µs, from 1 to [`LONGEST`](Self::LONGEST).
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.micros
    }
}

impl TryFrom<Quota> for Rate {
    type Error = RateError;

    /// Returns the exact rate of `quota`, even if its window is not a whole number of microseconds.
    fn try_from(quota: Quota) -> Result<Self, RateError> {
        if quota.is_unlimited() {
            return Err(RateError::Unlimited);
        }
        // The window is below 2^64 ns, as in each quota.
        let window = quota.window().as_nanos() as u64;
        let tokens = u64::from(quota.limit()) * 1_000;
        let divisor = gcd(tokens, window);
        let rate = Self { tokens: tokens / divisor, micros: window / divisor };
        if rate.micros > Self::LONGEST {
            return Err(RateError::PeriodTooLong { quota, micros: rate.micros });
        }
        Ok(rate)
    }
}

/// The error of a quota whose rate the script cannot count.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateError {
    /// The quota is [`Quota::UNLIMITED`]. It needs no server.
    Unlimited,
    /// The period of the rate in lowest terms exceeds 2^48 µs (nine years).
    ///
    /// The script could not count it exactly.
    PeriodTooLong {
        /// The quota.
        quota: Quota,
        /// The period of its rate in lowest terms, in µs.
        micros: u64,
    },
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("an unlimited quota has no rate, it must have a limit"),
            Self::PeriodTooLong { quota, micros } => write!(
                f,
                "the rate of {quota} has a period of {:?} in lowest terms, which exceeds the maximum {:?}",
                Duration::from_micros(*micros),
                Duration::from_micros(Rate::LONGEST)
            ),
        }
    }
}

damper_core::internal::debug_by_display!(RateError);

impl core::error::Error for RateError {}

/// Returns the greatest common divisor; `b` must not be 0.
const fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (b, a);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
