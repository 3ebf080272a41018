//! A count that is taken as a whole.

#[cfg(not(target_has_atomic = "64"))]
use super::AtomicU32 as Word;
#[cfg(target_has_atomic = "64")]
use super::AtomicU64 as Word;
use super::{Ordering, const_unless_loom};

/// Counts events until one caller takes the count.
///
/// Every event is in exactly one of the counts that were taken, or still here. No event is lost and none is taken
/// twice, however threads interleave. The count has 64 bits. On targets without atomics of 64 bits it has 32, and
/// wraps: 2^32 events between two takings count as none.
#[derive(Debug)]
pub struct Tally(Word);

impl Tally {
    const_unless_loom! {
        /// Creates an empty tally.
        #[must_use]
        pub const fn new() -> Self {
            Self(Word::new(0))
        }
    }

    /// Counts an event.
    #[inline]
    pub fn add(&self) {
        self.add_many(1);
    }

    /// Counts `n` events.
    #[inline]
    pub fn add_many(&self, n: u64) {
        // ORDERING: Relaxed, here and below. Nothing is published through the count, and the modification order of this
        // one location is all that the additions and the swap need. loom: tally::every_event_is_taken_once.
        self.0.fetch_add(n as _, Ordering::Relaxed);
    }

    /// Takes the count, and starts again at 0. It writes nothing if the count is 0.
    #[cfg_attr(target_has_atomic = "64", expect(clippy::useless_conversion, reason = "other targets have 32 bits"))]
    #[inline]
    pub fn take(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.0.swap(0, Ordering::Relaxed).into() }
    }

    /// Returns the count, and leaves it.
    #[cfg_attr(target_has_atomic = "64", expect(clippy::useless_conversion, reason = "other targets have 32 bits"))]
    #[inline]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed).into()
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}
