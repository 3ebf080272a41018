//! A limiter and a breaker in words of 32 bits, for targets whose widest atomic has no more.
//!
//! On a Cortex-M4 a change of a 64-bit word needs a critical section. A 32-bit word is loaded and swapped without a lock.
//! The price is range: a position wraps sooner, a cooldown is counted in coarser units, and there are fewer features. The
//! settings are converted at compile time, so a `static` limiter or breaker brings no division into the program.
//!
//! | | 64 bits | 32 bits |
//! |---|---|---|
//! | limiter | [`RateLimiter`](crate::RateLimiter): any algorithm, live quota, debt, waiting | [`RateLimiter32`]: a token bucket |
//! | breaker | [`CircuitBreaker`](crate::CircuitBreaker): rates, windows, listeners | [`CircuitBreaker32`]: consecutive failures |
//! | clock | any [`Clock`](crate::Clock) | one with a [`FixedFrequency`](crate::time::FixedFrequency) |

// | file | type |
// |---|---|
// | `rate_limiter` | `RateLimiter32`: the word of a token bucket, and its compare-and-swap |
// | `line` | `Line32`: the arithmetic of a token bucket whose positions have 32 bits |
// | `circuit_breaker` | `CircuitBreaker32`: uses the word and the rules of `breaker` |
// | `breaker_settings` | `FixedSettings`: the settings and times in a word; `BreakerSettings32`, those of 32 bits |
// | `fixed_breaker` | `FixedBreaker`: how a breaker in one word, here or in `words`, admits calls and counts outcomes |
// | `times` | `WrappingTimes`: times in few bits that wrap |

mod breaker_settings;
mod circuit_breaker;
mod fixed_breaker;
mod line;
mod rate_limiter;
mod times;

#[cfg(target_has_atomic = "64")]
pub(crate) use breaker_settings::{FixedSettings, longest_cooldown};
pub use circuit_breaker::CircuitBreaker32;
pub(crate) use fixed_breaker::FixedBreaker;
pub use rate_limiter::RateLimiter32;

use crate::out_of_range::OutOfRange;

/// Checks that a setting fits into 32 bits.
const fn check_fits(setting: &'static str, value: u32, most: u32) -> Result<(), OutOfRange> {
    match OutOfRange::check_count(setting, value as u64, 0..=most as u64) {
        Ok(()) => Ok(()),
        Err(error) => Err(error.note("(in 32 bits)")),
    }
}

/// Returns the error of a setting that a breaker in one word does not have.
pub(crate) const fn unsupported(setting: &'static str) -> OutOfRange {
    OutOfRange::unsupported(setting).note("(for a breaker in one word)")
}
