//! The kind and the size of a window, as kept in the words of the breaker's settings.

#[cfg(feature = "alloc")]
use super::outcome_register::OutcomeRegister;
#[cfg(feature = "alloc")]
use super::time_buckets::TimeBuckets;
use super::{Window, WindowKind};
#[cfg(feature = "alloc")]
use crate::time::Micros;

/// The numbers of the kinds.
const REGISTER: u64 = 0;
#[cfg(feature = "alloc")]
const RING: u64 = 1;
#[cfg(feature = "alloc")]
const LAST: u64 = 2;
#[cfg(feature = "alloc")]
const INTERVAL: u64 = 3;

/// The shape of a window: its kind and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::breaker) enum WindowShape {
    /// The last calls, in a register.
    ///
    /// `width` is the bits of an outcome here and below: 1, or 2 where slow calls count.
    Register { calls: u32, width: u32 },
    /// The last calls, in a ring.
    #[cfg(feature = "alloc")]
    Ring { calls: u32, width: u32 },
    /// The calls of `buckets` buckets of `length` microseconds. `base` is added to their numbers.
    #[cfg(feature = "alloc")]
    Buckets { length: u64, buckets: u32, base: u64, slow: bool },
}

impl WindowShape {
    /// The most buckets of time that a window has.
    pub(in crate::breaker) const MOST_BUCKETS: u64 = 10;

    /// Returns the shape of a window in its range; `slow` says whether slow calls count.
    pub(in crate::breaker) const fn new(window: Window, slow: bool) -> Self {
        let width = if slow { 2 } else { 1 };
        match window.0 {
            #[cfg(feature = "alloc")]
            WindowKind::Calls(calls) if calls > OutcomeRegister::most_calls(slow) => Self::Ring { calls, width },
            WindowKind::Calls(calls) => Self::Register { calls, width },
            #[cfg(feature = "alloc")]
            WindowKind::Last(duration) => {
                let buckets = TimeBuckets::MOST;
                Self::Buckets { length: Micros::of_duration(duration).div_ceil(buckets as u64), buckets, base: 0, slow }
            }
            #[cfg(feature = "alloc")]
            WindowKind::Interval(duration) => {
                Self::Buckets { length: Micros::of_duration(duration), buckets: 1, base: 0, slow }
            }
        }
    }

    /// Returns the number of its kind, and its calls.
    pub(in crate::breaker) const fn kind_and_calls(self) -> (u64, u32) {
        match self {
            Self::Register { calls, .. } => (REGISTER, calls),
            #[cfg(feature = "alloc")]
            Self::Ring { calls, .. } => (RING, calls),
            #[cfg(feature = "alloc")]
            Self::Buckets { buckets: 1, .. } => (INTERVAL, 0),
            #[cfg(feature = "alloc")]
            Self::Buckets { .. } => (LAST, 0),
        }
    }

    /// Returns the length of its buckets of time, in microseconds; 0 if it has none.
    pub(in crate::breaker) const fn bucket_length(self) -> u64 {
        match self {
            #[cfg(feature = "alloc")]
            Self::Buckets { length, .. } => length,
            _ => 0,
        }
    }

    /// Returns the shape of a window of `calls` calls where slow calls do not count.
    #[inline]
    pub(in crate::breaker) const fn of_calls(kind: u64, calls: u32) -> Self {
        match kind {
            #[cfg(feature = "alloc")]
            RING => Self::Ring { calls, width: 1 },
            _ => Self::Register { calls, width: 1 },
        }
    }

    /// Returns the shape with these parts.
    #[inline]
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one kind"))]
    pub(in crate::breaker) const fn from_parts(kind: u64, calls: u32, slow: bool, length: u64, base: u64) -> Self {
        let width = if slow { 2 } else { 1 };
        match kind {
            #[cfg(feature = "alloc")]
            RING => Self::Ring { calls, width },
            #[cfg(feature = "alloc")]
            LAST => Self::Buckets { length, buckets: TimeBuckets::MOST, base, slow },
            #[cfg(feature = "alloc")]
            INTERVAL => Self::Buckets { length, buckets: 1, base, slow },
            _ => Self::Register { calls, width },
        }
    }

    /// Returns whether a window of this kind is a ring.
    pub(in crate::breaker) const fn is_ring(kind: u64) -> bool {
        #[cfg(feature = "alloc")]
        return kind == RING;
        #[cfg(not(feature = "alloc"))]
        return kind != REGISTER;
    }

    /// Returns whether a window of this kind needs the times of calls.
    #[inline]
    pub(in crate::breaker) const fn is_timed(kind: u64) -> bool {
        #[cfg(feature = "alloc")]
        return kind >= LAST;
        #[cfg(not(feature = "alloc"))]
        return kind != REGISTER;
    }

    /// Returns the number of calls that it certainly holds once as many were recorded.
    pub(in crate::breaker) const fn capacity(self) -> u32 {
        match self {
            Self::Register { calls, .. } => calls,
            #[cfg(feature = "alloc")]
            Self::Ring { calls, .. } => calls,
            #[cfg(feature = "alloc")]
            Self::Buckets { slow, .. } => TimeBuckets::most_calls(slow),
        }
    }

    /// Returns whether outcomes recorded in `old` also count in this window.
    ///
    /// They do in a register, which keeps the newest outcomes whatever its size.
    ///
    /// A ring of another size has its outcomes in other places, and buckets of another length have other times. Calls that were
    /// recorded before slow ones counted carry no durations.
    pub(in crate::breaker) const fn continues(self, old: Self) -> bool {
        match (self, old) {
            (Self::Register { width, .. }, Self::Register { width: old, .. }) => width == old,
            #[cfg(feature = "alloc")]
            (Self::Ring { calls, width }, Self::Ring { calls: old_calls, width: old_width }) => {
                calls == old_calls && width == old_width
            }
            #[cfg(feature = "alloc")]
            (
                Self::Buckets { length, buckets, slow, .. },
                Self::Buckets { length: old_length, buckets: old_buckets, slow: old_slow, .. },
            ) => length == old_length && buckets == old_buckets && slow == old_slow,
            #[cfg(feature = "alloc")]
            _ => false,
        }
    }
}
