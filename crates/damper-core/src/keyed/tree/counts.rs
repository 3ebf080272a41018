//! The counts of a tree's tables, a number for each level.

use super::QuotaTree;
use crate::keyed::Crowding;

impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C, S> QuotaTree<K, LEVELS, DIMENSIONS, C, S> {
    /// Returns for how many keys each level was built, counted once for each dimension.
    ///
    /// This is the level's [capacity](super::QuotaTreeBuilder::capacities) times the number of dimensions.
    #[must_use]
    pub fn capacities(&self) -> [usize; LEVELS] {
        self.levels.each_ref().map(|level| level.capacity)
    }

    /// Returns how many keys have a slot in each level, whether they owe something or not.
    ///
    /// A slot holds a key's own bucket for one dimension. So a key counts once for each dimension in which a plan
    /// limits it.
    #[must_use]
    pub fn keys(&self) -> [usize; LEVELS] {
        // The sum is at most the number of slots, so it fits a `usize`. It can be wrong if keys come and go while the
        // locks are read one by one.
        self.levels.each_ref().map(|level| level.table.sum(|counts| counts.keys) as usize)
    }

    /// Returns how many keys of each level lost their slot while they owed something.
    #[must_use]
    pub fn evictions(&self) -> [u64; LEVELS] {
        self.levels.each_ref().map(|level| level.table.sum(|counts| counts.evictions))
    }

    /// Returns counts that show whether the table of each level is too small for its keys.
    ///
    /// [`Crowding`] counts how many shared buckets new keys looked at, and how many of these buckets owed something.
    /// Its docs say which share is too large.
    #[must_use]
    pub fn crowding(&self) -> [Crowding; LEVELS] {
        self.levels.each_ref().map(|level| level.table.crowding())
    }

    /// Returns how many decisions of each level used a shared bucket, because the key had no slot.
    #[must_use]
    pub fn overflows(&self) -> [u64; LEVELS] {
        self.levels.each_ref().map(|level| level.table.sum(|counts| counts.overflows))
    }

    /// Returns the number of refused calls of keys without a slot, for each level.
    ///
    /// [`KeyedLimiter::refused_newcomers`](crate::KeyedLimiter::refused_newcomers) lists the reasons.
    #[must_use]
    pub fn refused_newcomers(&self) -> [u64; LEVELS] {
        self.levels.each_ref().map(|level| level.table.sum(|counts| counts.refused_newcomers))
    }
}
