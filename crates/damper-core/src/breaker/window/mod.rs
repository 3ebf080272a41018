//! Windows: the outcomes of recent calls, from which the breaker computes rates.
//!
//! A window stands beside the breaker's word and carries the generation in which its outcomes were recorded. The first outcome of
//! a newer generation clears it, and an outcome of an older one is dropped. So a state change touches no window, and the last
//! window stays readable while the breaker is open. (A window that recorded nothing for exactly 8,192 generations is taken for a
//! current one.)
//!
//! A change of shape is recorded as a jump of the generation by 1,171: the breaker's settings add that to the generations that
//! they record under. So the new window counts no outcome of the old one. Registers of all sizes share one shape: each keeps as
//! many outcomes as fit, and counts the newest.
//!
//! A success in a window of calls that is full of successes leaves the window as it is. So it writes nothing.

// | file | type |
// |---|---|
// | `mod` | `Window`: which calls are counted |
// | `window_shape` | `WindowShape`: the kind and the size of a window, in few words |
// | `outcome_window` | `OutcomeWindow`: the outcomes, in one of the three below |
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
mod window_shape;

#[cfg(target_has_atomic = "64")]
pub(super) use outcome_register::RegisterShape;
pub(super) use outcome_window::{CallTimes, Outcome, OutcomeCounts, OutcomeWindow};
pub(super) use window_shape::WindowShape;

use crate::out_of_range::{OutOfRange, check};
#[cfg(feature = "alloc")]
use crate::time::Human;
use core::fmt;
#[cfg(feature = "alloc")]
use core::time::Duration;
use outcome_register::OutcomeRegister;

/// The calls that a breaker's rates count, as [set](super::BreakerConfigBuilder::window) in its configuration.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use core::time::Duration;
/// use damper::breaker::Window;
/// use damper::{BreakerConfig, CircuitBreaker};
///
/// let half_of_them = BreakerConfig::builder().failure_threshold(u32::MAX).failure_rate(50);
/// let of_calls = CircuitBreaker::new(half_of_them.window(Window::last_calls(100)).build()?);
/// let of_seconds = CircuitBreaker::new(half_of_them.window(Window::last(Duration::from_secs(10))).build()?);
/// # }
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct Window(WindowKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum WindowKind {
    Calls(u32),
    #[cfg(feature = "alloc")]
    Last(Duration),
    #[cfg(feature = "alloc")]
    Interval(Duration),
}

/// The longest window in time.
#[cfg(feature = "alloc")]
const LONGEST: Duration = Duration::from_secs(100 * 24 * 60 * 60);

impl Window {
    /// Counts the last `calls` calls, exactly; 1 to 4,096.
    ///
    /// Without the feature `alloc` at most 48 (24, where slow calls count). A larger window takes a byte for every four calls
    /// (two), which the breaker allocates at its first outcome.
    pub const fn last_calls(calls: u32) -> Self {
        Self(WindowKind::Calls(calls))
    }

    /// Counts the calls that began within the last `duration`, to a tenth of it; from 10 µs to 100 days.
    ///
    /// It has ten buckets of time, aligned to the clock, of which one is always incomplete. So it covers nine tenths of the
    /// duration to all of it.
    #[cfg(feature = "alloc")]
    pub const fn last(duration: Duration) -> Self {
        Self(WindowKind::Last(duration))
    }

    /// Counts the calls that began in the current interval of that length; from 1 µs to 100 days.
    ///
    /// Intervals are aligned to the clock. Calls that began in an earlier one no longer count.
    #[cfg(feature = "alloc")]
    pub const fn interval(duration: Duration) -> Self {
        Self(WindowKind::Interval(duration))
    }

    /// Returns the most calls that need no memory beside the breaker; `slow` says whether slow calls count.
    pub(super) const fn in_one_word(slow: bool) -> Self {
        Self::last_calls(OutcomeRegister::most_calls(slow))
    }

    /// Checks the range; `slow` says whether slow calls count.
    pub(super) const fn check(self, slow: bool) -> Result<(), OutOfRange> {
        let most = if cfg!(feature = "alloc") { 4_096 } else { OutcomeRegister::most_calls(slow) };
        match self.0 {
            WindowKind::Calls(calls) => {
                check!(check_count("window", calls as u64, 1..=most as u64), "calls");
                Ok(())
            }
            #[cfg(feature = "alloc")]
            WindowKind::Last(duration) => check_duration(duration, time_buckets::TimeBuckets::MOST),
            #[cfg(feature = "alloc")]
            WindowKind::Interval(duration) => check_duration(duration, 1),
        }
    }
}

impl fmt::Display for Window {
    /// Writes `last 100 calls`, `last 10 s` or `intervals of 60 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            WindowKind::Calls(calls) => write!(f, "last {calls} calls"),
            #[cfg(feature = "alloc")]
            WindowKind::Last(duration) => write!(f, "last {}", Human(duration)),
            #[cfg(feature = "alloc")]
            WindowKind::Interval(duration) => write!(f, "intervals of {}", Human(duration)),
        }
    }
}

/// Checks the duration of a window of `buckets` buckets, of a microsecond or more each.
#[cfg(feature = "alloc")]
const fn check_duration(duration: Duration, buckets: u32) -> Result<(), OutOfRange> {
    OutOfRange::check_duration("window", duration, Duration::from_micros(buckets as u64)..=LONGEST)
}
