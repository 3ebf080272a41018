//! A limiter and a breaker in words of 32 bits, or of 64 with the feature `words-of-64`.
//!
//! On a Cortex-M4 the first are lock-free, and the second take critical sections; on a Cortex-M0 both do. Words of 64
//! bits have the larger range, and more features: quotas that change, waiting, rates of failures.

use crate::board::{TIME, Time};
use damper_core::{BreakerConfig, Quota};

#[cfg(not(feature = "words-of-64"))]
mod chosen {
    use super::{BreakerConfig, Quota, TIME, Time};
    use damper_core::{CircuitBreaker32, RateLimiter32};

    pub(super) type Limiter = RateLimiter32<&'static Time>;
    pub(super) type Breaker = CircuitBreaker32<&'static Time>;

    pub(super) const NAME: &str = "words of 32 bits";

    /// Two ticks, and the rounding of the rate.
    ///
    /// It is rounded up by less than 2^-29 of itself, which is less than a tick in 20 s.
    pub(super) const EARLY: u32 = 3;

    pub(super) const fn limiter(quota: Quota) -> Limiter {
        match RateLimiter32::new(quota, &TIME) {
            Ok(limiter) => limiter,
            Err(_) => panic!("the quota does not fit 32 bits"),
        }
    }

    pub(super) const fn breaker(config: BreakerConfig) -> Breaker {
        match CircuitBreaker32::new(config, &TIME) {
            Ok(breaker) => breaker,
            Err(_) => panic!("the settings do not fit 32 bits"),
        }
    }
}

#[cfg(feature = "words-of-64")]
mod chosen {
    use super::{BreakerConfig, Quota, TIME, Time};
    use damper_core::{CircuitBreaker, RateLimiter, TokenBucket};

    pub(super) type Limiter = RateLimiter<TokenBucket, &'static Time>;
    pub(super) type Breaker = CircuitBreaker<&'static Time>;

    pub(super) const NAME: &str = "words of 64 bits";

    pub(super) const EARLY: u32 = 1;

    pub(super) const fn limiter(quota: Quota) -> Limiter {
        RateLimiter::with_clock(quota, &TIME)
    }

    pub(super) const fn breaker(config: BreakerConfig) -> Breaker {
        CircuitBreaker::with_clock(config, &TIME)
    }
}

/// A limiter on [`TIME`].
pub type Limiter = chosen::Limiter;

/// A breaker on [`TIME`].
pub type Breaker = chosen::Breaker;

/// Which words they are in.
pub const NAME: &str = chosen::NAME;

/// How many ticks of tokens may be early.
pub const EARLY: u32 = chosen::EARLY;

/// A limiter of this quota, or the program does not compile.
#[must_use]
pub const fn limiter(quota: Quota) -> Limiter {
    chosen::limiter(quota)
}

/// A breaker of these settings, or the program does not compile.
#[must_use]
pub const fn breaker(config: BreakerConfig) -> Breaker {
    chosen::breaker(config)
}

/// Settings that are in range, or the program does not compile.
pub const fn settings(config: Result<BreakerConfig, damper_core::OutOfRange>) -> BreakerConfig {
    match config {
        Ok(config) => config,
        Err(_) => panic!("the breaker's settings are out of range"),
    }
}
