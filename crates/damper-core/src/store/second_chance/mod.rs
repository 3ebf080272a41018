//! One shard of an [`BoundedStore`](super::BoundedStore), without its lock: a ring of entries, and a table that finds them.
//!
//! This is CLOCK, used by pagers since Corbató's of 1968, with a small counter in place of the bit. A hit counts how
//! often its entry was used, up to 3, and moves nothing. A new entry in a full ring takes the place of another: a
//! hand goes round, passes over entries that were used, counts their uses down, and takes the first entry that has
//! none left. So an entry that is used between two visits of the hand stays, and every step of the hand is paid for
//! by a hit or an insertion.
//!
//! One eviction takes back the uses of no more than [`LOOKS`] entries. After that it takes the next entry whatever its uses.
//!
//! Entries whose values the owner wants kept go last. The hand marks those that it meets, and from then on passes
//! over them 64 at a time. So an eviction may look at a whole ring of kept entries, but at each of them once. A mark
//! may be out of date, so every eviction looks again at [`REVIEWS`] marked entries and takes the mark from those that
//! need not be kept any more. A kept entry goes only when all entries are marked: of the next [`LOOKS`] the first
//! without uses, unless one of these need not be kept any more.
//!
//! On random keys by Zipf's law it has some two percentage points more hits than an exact LRU.

mod marks;

use crate::sync::{AtomicU64, Ordering};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use hashbrown::HashTable;
use marks::Marks;

/// The highest count of uses; more make no difference.
const MOST_USES: u64 = 3;

/// The entries that an eviction looks at before it ignores uses.
///
/// If all are kept, one of them goes after as many looks.
const LOOKS: usize = 64;

/// The marked entries that an eviction looks at again.
const REVIEWS: usize = 2;

#[derive(Debug)]
pub(super) struct Entry<K, V> {
    hash: u64,
    /// The uses since the last visit of the hand.
    uses: AtomicU64,
    key: K,
    value: Arc<V>,
}

