//! Rates as tokens per microseconds, in lowest terms.

use core::time::Duration;
use damper_core::{OutOfRange, Quota};

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

    /// Returns the rate of a plan's quota, which must have a limit.
    ///
    /// It is exact, except for a window above 78 hours that is no whole number of µs. That is rounded up to one, by less than
    /// 2^-38 of it. The period is below 2^49 µs.
    pub(super) fn of_plan(quota: Quota) -> Self {
        let exact = |tokens: u64, window: u64| {
            let divisor = gcd(tokens, window);
            Self { tokens: tokens / divisor, micros: window / divisor }
        };
        // The window of a plan is at most 2^58 ns.
        let window = quota.window().as_nanos() as u64;
        let rate = exact(u64::from(quota.limit()) * 1_000, window);
        if rate.micros <= Self::LONGEST { rate } else { exact(quota.limit().into(), window.div_ceil(1_000)) }
    }

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
    type Error = OutOfRange;

    /// Returns the exact rate of `quota`, even if its window is not a whole number of microseconds.
    ///
    /// An unlimited quota has none, and one in lowest terms whose period exceeds 2^48 µs (nine years) cannot be counted exactly.
    fn try_from(quota: Quota) -> Result<Self, OutOfRange> {
        if quota.is_unlimited() {
            return Err(OutOfRange::unlimited("limit", u32::MAX.into()));
        }
        // The window is below 2^64 ns, as in each quota.
        let window = quota.window().as_nanos() as u64;
        let tokens = u64::from(quota.limit()) * 1_000;
        let divisor = gcd(tokens, window);
        let rate = Self { tokens: tokens / divisor, micros: window / divisor };
        let micros = Duration::from_micros;
        OutOfRange::check_duration("period", micros(rate.micros), micros(1)..=micros(Self::LONGEST))
            .map_err(|error| error.note("(of the rate in lowest terms)"))?;
        Ok(rate)
    }
}

/// Returns the greatest common divisor; `b` must not be 0.
const fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (b, a);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
