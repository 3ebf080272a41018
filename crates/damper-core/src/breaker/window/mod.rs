//! Windows: the outcomes of recent calls, from which the breaker computes rates.
//!
//! A window stands beside the breaker's word and carries the generation in which its outcomes were recorded. The first
//! outcome of a newer generation clears it, and an outcome of an older one is dropped. So a state change touches no
//! window, and the last window stays readable while the breaker is open. (A window in which nothing was recorded for
//! exactly 8,192 generations is taken for a current one.)

// | file | type |
// |---|---|
// | `mod` | `Window`, which calls are counted, and `WindowError` |
// | `outcome_window` | `OutcomeWindow`: one of the three below |
// | `outcome_register` | `OutcomeRegister`: the last 48 calls, or 24 where slow calls count; a shift register in one word |
// | `outcome_ring` | `OutcomeRing`: the last 4,096 calls; a ring of outcomes, and a head |
// | `time_buckets` | `TimeBuckets`: the last seconds or a fixed interval, to a tenth of the time; a ring of counts |

mod outcome_register;
#[cfg(feature = "alloc")]
mod outcome_ring;
mod outcome_window;
#[cfg(all(test, feature = "std"))]
mod tests;
#[cfg(feature = "alloc")]
mod time_buckets;

pub(super) use outcome_window::{CallTimes, Outcome, OutcomeCounts, OutcomeWindow};

use core::fmt;
use core::time::Duration;

/// Which calls a failure rate or a slow rate is taken of.
///
/// A breaker that is given none takes the last 48 calls; the last 24 where slow calls count.
///
/// # Examples
///
#[cfg_attr(feature = "std", doc = "```")]
#[cfg_attr(not(feature = "std"), doc = "```text")]
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{BreakerConfig, CircuitBreaker, Window};
///
/// let half_of_them = BreakerConfig::builder().failure_threshold(u32::MAX).failure_rate(50).build()?;
/// let of_calls = CircuitBreaker::new(half_of_them).with_window(Window::last_calls(100)?);
/// let of_seconds = CircuitBreaker::new(half_of_them).with_window(Window::last(Duration::from_secs(10))?);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window(WindowKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WindowKind {
    Calls(u32),
    #[cfg(feature = "alloc")]
    Time {
        bucket: u64,
        buckets: u32,
    },
}

/// The most calls of a window.
const MOST_CALLS: u32 = if cfg!(feature = "alloc") { 4_096 } else { outcome_register::CAPACITY / 2 };

/// The longest window in time.
#[cfg(feature = "alloc")]
const LONGEST: Duration = Duration::from_secs(100 * 24 * 60 * 60);

impl Window {
    /// The last `calls` calls, exactly: 1 to 4,096, without the feature `alloc` to 24. More than 24 (or 48, where
    /// slow calls do not count) take a byte for every two of them (four), allocated with the breaker.
    ///
    /// # Errors
    ///
    /// [`WindowError::Calls`] if they are none or more.
    pub const fn last_calls(calls: u32) -> Result<Self, WindowError> {
        if calls == 0 || calls > MOST_CALLS {
            Err(WindowError::Calls(calls))
        } else {
            Ok(Self(WindowKind::Calls(calls)))
        }
    }

    /// The calls that began within the last `duration`, to a tenth of it; from 10 µs to 100 days. On ten buckets of
    /// time, aligned to the clock, of which one is always incomplete: so nine tenths of the duration to all of it.
    ///
    /// # Errors
    ///
    /// [`WindowError::Duration`] if it is shorter or longer.
    #[cfg(feature = "alloc")]
    pub const fn last(duration: Duration) -> Result<Self, WindowError> {
        Self::of_buckets(duration, 10)
    }

    /// The calls that began in the current interval of that length, aligned to the clock; from 1 µs to 100 days.
    /// What began in an earlier one is not counted any more.
    ///
    /// # Errors
    ///
    /// [`WindowError::Duration`] if it is shorter or longer.
    #[cfg(feature = "alloc")]
    pub const fn interval(duration: Duration) -> Result<Self, WindowError> {
        Self::of_buckets(duration, 1)
    }

    #[cfg(feature = "alloc")]
    const fn of_buckets(duration: Duration, buckets: u32) -> Result<Self, WindowError> {
        let micros = duration.as_nanos() / 1_000;
        if micros < buckets as u128 || duration.as_nanos() > LONGEST.as_nanos() {
            return Err(WindowError::Duration(duration));
        }
        // Below 2^43.
        Ok(Self(WindowKind::Time { bucket: (micros as u64).div_ceil(buckets as u64), buckets }))
    }
}

/// Why there is no window of that size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WindowError {
    /// The window has no calls, or too many.
    Calls(u32),
    /// The window is too short or too long.
    Duration(Duration),
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls(calls) => write!(f, "a window of {calls} calls, it must be of 1 to {MOST_CALLS}"),
            Self::Duration(duration) => {
                write!(f, "a window of {duration:?}, it must be from 10 µs (an interval from 1 µs) to 100 days")
            }
        }
    }
}

impl core::error::Error for WindowError {}
