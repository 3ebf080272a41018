//! The locks of first sights and shared buckets, and what they counted.

use crate::sync::{Guarded, const_unless_loom};
#[cfg(feature = "alloc")]
use {alloc::boxed::Box, crossbeam_utils::CachePadded};

/// What happened to the keys of a lock.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Counts {
    /// Of the slots that keys of this lock got, those that are still taken. It wraps: a slot may change its owner under
    /// another lock.
    pub(in crate::keyed) keys: u64,
    pub(in crate::keyed) evictions: u64,
    pub(in crate::keyed) overflows: u64,
    pub(in crate::keyed) refused_newcomers: u64,
    /// How often a shared bucket of this lock was cleared; wraps.
    pub(super) clears: u32,
}

impl Counts {
    const NONE: Self = Self { keys: 0, evictions: 0, overflows: 0, refused_newcomers: 0, clears: 0 };
}

/// A lock for each part of the shared buckets, and so of the keys. It is held while a key is given a slot, so that a key never
/// gets two, and while its shared bucket changes.
pub(super) enum Locks {
    One(Guarded<Counts>),
    #[cfg(feature = "alloc")]
    Many(Box<[CachePadded<Guarded<Counts>>]>),
}

impl Locks {
    const_unless_loom! {
        pub(super) const fn one() -> Self {
            Self::One(Guarded::new(Counts::NONE))
        }
    }

    #[cfg(feature = "alloc")]
    pub(super) fn new(locks: usize) -> Self {
        Self::Many((0..locks).map(|_| CachePadded::new(Guarded::new(Counts::NONE))).collect())
    }

    /// The lock of a shared bucket, and of the keys that would share it.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one lock only"))]
    pub(super) fn of(&self, bucket: usize) -> &Guarded<Counts> {
        match self {
            Self::One(lock) => lock,
            #[cfg(feature = "alloc")]
            Self::Many(locks) => &locks[bucket % locks.len()],
        }
    }

    /// Adds up what each lock counted.
    pub(super) fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        match self {
            Self::One(lock) => lock.read(of),
            #[cfg(feature = "alloc")]
            Self::Many(locks) => locks.iter().fold(0, |sum, lock| sum.wrapping_add(lock.read(&of))),
        }
    }
}
