//! The outcomes of a window, whichever kind it is.

use super::outcome_register::OutcomeRegister;
#[cfg(feature = "alloc")]
use super::outcome_ring::OutcomeRing;
#[cfg(feature = "alloc")]
use super::time_buckets::{MOST as MOST_BUCKETS, TimeBuckets};
use super::{Window, WindowKind};
use crate::breaker::state_word::Generation;
use crate::sync::const_unless_loom;

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::breaker) struct Outcome {
    pub(in crate::breaker) failed: bool,
    pub(in crate::breaker) slow: bool,
}

impl Outcome {
    /// As two bits.
    pub(super) const fn bits(self) -> u64 {
        self.failed as u64 | (self.slow as u64) << 1
    }
}

/// How many calls a window has, and how they went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::breaker) struct OutcomeCounts {
    pub(in crate::breaker) calls: u32,
    pub(in crate::breaker) failed: u32,
    pub(in crate::breaker) slow: u32,
}

/// When a call began and ended, in microseconds; both are 0 for windows that do not need them.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "alloc"), expect(dead_code, reason = "only windows of time need them"))]
pub(in crate::breaker) struct CallTimes {
    pub(in crate::breaker) began: u64,
    pub(in crate::breaker) ended: u64,
}

/// The outcomes of a window.
#[derive(Debug)]
pub(in crate::breaker) enum OutcomeWindow {
    Register(OutcomeRegister),
    #[cfg(feature = "alloc")]
    Ring(OutcomeRing),
    #[cfg(feature = "alloc")]
    Buckets(TimeBuckets),
}

impl OutcomeWindow {
    const_unless_loom! {
        /// Creates an empty window, in its range; `slow` says whether slow calls count.
        pub(in crate::breaker) const fn new(window: Window, slow: bool) -> Self {
            match window.0 {
                #[cfg(feature = "alloc")]
                WindowKind::Calls(calls) if calls > OutcomeRegister::most_calls(slow) => {
                    Self::Ring(OutcomeRing::new(calls, slow))
                }
                WindowKind::Calls(calls) => Self::Register(OutcomeRegister::new(calls, slow)),
                #[cfg(feature = "alloc")]
                WindowKind::Last(duration) => Self::Buckets(TimeBuckets::new(duration, MOST_BUCKETS, slow)),
                #[cfg(feature = "alloc")]
                WindowKind::Interval(duration) => Self::Buckets(TimeBuckets::new(duration, 1, slow)),
            }
        }
    }

    /// Records a call of a generation and returns the counts of the window; `None` if they decide nothing, because the
    /// generation is over, the window has moved on, or nothing in it failed.
    ///
    /// Where the window is of another generation, `is_current` says which is the later one. (The numbers cannot: while
    /// probes of an open breaker fail, the generation advances by any distance and the window stays.)
    #[inline]
    pub(in crate::breaker) fn record(
        &self,
        generation: Generation,
        is_current: impl Fn() -> bool,
        call: impl Fn() -> (Outcome, CallTimes),
    ) -> Option<OutcomeCounts> {
        match self {
            Self::Register(register) => register.record(generation, is_current, call().0),
            #[cfg(feature = "alloc")]
            Self::Ring(ring) => ring.record(generation, is_current, call().0),
            #[cfg(feature = "alloc")]
            Self::Buckets(buckets) => buckets.record(generation, is_current, call),
        }
    }

    /// Returns the counts at the time `now`, and their generation.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "only windows of time need it"))]
    pub(in crate::breaker) fn counts(&self, now: u64) -> (OutcomeCounts, Generation) {
        match self {
            Self::Register(register) => register.counts(),
            #[cfg(feature = "alloc")]
            Self::Ring(ring) => ring.counts(),
            #[cfg(feature = "alloc")]
            Self::Buckets(buckets) => buckets.counts(now),
        }
    }

    /// Whether it needs the times of calls.
    #[inline]
    pub(in crate::breaker) const fn is_timed(&self) -> bool {
        match self {
            Self::Register(_) => false,
            #[cfg(feature = "alloc")]
            Self::Ring(_) => false,
            #[cfg(feature = "alloc")]
            Self::Buckets(_) => true,
        }
    }

    /// The number of calls that it certainly holds once as many were recorded.
    pub(in crate::breaker) const fn capacity(&self) -> u32 {
        match self {
            Self::Register(register) => register.calls(),
            #[cfg(feature = "alloc")]
            Self::Ring(ring) => ring.calls(),
            #[cfg(feature = "alloc")]
            Self::Buckets(buckets) => buckets.calls(),
        }
    }
}
