//! The building blocks of inputs.

use arbitrary::Arbitrary;
use damper::Quota;
use std::time::Duration;

/// The maximum number of steps, because models scan the whole history.
pub(crate) const MOST_STEPS: usize = 200;

/// The ticks of a clock per second.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Frequency {
    Nanos,
    Micros,
    Millis,
    Crystal,
    /// Zero counts as one.
    Any(u32),
}

impl Frequency {
    pub(crate) fn hertz(self) -> u64 {
        match self {
            Self::Nanos => 1_000_000_000,
            Self::Micros => 1_000_000,
            Self::Millis => 1_000,
            Self::Crystal => 32_768,
            Self::Any(hertz) => u64::from(hertz.max(1)),
        }
    }
}

/// A number of tokens: small, so that histories reach it, or any.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Tokens {
    Few(u8),
    Any(u32),
}

impl Tokens {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Few(tokens) => u32::from(tokens % 20),
            Self::Any(tokens) => tokens,
        }
    }
}

/// A quota with a limit.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct QuotaInput {
    limit: Tokens,
    window: WindowInput,
    burst: Option<Tokens>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum WindowInput {
    Second,
    Minute,
    /// The window in nanoseconds, up to 2^50 (13 days), so that the models' amounts fit 128 bits.
    Nanos(u64),
}

impl QuotaInput {
    /// Returns the quota with a limit of at most `largest`.
    pub(crate) fn quota(self, largest: u32) -> Quota {
        let window = match self.window {
            WindowInput::Second => Duration::from_secs(1),
            WindowInput::Minute => Duration::from_mins(1),
            WindowInput::Nanos(nanos) => Duration::from_nanos(1 + nanos % (1 << 50)),
        };
        let quota = Quota::per(self.limit.number().min(largest), window).expect("the window is not zero");
        self.burst.map_or(quota, |burst| quota.burst(burst.number()))
    }
}

/// Converts a wait to ticks, rounding down, which undoes the rounding up to nanoseconds.
///
/// Also returns how many ticks too long the wait may be, because a frequency is passed on with 26 significant bits,
/// rounded down.
pub(crate) fn ticks_of(wait: Duration, frequency: u64) -> (i128, i128) {
    let ticks = i128::try_from(wait.as_nanos() * u128::from(frequency) / 1_000_000_000).expect("below 2^127");
    let rounded = frequency.trailing_zeros() + 26 < u64::BITS - frequency.leading_zeros();
    (ticks, if rounded { (ticks >> 24) + 1 } else { 0 } + i128::from(frequency / 1_000_000_001))
}
