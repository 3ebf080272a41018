//! The live quotas of the tiers, and the fixed words of an added tier.
//!
//! [`table`](super#terms) defines the terms, and [`lines`](super::lines) the *fixed words*.
//!
//! There are up to 15 tiers. The word of a key's slot says which one the key is in. While a slot changes its owner, the
//! word names a tier that does not exist.
//!
//! **An added tier** has fixed words of its own, one for each group of shared lines. So each key keeps its line of
//! shared words and its lock when a tier is added.
//!
//! **Asking again for a tier.** The caller's function says which tier a key is in. `retier` increments a count before
//! it calls that function. A first sight calls the function before it takes the key's lock, and calls it again if the
//! count has changed by the time it holds the lock. So a first sight never gives a key the tier that it had before a
//! `retier`.
//!
//! **Changing several quotas.** All changes are prepared before the first is published, and each claims its quota. So
//! either all of them are made or none.
//!
//! **Moving a key.** The move swaps the word of the key's slot for one whose bucket takes as long to be full under the
//! new tier's quota. It adds what the key owes in shared words. Such a word may owe more than the new quota allows. So
//! a tier remembers the deepest debt that was ever moved into it. Otherwise a reader would mistake such a word for one
//! from before the clock stepped back, and treat its bucket as full.

use crate::quota::{Line, LineStart, LiveQuota, Quota};
use crate::sync::{AtomicU64, Ordering, const_unless_loom};
use crate::time::Clock;
#[cfg(feature = "alloc")]
use {
    super::slots::MOST_TIERS,
    crate::sync::{SetOnce, array_of},
    alloc::{boxed::Box, vec::Vec},
};

/// The most tiers beside the first.
#[cfg(feature = "alloc")]
const MOST_OTHERS: usize = MOST_TIERS - 1;

/// The quotas of the tiers.
pub(super) struct Tiers {
    /// The first tier is apart from the others, so that the fast path finds it without another load.
    pub(super) first: Tier,
    /// The tiers that the limiter was built with.
    #[cfg(feature = "alloc")]
    others: Vec<Tier>,
    /// The tiers that were added while the limiter was used. They fill the places from the first on.
    #[cfg(feature = "alloc")]
    added: [SetOnce<AddedTier>; MOST_OTHERS],
    /// The quota to which each tier can be changed, also one that is added, if `make_room_for` set it.
    #[cfg(feature = "alloc")]
    largest: Option<Quota>,
}

pub(super) struct Tier {
    pub(super) quota: LiveQuota,
    /// The deepest debt that a key had when it was moved to this tier, in the tier's tokens or windows.
    deepest_moved: AtomicU64,
}

#[cfg(feature = "alloc")]
struct AddedTier {
    tier: Tier,
    /// The tier's fixed words: one for each group of shared lines.
    fixed: Box<[AtomicU64]>,
}

impl Tiers {
    const_unless_loom! {
        pub(super) const fn one(quota: Quota, start: LineStart) -> Self {
            Self {
                first: Tier::new(quota, start),
                #[cfg(feature = "alloc")]
                others: Vec::new(),
                #[cfg(feature = "alloc")]
                added: array_of!(MOST_OTHERS, SetOnce::new()),
                #[cfg(feature = "alloc")]
                largest: None,
            }
        }
    }

    #[cfg(feature = "alloc")]
    pub(super) fn new(first: Quota, others: &[Quota], start: LineStart) -> Self {
        let others = others.iter().map(|quota| Tier::new(*quota, start)).collect();
        Self { others, ..Self::one(first, start) }
    }

    /// Returns a tier, if there is one of this number.
    #[inline]
    pub(super) fn get(&self, tier: usize) -> Option<&Tier> {
        match tier.checked_sub(1) {
            None => Some(&self.first),
            #[cfg(feature = "alloc")]
            Some(other) => self.others.get(other).or_else(|| Some(&self.added(tier)?.tier)),
            #[cfg(not(feature = "alloc"))]
            Some(_) => None,
        }
    }

    /// Returns the tier of this number, or the last one if there are fewer.
    #[inline]
    pub(super) fn at(&self, tier: usize) -> (usize, &Tier) {
        match self.get(tier) {
            Some(found) => (tier, found),
            None => self.last(),
        }
    }

    #[cold]
    fn last(&self) -> (usize, &Tier) {
        let last = self.len() - 1;
        (last, self.get(last).unwrap_or(&self.first))
    }

    #[cfg_attr(not(feature = "alloc"), expect(clippy::unused_self, reason = "there is one tier only"))]
    #[inline]
    pub(super) fn len(&self) -> usize {
        #[cfg(feature = "alloc")]
        return 1 + self.others.len() + self.added.iter().take_while(|tier| tier.get().is_some()).count();
        #[cfg(not(feature = "alloc"))]
        return 1;
    }

