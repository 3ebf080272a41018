//! The locks that are held while a key gets a slot or shared words change, their counts and signals.
//!
//! [`table`](super#terms) defines the terms.

#[cfg(feature = "std")]
use crate::sync::Signal;
use crate::sync::{Guarded, const_unless_loom};
#[cfg(feature = "alloc")]
use {
    crate::sync::{AtomicU32, Ordering},
    alloc::boxed::Box,
    core::array,
    crossbeam_utils::CachePadded,
};

/// The number of locks. It is a power of two, so that `group % LOCKS` needs no division.
#[cfg(feature = "alloc")]
const LOCKS: usize = 64;

/// The counts that one lock protects. They count events of the keys that are under this lock.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) struct Counts {
    /// The vacant slots that keys under this lock took, minus the slots that `clear` vacated under this lock.
    ///
    /// A vacant slot is added under the lock of the key that takes it. `clear` subtracts the slot under the lock of the
    /// key that owns it by then. These can be two different locks, so a single count may wrap below 0. Only the sum
    /// over all locks is the number of keys.
    pub(in crate::keyed) keys: u64,
    pub(in crate::keyed) evictions: u64,
    pub(in crate::keyed) overflows: u64,
    pub(in crate::keyed) refused_newcomers: u64,
    /// How often the shared words of this lock were cleared; wraps.
    pub(super) clears: u32,
    /// How often a debt was copied or moved from one shared word of this lock to another; wraps.
    pub(super) generation: u32,
    /// Whether a fixed word was used under this lock since the last clear.
    ///
    /// A fixed word is a shared word that serves one tier only.
    pub(super) has_fixed: bool,
    /// How many shared words were looked at for keys of this lock that had no slot.
    pub(in crate::keyed) looked: u64,
    /// How many of the shared words in `looked` owed something.
    pub(in crate::keyed) busy: u64,
}

impl Counts {
    pub(super) const NONE: Self = Self {
        keys: 0,
        evictions: 0,
        overflows: 0,
        refused_newcomers: 0,
        clears: 0,
        generation: 0,
        has_fixed: false,
        looked: 0,
        busy: 0,
    };
}

/// A lock for a part of the keys, with the counts that the lock protects and a signal.
pub(super) struct Part {
    counts: Guarded<Counts>,
    /// The signal for threads that wait for tokens of these keys.
    ///
    /// It is raised when the tokens may come earlier. It adds no memory, because a part is padded to whole cache lines
    /// anyway.
    #[cfg(feature = "std")]
    changes: Signal,
    /// How many calls of `retier` and `clear_tier` there were for the keys of this part; wraps.
    #[cfg(feature = "alloc")]
    retiers: AtomicU32,
}

impl Part {
    const_unless_loom! {
        const fn new() -> Self {
            Self {
                counts: Guarded::new(Counts::NONE),
                #[cfg(feature = "std")]
                changes: Signal::new(),
                #[cfg(feature = "alloc")]
                retiers: AtomicU32::new(0),
            }
        }
    }
}

/// The locks. Each lock serves some groups of shared lines, and all keys that belong to these groups.
///
/// A lock is held while a key gets a slot, so that no key gets two slots. It is also held while a shared line changes.
pub(super) enum Locks {
    One(Part),
    #[cfg(feature = "alloc")]
    Many(Box<[CachePadded<Part>; LOCKS]>),
}

impl Locks {
    const_unless_loom! {
        pub(super) const fn one() -> Self {
            Self::One(Part::new())
        }
    }

    #[cfg(feature = "alloc")]
    pub(super) fn many() -> Self {
        Self::Many(Box::new(array::from_fn(|_| CachePadded::new(Part::new()))))
    }

    /// Returns how many locks there are. The lock of a group is the one of its number modulo this one.
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            #[cfg(feature = "alloc")]
            Self::Many(_) => LOCKS,
        }
    }

    /// Returns the lock of a group of shared lines, and of the keys that belong to this group.
    #[inline]
    pub(super) fn of(&self, group: usize) -> &Guarded<Counts> {
        &self.part(group).counts
    }

    /// Returns the signal that is raised when tokens may come earlier for a key of this group.
    #[cfg(feature = "std")]
    pub(super) fn changes(&self, group: usize) -> &Signal {
        &self.part(group).changes
    }

    /// Returns how many calls of `retier` and `clear_tier` there were for keys under this group's lock.
    #[cfg(feature = "alloc")]
    pub(super) fn retiers(&self, group: usize) -> u32 {
        // ORDERING: Acquire pairs with the Release in `count_retier`. A thread that loads the new count and then asks
        // for a tier sees all that the caller of `retier` wrote before. Otherwise the key could get its old tier.
        // loom-tests: keyed::retier_reaches_a_key_that_is_just_seen.
        self.part(group).retiers.load(Ordering::Acquire)
    }

    /// Counts a call of `retier` or `clear_tier` for a key of this group.
    #[cfg(feature = "alloc")]
    pub(super) fn count_retier(&self, group: usize) {
        // ORDERING: Release pairs with the Acquire load in `retiers`. It publishes what the caller of `retier` wrote
        // before.
        self.part(group).retiers.fetch_add(1, Ordering::Release);
    }

    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one lock only"))]
    #[inline]
    fn part(&self, group: usize) -> &Part {
        match self {
            Self::One(part) => part,
            #[cfg(feature = "alloc")]
            Self::Many(parts) => &parts[group % LOCKS],
        }
    }

    /// Calls `each` with every part.
    fn for_each(&self, mut each: impl FnMut(&Part)) {
        match self {
            Self::One(part) => each(part),
            #[cfg(feature = "alloc")]
            Self::Many(parts) => parts.iter().for_each(|part| each(part)),
        }
    }

    /// Raises the signals of all parts.
    #[cfg(feature = "std")]
    pub(super) fn raise_all(&self) {
        self.for_each(|part| part.changes.raise_for_waiters());
    }

    /// Adds up one of the counts over all locks. The sum wraps.
    pub(super) fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        let mut sum = 0_u64;
        self.for_each(|part| sum = sum.wrapping_add(part.counts.read(&of)));
        sum
    }
}
