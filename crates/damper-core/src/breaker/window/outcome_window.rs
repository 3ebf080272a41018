//! The outcomes of a window of any kind.

use super::WindowShape;
use super::outcome_register::{OutcomeRegister, RegisterShape};
#[cfg(feature = "alloc")]
use super::outcome_ring::{OutcomeRing, RingShape};
#[cfg(feature = "alloc")]
use super::time_buckets::{BucketLayout, BucketsShape, TimeBuckets};
use crate::breaker::state_word::Generation;
use crate::sync::const_unless_loom;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::breaker) struct Outcome {
    pub(in crate::breaker) failed: bool,
    pub(in crate::breaker) slow: bool,
}

impl Outcome {
    const SUCCESS: Self = Self { failed: false, slow: false };

    /// Returns the outcome as two bits.
    pub(super) const fn bits(self) -> u64 {
        self.failed as u64 | (self.slow as u64) << 1
    }
}

/// The number of calls in a window, and of the failed and slow ones.
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

/// The outcomes of a window of any kind.
///
/// Its callers name the kind: all calls with the same generation name the same shape.
#[derive(Debug)]
pub(in crate::breaker) struct OutcomeWindow {
    register: OutcomeRegister,
    #[cfg(feature = "alloc")]
    ring: OutcomeRing,
    #[cfg(feature = "alloc")]
    buckets: TimeBuckets,
}

impl OutcomeWindow {
    const_unless_loom! {
        /// Creates an empty window. Model checkers make the words for `shape` here.
        #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "only rings need words"))]
        pub(in crate::breaker) const fn new(shape: WindowShape) -> Self {
            Self {
                register: OutcomeRegister::new(),
                #[cfg(feature = "alloc")]
                ring: OutcomeRing::new(match shape {
                    WindowShape::Ring { calls, width } => RingShape { calls, width },
                    _ => RingShape { calls: 1, width: 1 },
                }),
                #[cfg(feature = "alloc")]
                buckets: TimeBuckets::new(match shape {
                    WindowShape::Buckets { buckets, .. } => buckets,
                    _ => 0,
                }),
            }
        }
    }

    /// Returns whether the register is full of successes of a generation.
    ///
    /// Another success leaves such a window as it is. So it writes nothing, and counts as recorded when the window was read.
    #[inline]
    pub(in crate::breaker) fn has_healthy_register(&self, generation: Generation) -> bool {
        // loom-tests: breaker_windows::success_in_a_healthy_window.
        self.register.is_healthy(generation)
    }

    /// Returns the same as [`has_healthy_register`](Self::has_healthy_register), for the ring.
    #[inline]
    pub(in crate::breaker) fn has_healthy_ring(&self, generation: Generation) -> bool {
        #[cfg(feature = "alloc")]
        return self.ring.is_healthy(generation);
        #[cfg(not(feature = "alloc"))]
        return self.register.is_healthy(generation);
    }

    /// Records a call of a generation and returns the counts of the window if they matter.
    ///
    /// `None` if the generation is over, the window has moved on, or nothing in it failed.
    ///
    /// If the window has another generation, `is_current` says which one is later. (The numbers cannot: while probes of an open
    /// breaker fail, the generation advances by any distance and the window stays.)
    #[inline]
    pub(in crate::breaker) fn record(
        &self,
        shape: WindowShape,
        generation: Generation,
        is_current: impl Fn() -> bool,
        call: impl Fn() -> (Outcome, CallTimes),
    ) -> Option<OutcomeCounts> {
        match shape {
            WindowShape::Register { calls, width } => match call().0 {
                Outcome::SUCCESS if self.register.is_healthy(generation) => None,
                outcome => self.register.record(RegisterShape { calls, width }, generation, is_current, outcome),
            },
            #[cfg(feature = "alloc")]
            WindowShape::Ring { calls, width } => match call().0 {
                Outcome::SUCCESS if self.ring.is_healthy(generation) => None,
                outcome => self.ring.record(RingShape { calls, width }, generation, is_current, outcome),
            },
            #[cfg(feature = "alloc")]
            WindowShape::Buckets { length, buckets, base, slow } => {
                let shape = BucketsShape { length, buckets, base, layout: BucketLayout::new(slow) };
                self.buckets.record(shape, generation, is_current, call)
            }
        }
    }

    /// Returns the counts at the time `now`, and their generation.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "only windows of time need it"))]
    pub(in crate::breaker) fn counts(&self, shape: WindowShape, now: u64) -> (OutcomeCounts, Generation) {
        match shape {
            WindowShape::Register { calls, width } => self.register.counts(RegisterShape { calls, width }),
            #[cfg(feature = "alloc")]
            WindowShape::Ring { calls, width } => self.ring.counts(RingShape { calls, width }),
            #[cfg(feature = "alloc")]
            WindowShape::Buckets { length, buckets, base, slow } => {
                let shape = BucketsShape { length, buckets, base, layout: BucketLayout::new(slow) };
                self.buckets.counts(shape, now)
            }
        }
    }
}