impl<K, V> Entry<K, V> {
    /// Creates an entry without uses.
    pub(super) fn new(hash: u64, key: K, value: Arc<V>) -> Self {
        Self { hash, uses: AtomicU64::new(0), key, value }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn key(&self) -> &K {
        &self.key
    }

    pub(super) fn value(&self) -> &Arc<V> {
        &self.value
    }

    pub(super) fn into_value(self) -> Arc<V> {
        self.value
    }

    /// Counts one use.
    ///
    /// Many threads may call it at once under a shared lock: of simultaneous uses one may be lost.
    fn count_use(&self) {
        // ORDERING: Relaxed, both. The count is a hint for the hand and publishes nothing. The shard's lock orders it before
        // the hand's visit.
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < MOST_USES {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// Takes back one use, if there is one. It is called under the exclusive lock.
    fn forget_use(&self) -> bool {
        // ORDERING: Relaxed, both: the exclusive lock keeps other threads out.
        let uses = self.uses.load(Ordering::Relaxed);
        if uses > 0 {
            self.uses.store(uses - 1, Ordering::Relaxed);
        }
        uses > 0
    }
}

/// The entry that makes room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    index: usize,
    /// Whether the entry's value was to be kept.
    is_kept: bool,
}

impl Victim {
    /// Returns whether the entry's value was to be kept.
    pub(super) fn is_kept(self) -> bool {
        self.is_kept
    }
}

/// The ring and its table, which allocate at construction only.
#[derive(Debug)]
pub(super) struct SecondChance<K, V> {
    /// The most entries, at least 1.
    capacity: usize,
    /// The index in `entries` of each hash.
    ///
    /// It has room for twice the capacity. So hashbrown cleans up in place what removals leave behind (which at half
    /// its load is next to nothing), and never moves to a larger table.
    table: HashTable<u32>,
    entries: Vec<Entry<K, V>>,
    /// The index of the next entry to be looked at.
    hand: usize,
    /// The entries that were to be kept when they were last looked at.
    kept: Marks,
    /// The index of the next marked entry to be looked at again.
    review: usize,
    evictions: u64,
    kept_evictions: u64,
}

impl<K, V> SecondChance<K, V> {
    /// Creates a ring for 1 to 2^28 entries.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            table: HashTable::with_capacity(2 * capacity),
            entries: Vec::with_capacity(capacity),
            hand: 0,
            kept: Marks::new(capacity),
            review: 0,
            evictions: 0,
            kept_evictions: 0,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns how many of the evictions hit a value that was to be kept.
    pub(super) fn kept_evictions(&self) -> u64 {
        self.kept_evictions
    }

    pub(super) fn entries(&self) -> &[Entry<K, V>] {
        &self.entries
    }

    /// Returns the index of a key's entry. It runs the key's `Eq`, and no other user code.
    #[inline]
    fn index<Q: Eq + ?Sized>(&self, hash: u64, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        let is_it = |&index: &u32| {
            let entry = &self.entries[index as usize];
            entry.hash == hash && entry.key.borrow() == key
        };
        self.table.find(hash, is_it).map(|&index| index as usize)
    }

    /// Returns the value of a key, without counting a use of it.
    pub(super) fn peek<Q: Eq + ?Sized>(&self, hash: u64, key: &Q) -> Option<&Arc<V>>
    where
        K: Borrow<Q>,
    {
        self.index(hash, key).map(|index| &self.entries[index].value)
    }

    /// Returns the value of a key, and counts that as a use of it.
    #[inline]
    pub(super) fn get<Q: Eq + ?Sized>(&self, hash: u64, key: &Q) -> Option<&Arc<V>>
    where
        K: Borrow<Q>,
    {
        let entry = &self.entries[self.index(hash, key)?];
        entry.count_use();
        Some(&entry.value)
    }

    /// Returns the entry that has to make room for the next one; `None` while there is room.
    ///
    /// If `is_kept` unwinds, only uses and marks have changed.
    pub(super) fn victim(&mut self, is_kept: impl Fn(&mut Arc<V>) -> bool) -> Option<Victim> {
        (self.entries.len() == self.capacity).then(|| self.find_victim(is_kept))
    }

    /// Lets the victim stay: the next look begins after it.
    pub(super) fn spare(&mut self, victim: Victim) {
        self.hand = self.after(victim.index);
    }

    /// Inserts an entry in the place of the [`victim`](Self::victim), and returns the victim's entry.
    ///
    /// The key must not be there yet. The method runs no user code.
    pub(super) fn insert(&mut self, entry: Entry<K, V>, victim: Option<Victim>) -> Option<Entry<K, V>> {
        let hash = entry.hash;
        let (index, evicted) = if let Some(Victim { index, is_kept }) = victim {
            self.unlink(index);
            self.kept.unmark(index);
            self.hand = self.after(index);
            self.evictions += 1;
            self.kept_evictions += u64::from(is_kept);
            (index, Some(core::mem::replace(&mut self.entries[index], entry)))
        } else {
            self.entries.push(entry);
            (self.entries.len() - 1, None)
        };
        let entries = &self.entries;
        // The index is less than 2^28.
        self.table.insert_unique(hash, index as u32, |&index| entries[index as usize].hash);
        evicted
    }

    /// Removes the entry of a key.
    pub(super) fn remove<Q: Eq + ?Sized>(&mut self, hash: u64, key: &Q) -> Option<Entry<K, V>>
    where
        K: Borrow<Q>,
    {
        let index = self.index(hash, key)?;
        self.unlink(index);
        let removed = self.entries.swap_remove(index);
        let last = self.entries.len();
        if self.kept.is_marked(last) {
            self.kept.mark(index);
        } else {
            self.kept.unmark(index);
        }
        self.kept.unmark(last);
        // The last entry has moved to where the removed one was.
        if let Some(moved) = self.entries.get(index)
            && let Some(its_index) = self.table.find_mut(moved.hash, |&index| index as usize == last)
        {
            *its_index = index as u32;
        }
        Some(removed)
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self, removed: &mut Vec<Entry<K, V>>) {
        self.table.clear();
        removed.append(&mut self.entries);
        self.kept.clear();
        self.hand = 0;
    }

    /// Finds the entry that goes.
    ///
    /// It is the next entry without uses that is not kept, or else the next one that is not kept, or else a kept one.
    fn find_victim(&mut self, is_kept: impl Fn(&mut Arc<V>) -> bool) -> Victim {
        // While there was room the hand stayed, and entries may have been removed under it.
        if self.hand >= self.entries.len() {
            self.hand = 0;
        }
        self.review_marks(&is_kept);
        let mut looks = 0;
        // The loop ends, because beyond `LOOKS` every step marks another entry or finds the victim.
        while let Some(index) = self.kept.next_unmarked(self.hand) {
            let entry = &mut self.entries[index];
            if looks >= LOOKS || !entry.forget_use() {
                if !is_kept(&mut entry.value) {
                    return Victim { index, is_kept: false };
                }
                self.kept.mark(index);
            }
            looks += 1;
            self.hand = self.after(index);
        }
        self.find_victim_among_kept(&is_kept)
    }

    /// Reviews the next marked entries, and takes the mark from those that need not be kept any more.
    fn review_marks(&mut self, is_kept: &impl Fn(&mut Arc<V>) -> bool) {
        for _ in 0..REVIEWS.min(self.kept.count()) {
            if let Some(index) = self.kept.next_marked(self.review) {
                self.review = self.after(index);
                if !is_kept(&mut self.entries[index].value) {
                    self.kept.unmark(index);
                }
            }
        }
    }

    /// Finds the entry that goes when all are marked.
    ///
    /// It is the next entry that need not be kept any more, or else the next one without uses.
    #[cold]
    fn find_victim_among_kept(&mut self, is_kept: &impl Fn(&mut Arc<V>) -> bool) -> Victim {
        let (mut index, mut unused) = (self.hand, None);
        for _ in 0..LOOKS.min(self.entries.len()) {
            let entry = &mut self.entries[index];
            if !is_kept(&mut entry.value) {
                return Victim { index, is_kept: false };
            }
            if unused.is_none() && !entry.forget_use() {
                unused = Some(index);
            }
            index = self.after(index);
        }
        Victim { index: unused.unwrap_or(index), is_kept: true }
    }

    /// Takes an entry out of the table.
    fn unlink(&mut self, index: usize) {
        if let Ok(found) = self.table.find_entry(self.entries[index].hash, |&other| other as usize == index) {
            found.remove();
        }
    }

    /// Returns the index after this one. The ring is full whenever that matters.
    fn after(&self, index: usize) -> usize {
        if index + 1 < self.entries.len() { index + 1 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: u64) -> Entry<u64, u64> {
        // These hashes collide in their low bits, which choose the index in the table.
        Entry::new(number.rotate_right(4), number, Arc::new(number))
    }

    fn insert(ring: &mut SecondChance<u64, u64>, number: u64, is_kept: impl Fn(&u64) -> bool) {
        let victim = ring.victim(|value| is_kept(value));
        ring.insert(of(number), victim);
    }

    /// Insertions, removals and evictions reuse the memory of construction.
    #[test]
    fn nothing_is_allocated_after_construction() {
        for capacity in [1, 2, 3, 7, 14, 15, 28, 29, 100, 448, 449] {
            let mut ring = SecondChance::new(capacity);
            let (table, entries) = (ring.table.capacity(), ring.entries.capacity());
            for number in 0..20_000 {
                insert(&mut ring, number, |value| value % 3 == 0);
                if number % 7 == 0 {
                    let key = number / 2;
                    ring.remove(of(key).hash, &key);
                }
                assert!(ring.entries.len() <= capacity);
                assert_eq!(ring.table.len(), ring.entries.len());
            }
            ring.clear(&mut Vec::new());
            assert_eq!((ring.table.capacity(), ring.entries.capacity()), (table, entries));
        }
    }

    /// Uses every entry more often than is counted.
    fn use_all(ring: &SecondChance<u64, u64>) {
        for entry in ring.entries() {
            (0..10).for_each(|_| assert!(ring.get(entry.hash, &entry.key).is_some()));
        }
    }

    /// Returns how often an insertion asks whether a value is to be kept.
    fn questions(ring: &mut SecondChance<u64, u64>, number: u64, is_kept: bool) -> usize {
        let questions = core::cell::Cell::new(0);
        insert(ring, number, |_| {
            questions.set(questions.get() + 1);
            is_kept
        });
        questions.get()
    }

    #[test]
    fn eviction_scan_is_bounded() {
        let mut ring = SecondChance::new(1_000);
        (0..1_000).for_each(|number| insert(&mut ring, number, |_| false));
        use_all(&ring);
        assert_eq!((questions(&mut ring, 1_000, false), ring.hand), (1, LOOKS + 1));
    }

    /// Each entry that has come to be kept is looked at once; from then on evictions are short again.
    #[test]
    fn kept_entries_are_scanned_once() {
        let mut ring = SecondChance::new(1_000);
        (0..1_000).for_each(|number| insert(&mut ring, number, |_| false));
        use_all(&ring);
        assert!(questions(&mut ring, 1_000, true) <= 1_000 + LOOKS);
        for number in 1_001..3_000 {
            assert!(questions(&mut ring, number, true) <= REVIEWS + 1 + LOOKS);
        }
        assert_eq!((ring.entries.len(), ring.evictions(), ring.kept_evictions()), (1_000, 2_000, 2_000));
    }

    /// However many kept entries lie side by side, another one goes, wherever it is.
    #[test]
    fn kept_entries_stay_while_another_can_go() {
        for other in [0, 1, 63, 64, 65, 500, 998, 999] {
            let mut ring = SecondChance::new(1_000);
            let is_kept = |&number: &u64| number < 1_000 && number != other;
            (0..1_000).for_each(|number| insert(&mut ring, number, is_kept));
            use_all(&ring);
            (1_000..5_000).for_each(|number| insert(&mut ring, number, is_kept));
            let mut numbers: Vec<_> = ring.entries().iter().map(|entry| entry.key).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq((0..1_000).filter(|&number| number != other).chain([4_999])));
            assert_eq!((ring.evictions(), ring.kept_evictions()), (4_000, 0));
        }
    }

    /// A mark that is out of date is found in time, also among many.
    #[test]
    fn entries_no_longer_kept_are_evicted() {
        let mut ring = SecondChance::new(1_000);
        (0..1_000).for_each(|number| insert(&mut ring, number, |_| true));
        insert(&mut ring, 1_000, |_| true);
        assert_eq!((ring.kept.count(), ring.kept_evictions()), (999, 1));
        (1_001..1_501).for_each(|number| insert(&mut ring, number, |_| false));
        assert_eq!((ring.kept.count(), ring.kept_evictions()), (0, 1));
    }
}