    /// Returns whether there is one tier only.
    #[cfg_attr(not(feature = "alloc"), expect(clippy::unused_self, reason = "as `len`"))]
    #[inline]
    pub(super) fn is_one(&self) -> bool {
        #[cfg(feature = "alloc")]
        return self.others.is_empty() && self.added[0].get().is_none();
        #[cfg(not(feature = "alloc"))]
        return true;
    }

    /// Makes the lines of all tiers accept a debt of this depth.
    #[cfg(feature = "alloc")]
    pub(super) fn expect_debt_of(&self, debt: u64) {
        for tier in (0..self.len()).filter_map(|tier| self.get(tier)).filter(|tier| !tier.expects_debt_of(debt)) {
            tier.expect_debt_of(debt);
        }
    }

    /// Returns the quota of a tier, with its epoch and its line, as [`LiveQuota::read`] does.
    #[inline]
    pub(super) fn read<L: Line>(&self, tier: usize, clock: &impl Clock) -> (&LiveQuota, (usize, L)) {
        let (_, tier) = self.at(tier);
        let (epoch, mut line) = tier.quota.read(clock);
        tier.expect_moved(&mut line);
        (&tier.quota, (epoch, line))
    }
}

#[cfg(feature = "alloc")]
impl Tiers {
    /// Makes the lines of all tiers able to change to `largest` later. Call it before the first use.
    pub(super) fn make_room_for(&mut self, largest: Quota) {
        self.largest = Some(largest);
        for tier in core::iter::once(&mut self.first).chain(&mut self.others) {
            tier.quota.make_room_for(largest);
        }
    }

    /// Returns the added tier of this number, if there is one.
    #[cold]
    fn added(&self, tier: usize) -> Option<&AddedTier> {
        self.added.get(tier.checked_sub(1 + self.others.len())?)?.get()
    }

    /// Returns the fixed words of an added tier, in the order of the groups.
    pub(super) fn added_words(&self, tier: usize) -> &[AtomicU64] {
        self.added(tier).map_or(&[], |added| &added.fixed)
    }

    /// Adds a tier after the last one, and returns its number.
    ///
    /// It has a fixed word in each of `groups` groups. It returns `None` if there are as many tiers as there can be.
    pub(super) fn add(&self, quota: Quota, groups: usize) -> Option<usize> {
        let built = 1 + self.others.len();
        let fixed = (0..groups).map(|_| AtomicU64::new(0)).collect();
        let mut tier = Tier::new(quota, self.first.quota.line_start());
        if let Some(largest) = self.largest {
            tier.quota.make_room_for(largest);
        }
        let mut tier = Box::new(AddedTier { tier, fixed });
        for (index, place) in self.added.iter().take(MOST_TIERS - built).enumerate() {
            // Another thread may be adding a tier too, so each place is set once.
            match place.set(tier) {
                Ok(()) => return Some(built + index),
                Err(back) => tier = back,
            }
        }
        None
    }
}

impl Tier {
    const_unless_loom! {
        const fn new(quota: Quota, start: LineStart) -> Self {
            Self { quota: LiveQuota::new(quota, start), deepest_moved: AtomicU64::new(0) }
        }
    }

    /// Makes the tier's line accept the debts of keys that were moved to this tier.
    ///
    /// Without this, a debt deeper than the quota allows would be mistaken for one from before the clock stepped back.
    /// The method is called after the word of the key was read.
    #[inline]
    pub(super) fn expect_moved(&self, line: &mut impl Line) {
        // ORDERING: Relaxed. A thread that read the word of a moved key sees at least the debt that `expect_debt_of`
        // stored for it: the Acquire of the word pairs with the Release with which `Table::move_to` wrote it.
        // loom-tests: keyed::debt_survives_a_move_beside_a_check.
        line.expect_debt_of(self.deepest_moved.load(Ordering::Relaxed));
    }

    /// Returns whether `expect_debt_of` has remembered a debt of this depth.
    #[inline]
    pub(super) fn expects_debt_of(&self, debt: u64) -> bool {
        // ORDERING: Relaxed: the value only grows, and an older one leads to the slow path, which makes it grow.
        self.deepest_moved.load(Ordering::Relaxed) >= debt
    }

    /// Remembers that a key with a debt of this depth is moved to the tier.
    pub(super) fn expect_debt_of(&self, debt: u64) {
        // ORDERING: Relaxed: the Release of the word that is written next publishes it.
        let mut now = self.deepest_moved.load(Ordering::Relaxed);
        while let Err(newer) =
            self.deepest_moved.compare_exchange(now, now.max(debt), Ordering::Relaxed, Ordering::Relaxed)
        {
            now = newer;
        }
    }
}
