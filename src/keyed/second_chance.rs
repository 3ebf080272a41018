//! One shard of an [`LruStore`](super::LruStore), apart from its lock: a ring of entries, and a table of where they
//! are.
//!
//! This is CLOCK, as pagers have had it since Corbató's of 1968, with a small counter in place of the bit. A hit counts
//! up how often its entry was used, to 3, and moves nothing. A newcomer to a full ring takes the place of another: a
//! hand goes round, passes over what was used, counting its uses down, and takes the first entry that has none left. So
//! what is used between two visits of the hand stays, and every step of the hand is paid for by a hit or an insertion.
//!
//! One eviction takes no more than [`LOOKS`] such steps; then it takes the next entry whatever its uses. Those that its
//! owner wants kept are passed over in either case, but not for longer than as many steps again.

use crate::atomic::{AtomicU64, Ordering};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use hashbrown::HashTable;

/// More uses than these make no difference.
const MOST_USES: u64 = 3;

/// How many entries an eviction looks at before it minds uses no more, and then before it minds nothing.
pub(super) const LOOKS: usize = 64;

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
    evictions: u64,
}

impl<K, V> Ring<K, V> {
    /// For 1 to 2^28 entries.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            places: HashTable::with_capacity(2 * capacity),
            entries: Vec::with_capacity(capacity),
            hand: 0,
            evictions: 0,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
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
    /// If `is_kept` unwinds, everything is as before, but for uses.
    pub(super) fn victim(&mut self, is_kept: impl Fn(&V) -> bool) -> Option<usize> {
        (self.entries.len() == self.capacity).then(|| self.look_for_victim(is_kept))
    }

    /// Puts in an entry whose key is not there yet, at the place that [`victim`](Self::victim) told, and returns the
    /// one that was there. Runs nothing of the user's.
    pub(super) fn insert(&mut self, entry: Entry<K, V>, victim: Option<usize>) -> Option<Entry<K, V>> {
        let hash = entry.hash;
        let (place, evicted) = if let Some(place) = victim {
            self.forget(place);
            self.hand = self.after(place);
            self.evictions += 1;
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
        // The last one is where the removed one was.
        if let Some(moved) = self.entries.get(place) {
            let last = self.entries.len();
            if let Some(its_place) = self.places.find_mut(moved.hash, |&place| place as usize == last) {
                *its_place = place as u32;
            }
        }
        Some(removed)
    }

    /// Takes out all entries.
    pub(super) fn clear(&mut self, removed: &mut Vec<Entry<K, V>>) {
        self.places.clear();
        removed.append(&mut self.entries);
        self.hand = 0;
    }

    /// The next entry without uses that is not kept; else the next one that is not kept; else the next.
    fn look_for_victim(&mut self, is_kept: impl Fn(&V) -> bool) -> usize {
        // While there was room the hand stayed, and entries may have been removed under it.
        if self.hand >= self.entries.len() {
            self.hand = 0;
        }
        for look in 0..LOOKS + LOOKS.min(self.entries.len()) {
            let entry = &self.entries[self.hand];
            let is_used = look < LOOKS && entry.forget_use();
            if !is_used && !is_kept(&entry.value) {
                break;
            }
            self.hand = self.after(self.hand);
        }
        self.hand
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

    /// No eviction looks at more than it says, though all are used, or kept.
    #[test]
    fn a_scan_is_bounded() {
        for is_kept in [false, true] {
            let mut ring = Ring::new(1_000);
            for number in 0..1_000 {
                insert(&mut ring, number, |_| is_kept);
            }
            for number in 0..1_000 {
                for _ in 0..10 {
                    assert!(ring.get(of(number).hash, &number).is_some());
                }
            }
            let looks = core::cell::Cell::new(0);
            insert(&mut ring, 1_000, |_| {
                looks.set(looks.get() + 1);
                is_kept
            });
            assert_eq!((looks.get(), ring.hand), if is_kept { (LOOKS, 2 * LOOKS + 1) } else { (1, LOOKS + 1) });
        }
    }
}
