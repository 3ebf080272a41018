//! The live quotas of the tiers, and the fixed words of an added tier.
//!
//! [`table`](super#terms) defines the terms, and [`lines`](super::lines) the *fixed words*.
//!
//! There are up to 15 tiers. The word of a key's slot says which tier the key is in. While a slot changes its owner,
//! its word names a tier that does not exist.
//!
//! **An added tier** is one that was added while the limiter was used. It has its fixed words in memory of its own, one
//! for each group of shared lines. So the shared lines stay as they are, and each key keeps its line and its lock.
//!
//! **Asking again for a tier.** A function of the caller returns the tier of a key. When its answer for a key has
//! changed, `retier` moves the key. A first sight of the key at the same time must not use the old answer. So:
//!
//! - `retier` increments a count, and then calls the function.
//! - A first sight reads the count and calls the function before it takes the key's lock. With the lock held, it
//!   compares the count. If the count has changed, it calls the function again.
//!
//! **Changing several quotas.** Each change claims its quota, so no other change of that quota can come in between. The
//! first change is published only after all of them are prepared. So either all quotas change or none.
//!
//! **Moving a key.** A move swaps the word of the key's slot. Under the new tier's quota, the bucket then takes as long
//! to be full as before, plus the time for what the key owes in shared words. So the new word may owe more than the new
//! quota allows. A reader could mistake such a word for one from before the clock stepped back, and treat its bucket as
//! full. To prevent this, each tier remembers the deepest debt that was ever moved into it.

use crate::quota::{Line, LineStart, LiveQuota, Quota};
use crate::sync::{AtomicU64, Ordering, const_unless_loom};
use crate::time::Clock;
#[cfg(feature = "alloc")]
use {
    super::slots::MOST_TIERS,
    crate::sync::{SetOnce, array_of},
    alloc::{boxed::Box, vec::Vec},
};

/// The largest number of tiers besides the first.
#[cfg(feature = "alloc")]
const MOST_OTHERS: usize = MOST_TIERS - 1;

/// The quotas of the tiers.
pub(super) struct Tiers {
    /// The first tier, apart from the others so that the fast path needs no extra load to find it.
    pub(super) first: Tier,
    /// The other tiers that the limiter was built with.
    #[cfg(feature = "alloc")]
    others: Vec<Tier>,
    /// The tiers that were added while the limiter was used. They fill the array from its start.
    #[cfg(feature = "alloc")]
    added: [SetOnce<AddedTier>; MOST_OTHERS],
    /// The quota to which each tier can be changed, also one that is added, if `make_room_for` set it.
    #[cfg(feature = "alloc")]
    largest: Option<Quota>,
}

pub(super) struct Tier {
    pub(super) quota: LiveQuota,
    /// The deepest debt that was announced for this tier by [`expect_debt_of`](Self::expect_debt_of).
    ///
    /// It is in the tokens or windows of the tier.
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

    /// Returns the tier of this number, if there is one.
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

    /// Returns the tier of this number, with its number. A number beyond the last tier means the last.
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

    /// Returns whether there is only one tier.
    #[cfg_attr(not(feature = "alloc"), expect(clippy::unused_self, reason = "as `len`"))]
    #[inline]
    pub(super) fn is_one(&self) -> bool {
        #[cfg(feature = "alloc")]
        return self.others.is_empty() && self.added[0].get().is_none();
        #[cfg(not(feature = "alloc"))]
        return true;
    }

    /// Makes the lines of all tiers accept a debt of this depth, as [`Tier::expect_debt_of`] does for one tier.
    #[cfg(feature = "alloc")]
    pub(super) fn expect_debt_of(&self, debt: u64) {
        for tier in (0..self.len()).filter_map(|tier| self.get(tier)).filter(|tier| !tier.expects_debt_of(debt)) {
            tier.expect_debt_of(debt);
        }
    }

    /// Returns the quota of a tier, with the epoch and the line that [`LiveQuota::read`] returns.
    ///
    /// The line accepts the debts of keys that were moved to the tier.
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
    /// The tier has a fixed word for each of `groups` groups. The method returns `None` if there are already as many
    /// tiers as there can be.
    pub(super) fn add(&self, quota: Quota, groups: usize) -> Option<usize> {
        let built = 1 + self.others.len();
        let fixed = (0..groups).map(|_| AtomicU64::new(0)).collect();
        let mut tier = Tier::new(quota, self.first.quota.line_start());
        if let Some(largest) = self.largest {
            tier.quota.make_room_for(largest);
        }
        let mut tier = Box::new(AddedTier { tier, fixed });
        for (index, place) in self.added.iter().take(MOST_TIERS - built).enumerate() {
            // Another thread may be adding a tier too, and may have filled this place. Then `set` fails and returns the
            // tier, and the next place is tried.
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
    /// Call it after the word of the key was read.
    #[inline]
    pub(super) fn expect_moved(&self, line: &mut impl Line) {
        // ORDERING: Relaxed. The caller has loaded the key's word with Acquire. That load pairs with the Release swap
        // with which `Table::move_to` wrote the word of a moved key. `expect_debt_of` came before that swap, so this
        // load sees at least the debt of that key. loom-tests: keyed::debt_survives_a_move_beside_a_check.
        line.expect_debt_of(self.deepest_moved.load(Ordering::Relaxed));
    }

    /// Returns whether `expect_debt_of` was called with a debt of this depth or deeper.
    #[inline]
    pub(super) fn expects_debt_of(&self, debt: u64) -> bool {
        // ORDERING: Relaxed: the value only grows. A thread that reads an older, smaller value takes the slow path,
        // which calls `expect_debt_of` again.
        self.deepest_moved.load(Ordering::Relaxed) >= debt
    }

    /// Makes the tier's line accept debts of this depth from now on.
    ///
    /// Call it before writing a word that owes so much.
    pub(super) fn expect_debt_of(&self, debt: u64) {
        // ORDERING: Relaxed: the caller then writes the key's word with Release, which publishes this value to threads
        // that load the word with Acquire.
        let mut now = self.deepest_moved.load(Ordering::Relaxed);
        while let Err(newer) =
            self.deepest_moved.compare_exchange(now, now.max(debt), Ordering::Relaxed, Ordering::Relaxed)
        {
            now = newer;
        }
    }
}
