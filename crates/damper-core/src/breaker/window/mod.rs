//! Windows: the outcomes of the last calls, which a rate is taken of.
//!
//! They stand beside the breaker's word, and each is tagged with the generation of the word in which its outcomes
//! were told: the first outcome of a newer one clears it, and one of an older is dropped. So a change of the state
//! touches no window, and the last one stays readable while the breaker is open. (A window that nobody recorded in
//! for exactly 8,192 generations is taken for one of this.)

// | file | the last | state | exact |
// |---|---|---|---|
// | `register` | 48 calls, or 24 where slow calls are told apart | a shift register in one word | yes |
// | `ring` | 4,096 calls | a ring of outcomes, and a head | yes |
// | `buckets` | seconds, or a fixed interval | a ring of counts | to a tenth of the time |

#[cfg(feature = "alloc")]
mod buckets;
mod register;
#[cfg(feature = "alloc")]
mod ring;
#[cfg(all(test, feature = "std"))]
mod tests;

use super::word::Generation;
#[cfg(feature = "alloc")]
use buckets::Buckets;
use core::fmt;
use core::time::Duration;
use register::Register;
#[cfg(feature = "alloc")]
use ring::Ring;

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
pub struct Window(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Calls(u32),
    #[cfg(feature = "alloc")]
    Time {
        bucket: u64,
        buckets: u32,
    },
}

/// The most calls of a window.
const MOST_CALLS: u32 = if cfg!(feature = "alloc") { 4_096 } else { register::CAPACITY / 2 };

/// The longest window in time.
#[cfg(feature = "alloc")]
const LONGEST: Duration = Duration::from_secs(100 * 24 * 60 * 60);

impl Window {
    /// The last `calls` calls, exactly: 1 to 4,096, without the feature `alloc` to 24. More than 24 (or 48, where
    /// slow calls are not told apart) take a byte for every two of them (four), allocated with the breaker.
    ///
    /// # Errors
    ///
    /// [`WindowError::Calls`] if they are none or more.
    pub const fn last_calls(calls: u32) -> Result<Self, WindowError> {
        if calls == 0 || calls > MOST_CALLS { Err(WindowError::Calls(calls)) } else { Ok(Self(Kind::Calls(calls))) }
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
        Ok(Self(Kind::Time { bucket: (micros as u64).div_ceil(buckets as u64), buckets }))
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

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) failed: bool,
    pub(super) slow: bool,
}

impl Outcome {
    /// As two bits.
    const fn bits(self) -> u64 {
        self.failed as u64 | (self.slow as u64) << 1
    }
}

/// How many calls a window has, and how they went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) calls: u32,
    pub(super) failed: u32,
    pub(super) slow: u32,
}

/// When a call began, and when it ended, in microseconds; both are 0 for windows that do not ask.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "alloc"), expect(dead_code, reason = "only windows of time ask"))]
pub(super) struct Span {
    pub(super) began: u64,
    pub(super) ended: u64,
}

/// The outcomes of a window.
#[derive(Debug)]
pub(super) enum Outcomes {
    Register(Register),
    #[cfg(feature = "alloc")]
    Ring(Ring),
    #[cfg(feature = "alloc")]
    Buckets(Buckets),
}

impl Outcomes {
    crate::sync::const_unless_loom! {
        /// Those that a breaker has which is given no window.
        pub(super) const fn few(slow: bool) -> Self {
            Self::Register(Register::new(Register::most_calls(slow), slow))
        }
    }

    #[cfg_attr(
        not(feature = "alloc"),
        expect(clippy::infallible_destructuring_match, reason = "with `alloc` there are more")
    )]
    pub(super) fn of(window: Window, slow: bool) -> Self {
        let calls = match window.0 {
            Kind::Calls(calls) => calls,
            #[cfg(feature = "alloc")]
            Kind::Time { bucket, buckets } => return Self::Buckets(Buckets::new(bucket, buckets, slow)),
        };
        #[cfg(feature = "alloc")]
        if calls > Register::most_calls(slow) {
            return Self::Ring(Ring::new(calls, slow));
        }
        Self::Register(Register::new(calls, slow))
    }

    /// Records a call of a generation, and tells what the window has then; `None` if that is not to be judged: the
    /// generation is over, the window has moved on, or nothing in it failed.
    ///
    /// Where the window is of another generation, `is_current` tells which is the later one. (The numbers can't:
    /// while the breaker is open and is probed in vain they move on by any distance, and the window stays.)
    #[inline]
    pub(super) fn record(
        &self,
        generation: Generation,
        is_current: impl Fn() -> bool,
        call: impl Fn() -> (Outcome, Span),
    ) -> Option<Tally> {
        match self {
            Self::Register(register) => register.record(generation, is_current, call().0),
            #[cfg(feature = "alloc")]
            Self::Ring(ring) => ring.record(generation, is_current, call().0),
            #[cfg(feature = "alloc")]
            Self::Buckets(buckets) => buckets.record(generation, is_current, call),
        }
    }

    /// What the window has at a moment, and of which generation.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "only windows of time ask"))]
    pub(super) fn tally(&self, now: u64) -> (Tally, Generation) {
        match self {
            Self::Register(register) => register.tally(),
            #[cfg(feature = "alloc")]
            Self::Ring(ring) => ring.tally(),
            #[cfg(feature = "alloc")]
            Self::Buckets(buckets) => buckets.tally(now),
        }
    }

    /// Whether it asks when calls began.
    #[inline]
    pub(super) const fn is_timed(&self) -> bool {
        match self {
            Self::Register(_) => false,
            #[cfg(feature = "alloc")]
            Self::Ring(_) => false,
            #[cfg(feature = "alloc")]
            Self::Buckets(_) => true,
        }
    }

    /// The most calls that it surely has when there are so many.
    pub(super) const fn capacity(&self) -> u32 {
        match self {
            Self::Register(register) => register.calls(),
            #[cfg(feature = "alloc")]
            Self::Ring(ring) => ring.calls(),
            #[cfg(feature = "alloc")]
            Self::Buckets(buckets) => buckets.calls(),
        }
    }
}
