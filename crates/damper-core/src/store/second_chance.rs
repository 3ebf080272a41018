//! One shard of an [`LruStore`](super::LruStore), apart from its lock: a ring of entries, and a table of where they
//! are.
//!
//! This is CLOCK, as pagers have had it since Corbató's of 1968, with a small counter in place of the bit. A hit counts
//! up how often its entry was used, to 3, and moves nothing. A newcomer to a full ring takes the place of another: a
//! hand goes round, passes over what was used, counting its uses down, and takes the first entry that has none left. So
//! what is used between two visits of the hand stays, and every step of the hand is paid for by a hit or an insertion.
//!
//! One eviction takes back the uses of no more than [`LOOKS`] entries; then it takes the next entry whatever its uses.
//!
//! Entries whose values the owner wants kept go last. The hand marks those that it meets, and from then on passes over
//! them 64 at a time: so an eviction may look at a whole ring of kept entries, but at each of them once. A mark may be
//! out of date, so every eviction looks at [`REVIEWS`] marked entries and takes the mark from those that need not be
//! kept any more. Only when all entries are marked does a kept one go: the next one without uses of [`LOOKS`], unless
//! one among these need not be kept any more.

use super::marks::Marks;
use crate::sync::{AtomicU64, Ordering};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use hashbrown::HashTable;

/// More uses than these make no difference.
const MOST_USES: u64 = 3;

/// The entries that an eviction looks at before it ignores uses; and, where all are kept, before one of them goes.
const LOOKS: usize = 64;

/// The marked entries that an eviction looks at again.
const REVIEWS: usize = 2;

#[derive(Debug)]
pub(super) struct Entry<K, V> {
    hash: u64,
    /// Since the hand came by.
    uses: AtomicU64,
    key: K,
    value: Arc<V>,
}

impl<K, V> Entry<K, V> {
    /// What is to be inserted; nobody used it yet.
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

    /// Counts one use. Called under a shared lock, by many at once: of uses at the same moment one may be lost.
    fn used(&self) {
        // ORDERING: Relaxed, both: a hint for the hand, which publishes nothing; the shard's lock orders it before the
        // hand comes.
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < MOST_USES {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// Takes back one use, if there is one. Called under the exclusive lock.
    fn forget_use(&self) -> bool {
        // ORDERING: Relaxed, both: the exclusive lock keeps everybody else out.
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
    place: usize,
    /// Whether its value was to be kept.
    is_kept: bool,
}

/// The ring and its table. Memory is taken at construction, and none later.
#[derive(Debug)]
pub(super) struct Ring<K, V> {
    /// At least 1.
    capacity: usize,
    /// Where in `entries` the entry of a hash is. Made for twice the capacity: with so much room hashbrown cleans up in
    /// place what removals leave behind (which at half its load is next to nothing), and never moves to a larger table.
    places: HashTable<u32>,
    entries: Vec<Entry<K, V>>,
    /// The next one to be looked at.
    hand: usize,
    /// Those that were to be kept when they were looked at last.
    kept: Marks,
    /// The next one of these to be looked at again.
    review: usize,
    evictions: u64,
    kept_evictions: u64,
}

impl<K, V> Ring<K, V> {
    /// For 1 to 2^28 entries.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            places: HashTable::with_capacity(2 * capacity),
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

    /// How many of these had a value that was to be kept.
    pub(super) fn kept_evictions(&self) -> u64 {
        self.kept_evictions
    }

    pub(super) fn entries(&self) -> &[Entry<K, V>] {
        &self.entries
    }

    /// The place of a key. Runs the key's `Eq`, and nothing else of the user's.
    #[inline]
    fn place<Q: Eq + ?Sized>(&self, hash: u64, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        let is_it = |&place: &u32| {
            let entry = &self.entries[place as usize];
            entry.hash == hash && entry.key.borrow() == key
        };
        self.places.find(hash, is_it).map(|&place| place as usize)
    }

    /// The value of a key, which counts as a use of it.
    #[inline]
    pub(super) fn get<Q: Eq + ?Sized>(&self, hash: u64, key: &Q) -> Option<&Arc<V>>
    where
        K: Borrow<Q>,
    {
        let entry = &self.entries[self.place(hash, key)?];
        entry.used();
        Some(&entry.value)
    }

    /// Where the next entry goes: into the place of this one, or wherever there is room.
    ///
    /// If `is_kept` unwinds, everything is as before, but for uses and marks.
    pub(super) fn victim(&mut self, is_kept: impl Fn(&V) -> bool) -> Option<Victim> {
        (self.entries.len() == self.capacity).then(|| self.look_for_victim(is_kept))
    }

    /// Puts in an entry whose key is not there yet, at the place that [`victim`](Self::victim) told, and returns the
    /// one that was there. Runs nothing of the user's.
    pub(super) fn insert(&mut self, entry: Entry<K, V>, victim: Option<Victim>) -> Option<Entry<K, V>> {
        let hash = entry.hash;
        let (place, evicted) = if let Some(Victim { place, is_kept }) = victim {
            self.forget(place);
            self.kept.unmark(place);
            self.hand = self.after(place);
            self.evictions += 1;
            self.kept_evictions += u64::from(is_kept);
            (place, Some(core::mem::replace(&mut self.entries[place], entry)))
        } else {
            self.entries.push(entry);
            (self.entries.len() - 1, None)
        };
        let entries = &self.entries;
        // At most 2^28 places.
        self.places.insert_unique(hash, place as u32, |&place| entries[place as usize].hash);
        evicted
    }

    /// Takes out the entry of a key.
    pub(super) fn remove<Q: Eq + ?Sized>(&mut self, hash: u64, key: &Q) -> Option<Entry<K, V>>
    where
        K: Borrow<Q>,
    {
        let place = self.place(hash, key)?;
        self.forget(place);
        let removed = self.entries.swap_remove(place);
        let last = self.entries.len();
        if self.kept.is_marked(last) {
            self.kept.mark(place);
        } else {
            self.kept.unmark(place);
        }
        self.kept.unmark(last);
        // The last one is where the removed one was.
        if let Some(moved) = self.entries.get(place)
            && let Some(its_place) = self.places.find_mut(moved.hash, |&place| place as usize == last)
        {
            *its_place = place as u32;
        }
        Some(removed)
    }

    /// Takes out all entries.
    pub(super) fn clear(&mut self, removed: &mut Vec<Entry<K, V>>) {
        self.places.clear();
        removed.append(&mut self.entries);
        self.kept.clear();
        self.hand = 0;
    }

    /// The next entry without uses that is not kept; else the next one that is not kept; else one that is.
    fn look_for_victim(&mut self, is_kept: impl Fn(&V) -> bool) -> Victim {
        // While there was room the hands stayed, and entries may have been removed under them.
        if self.hand >= self.entries.len() {
            self.hand = 0;
        }
        self.review_marks(&is_kept);
        let mut looks = 0;
        // Ends, for beyond `LOOKS` every step marks another entry, or finds the victim.
        while let Some(place) = self.kept.next_unmarked(self.hand) {
            let entry = &self.entries[place];
            if looks >= LOOKS || !entry.forget_use() {
                if !is_kept(&entry.value) {
                    return Victim { place, is_kept: false };
                }
                self.kept.mark(place);
            }
            looks += 1;
            self.hand = self.after(place);
        }
        self.look_among_kept(&is_kept)
    }

    /// Takes the mark from those entries, of the next marked ones, that need not be kept any more.
    fn review_marks(&mut self, is_kept: &impl Fn(&V) -> bool) {
        for _ in 0..REVIEWS.min(self.kept.count()) {
            if let Some(place) = self.kept.next_marked(self.review) {
                self.review = self.after(place);
                if !is_kept(&self.entries[place].value) {
                    self.kept.unmark(place);
                }
            }
        }
    }

    /// Where all are marked: the next entry that need not be kept any more; else the next one without uses.
    #[cold]
    fn look_among_kept(&mut self, is_kept: &impl Fn(&V) -> bool) -> Victim {
        let (mut place, mut unused) = (self.hand, None);
        for _ in 0..LOOKS.min(self.entries.len()) {
            let entry = &self.entries[place];
            if !is_kept(&entry.value) {
                return Victim { place, is_kept: false };
            }
            if unused.is_none() && !entry.forget_use() {
                unused = Some(place);
            }
            place = self.after(place);
        }
        Victim { place: unused.unwrap_or(place), is_kept: true }
    }

    /// Takes a place out of the table.
    fn forget(&mut self, place: usize) {
        if let Ok(found) = self.places.find_entry(self.entries[place].hash, |&other| other as usize == place) {
            found.remove();
        }
    }

    /// The place after this one; the ring is full whenever that matters.
    fn after(&self, place: usize) -> usize {
        if place + 1 < self.entries.len() { place + 1 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: u64) -> Entry<u64, u64> {
        // Hashes that collide in their low bits, which choose the place in the table.
        Entry::new(number.rotate_right(4), number, Arc::new(number))
    }

    fn insert(ring: &mut Ring<u64, u64>, number: u64, is_kept: impl Fn(&u64) -> bool) {
        let victim = ring.victim(is_kept);
        ring.insert(of(number), victim);
    }

    /// However often entries come and go, the memory stays where it is.
    #[test]
    fn nothing_is_allocated_after_construction() {
        for capacity in [1, 2, 3, 7, 14, 15, 28, 29, 100, 448, 449] {
            let mut ring = Ring::new(capacity);
            let (places, entries) = (ring.places.capacity(), ring.entries.capacity());
            for number in 0..20_000 {
                insert(&mut ring, number, |value| value % 3 == 0);
                if number % 7 == 0 {
                    let key = number / 2;
                    ring.remove(of(key).hash, &key);
                }
                assert!(ring.entries.len() <= capacity);
                assert_eq!(ring.places.len(), ring.entries.len());
            }
            ring.clear(&mut Vec::new());
            assert_eq!((ring.places.capacity(), ring.entries.capacity()), (places, entries));
        }
    }

    /// Uses every entry more often than is counted.
    fn use_all(ring: &Ring<u64, u64>) {
        for entry in ring.entries() {
            (0..10).for_each(|_| assert!(ring.get(entry.hash, &entry.key).is_some()));
        }
    }

    /// How often an insertion asks whether a value is to be kept.
    fn questions(ring: &mut Ring<u64, u64>, number: u64, is_kept: bool) -> usize {
        let questions = core::cell::Cell::new(0);
        insert(ring, number, |_| {
            questions.set(questions.get() + 1);
            is_kept
        });
        questions.get()
    }

    #[test]
    fn a_scan_is_bounded() {
        let mut ring = Ring::new(1_000);
        (0..1_000).for_each(|number| insert(&mut ring, number, |_| false));
        use_all(&ring);
        assert_eq!((questions(&mut ring, 1_000, false), ring.hand), (1, LOOKS + 1));
    }

    /// Each entry that has come to be kept is looked at once; from then on evictions are short again.
    #[test]
    fn a_scan_of_kept_entries_ends_and_is_paid_for_once() {
        let mut ring = Ring::new(1_000);
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
    fn no_kept_entry_goes_while_there_is_another() {
        for other in [0, 1, 63, 64, 65, 500, 998, 999] {
            let mut ring = Ring::new(1_000);
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
    fn entries_that_need_not_be_kept_any_more_go_again() {
        let mut ring = Ring::new(1_000);
        (0..1_000).for_each(|number| insert(&mut ring, number, |_| true));
        insert(&mut ring, 1_000, |_| true);
        assert_eq!((ring.kept.count(), ring.kept_evictions()), (999, 1));
        (1_001..1_501).for_each(|number| insert(&mut ring, number, |_| false));
        assert_eq!((ring.kept.count(), ring.kept_evictions()), (0, 1));
    }
}
