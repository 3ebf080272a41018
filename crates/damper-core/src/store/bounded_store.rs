//! A bounded store of values of any kind.

use super::second_chance::{Entry, SecondChance, Victim};
use super::walk::Walk;
use crate::OutOfRange;
use crate::capacity::{MAX_CAPACITY, capacity_within};
use crate::sync::Guarded;
use crate::time::Seed;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::convert::Infallible;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use crossbeam_utils::CachePadded;

/// The entries that a store has room for by default.
#[cfg(feature = "std")]
const DEFAULT_CAPACITY: usize = 1_024;

/// The fewest entries of a shard, if there is more than one.
const LEAST_IN_SHARD: usize = 64;

/// The shards for each thread that can run at the same time.
const SHARDS_PER_THREAD: usize = 4;

/// The first of the hash's bits that choose the shard.
///
/// They are above those that choose the place in hashbrown's tables, and below the 7 highest, which those tables
/// compare before they look at a key.
const SHARD_SHIFT: u32 = 40;

/// The predicate of the values that stay longest.
type KeepIf<V> = Box<dyn Fn(&V) -> bool + Send + Sync>;

/// A value per key, for the keys that were used last, in bounded memory.
///
/// It is for values that each key should have one of, such as a retry budget per host. If all values have common
/// settings, [`Keyed`](super::Keyed) creates and changes them. Keys are kept and compared, so no key ever gets
/// another's value. Values are handed out as [`Arc`]s: a caller that holds one keeps it, evicted or not. After an
/// eviction, the next caller that asks for the key gets a new value.
///
/// # Memory
///
/// There are never more entries than the [`capacity`](Self::capacity). The table that finds them is allocated at
/// construction and takes 35 to 47 bytes an entry, and the size of a key. An insertion allocates the value's `Arc`,
/// and the key if its `to_owned` allocates. A hit allocates nothing.
///
/// Entries are spread by their hashes over shards. A shard has at least 64 entries, and there are no more shards than
/// four times the threads that can run (rounded up to a power of two). Each shard has its part of the capacity, so
/// the first evictions come before all of them are full: with a capacity of 1,024 in 8 shards mostly after some 910
/// keys, with 10,000 after 9,600. Below a capacity of 128 there is one shard.
///
/// # Eviction
///
/// A hit relinks no list, it only counts how often its entry was used. Eviction is by CLOCK with counts up to 3,
/// where an exact LRU would keep a list. An exact LRU hits less often on random keys by Zipf's law, ten times as many
/// as fit: 43.6 % against 46.3 % with 1,000 entries and an exponent of 0.8, 67.4 % against 69.5 % with 1.0. The
/// reason is that a key that comes once goes sooner than one that came often.
///
/// Values that [`keep_if`](Self::keep_if) wants kept go last: none of them goes while the eviction finds another one in its shard. If
/// all values of a shard are to be kept, one that was not used lately goes, and
/// [`kept_evictions`](Self::kept_evictions) counts it. An eviction looks at no more than some 130 entries, and once
/// at each entry that has come to be kept since the last eviction.
///
/// # Locks
///
/// A hit holds its shard's lock shared, while it looks the key up and clones the `Arc`. So hits do not wait for one
/// another, but they wait for insertions into the same shard. Insertions, removals and evictions hold the lock
/// exclusively. Of your code, only the key's `Eq`, the predicate of [`keep_if`](Self::keep_if) and, in
/// [`iter`](Self::iter), the key's `Clone` run under a lock: these must not use the store. Values are created and
/// dropped outside the locks, and a panic does not poison a lock.
///
/// # Memory ordering
///
/// All that a thread did before it inserted a value happens before another thread gets the value.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{CircuitBreaker, BoundedStore};
///
/// let hosts = BoundedStore::<String, CircuitBreaker>::new(1024)?;
/// let answer = hosts.get_or_insert_with("api.example.com", CircuitBreaker::default).call(|| "42".parse::<u32>());
/// assert_eq!(answer, Ok(42));
/// assert!(hosts.get("www.example.com").is_none());
/// # }
/// # Ok::<(), damper::OutOfRange>(())
/// ```
///
/// This store has a retry budget per host. A budget that was evicted comes back with its whole reserve, so give the
/// store room for more hosts than you call:
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{BoundedStore, Retry, RetryBudget};
///
/// let budgets = BoundedStore::<String, RetryBudget>::new(1024)?;
/// let retry = Retry::new(3).budget(budgets.get_or_insert_with("api.example.com", RetryBudget::default));
/// let answer = retry.call(|_attempt| "42".parse::<u32>());
/// assert_eq!(answer, Ok(42));
/// # }
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[cfg(feature = "alloc")]
pub struct BoundedStore<K, V, S = Seed> {
    /// The shards, a power of two of them.
    shards: Box<[Shard<K, V>]>,
    capacity: usize,
    keep_if: Option<KeepIf<V>>,
    hasher: S,
}

pub(super) type Shard<K, V> = CachePadded<Guarded<SecondChance<K, V>>>;

#[cfg(feature = "std")]
impl<K, V> BoundedStore<K, V> {
    /// Creates a store of at most `capacity` entries.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if `capacity` is not 1 to 2^28 (on targets of 32 bits 2^24, or fewer if the keys are large).
    pub fn new(capacity: usize) -> Result<Self, OutOfRange> {
        Self::with_hasher(capacity, Seed::random())
    }
}

/// Creates a store of at most 1,024 entries.
#[cfg(feature = "std")]
impl<K, V> Default for BoundedStore<K, V> {
    fn default() -> Self {
        Self::of(DEFAULT_CAPACITY, Seed::random())
    }
}

impl<K, V, S> BoundedStore<K, V, S> {
    /// Creates a store with a hasher of your own instead of a [`Seed`] drawn at random.
    ///
    /// It has to spread keys over all 64 bits. A client that can predict the hasher can choose keys that collide.
    /// `Seed`, which is SipHash-1-3, takes some 20 ns of a hit's 50 for the name of a host. So a faster hasher is
    /// worth it if no client chooses keys.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] as for `new`.
    pub fn with_hasher(capacity: usize, hasher: S) -> Result<Self, OutOfRange> {
        let fits_memory = isize::MAX as usize / size_of::<Entry<K, V>>();
        Ok(Self::of(capacity_within(MAX_CAPACITY.min(fits_memory), capacity)?, hasher))
    }

    fn of(capacity: usize, hasher: S) -> Self {
        let shards = shards_for(capacity);
        let (each, left) = (capacity / shards, capacity % shards);
        let ring = |shard| CachePadded::new(Guarded::new(SecondChance::new(each + usize::from(shard < left))));
        Self { shards: (0..shards).map(ring).collect(), capacity, keep_if: None, hasher }
    }

    /// Returns an empty store of values of another type, with the capacity and the hasher of this one.
    pub(crate) fn emptied<W>(self) -> BoundedStore<K, W, S> {
        BoundedStore::of(self.capacity, self.hasher)
    }

    /// Sets a predicate that says which values stay longest.
    ///
    /// It is to be called before the first use. By default no value stays longer.
    ///
    /// An eviction passes over values for which the predicate is true, as long as it finds another one in its shard. If
    /// it finds none, one of them goes all the same, and is [counted](Self::kept_evictions). One of the next evictions
    /// finds a value that need not be kept any more: each looks again at two values that were kept, and at 64 if all
    /// were. The predicate is called under the lock of a shard: it must not use the store, and should take
    /// nanoseconds. If it unwinds, nothing is inserted.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::BoundedStore;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// // The calls that each tenant has in flight: a tenant with some is not evicted.
    /// let tenants = BoundedStore::<u32, AtomicUsize>::new(2)?.keep_if(|in_flight| in_flight.load(Ordering::Relaxed) > 0);
    /// tenants.get_or_insert_with(&1, AtomicUsize::default).fetch_add(1, Ordering::Relaxed);
    /// tenants.get_or_insert_with(&2, AtomicUsize::default);
    /// tenants.get_or_insert_with(&3, AtomicUsize::default);
    /// assert!(tenants.get(&1).is_some() && tenants.get(&2).is_none());
    /// # }
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    #[must_use]
    pub fn keep_if(self, predicate: impl Fn(&V) -> bool + Send + Sync + 'static) -> Self {
        Self { keep_if: Some(Box::new(predicate)), ..self }
    }

    /// Returns the most entries that there can be.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns how many entries there are, counted shard by shard.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read(|ring| ring.entries().len())).sum()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many entries had to make room for others so far.
    pub fn evictions(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read(SecondChance::evictions)).sum()
    }

    /// Returns how many of the [`evictions`](Self::evictions) hit a value that [`keep_if`](Self::keep_if) wanted kept.
    ///
    /// Such evictions happen when all values of a shard are to be kept: the capacity is too small, or a flood of new
    /// keys fills the store.
    pub fn kept_evictions(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read(SecondChance::kept_evictions)).sum()
    }

    /// Removes all entries. It allocates a list of them, because they are dropped outside the locks.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut removed = Vec::with_capacity(shard.read(SecondChance::capacity));
            shard.write(|ring| ring.clear(&mut removed));
        }
    }

    /// Returns the entries. This does not count as a use of them.
    ///
    /// They are copied shard by shard, each shard when the iterator reaches it, and no lock is held while you use
    /// them. An entry that stays is returned once. One that comes or goes meanwhile may be returned or not. The
    /// iterator allocates a list of each shard's copies.
    pub fn iter(&self) -> impl Iterator<Item = (K, Arc<V>)>
    where
        K: Clone,
    {
        self.copies(|key, value| (key.clone(), Arc::clone(value)))
    }

    /// Returns copies of the entries, or of parts of them, as [`iter`](Self::iter) does.
    pub(crate) fn copies<T>(&self, copy: impl Fn(&K, &Arc<V>) -> T) -> impl Iterator<Item = T> {
        self.shards.iter().flat_map(move |shard| {
            let mut copies = Vec::with_capacity(shard.read(SecondChance::capacity));
            let copy = |entry: &Entry<K, V>| copy(entry.key(), entry.value());
            shard.read(|ring| copies.extend(ring.entries().iter().map(copy)));
            copies
        })
    }

    /// Calls a function with each value, outside the locks.
    ///
    /// It holds one value at a time, does not count as a use, and allocates nothing. A value that comes or goes
    /// meanwhile may be met or not. If the function panics, it is called with the remaining values while the thread
    /// unwinds. A second panic then aborts the process.
    pub fn for_each(&self, call: impl FnMut(&V)) {
        Walk::new(&self.shards, call).finish();
    }

    /// Returns the shard of a hash.
    #[inline]
    fn shard(&self, hash: u64) -> &Shard<K, V> {
        &self.shards[(hash >> SHARD_SHIFT) as usize & (self.shards.len() - 1)]
    }
}

impl<K: Eq, V, S: BuildHasher> BoundedStore<K, V, S> {
    /// Returns the value of this key, if there is one.
    #[inline]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        self.found(self.hasher.hash_one(key), key)
    }

    /// Returns the value of the key with this hash, if it has one.
    #[inline]
    fn found<Q>(&self, hash: u64, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.shard(hash).read(|ring| ring.get(hash, key).map(Arc::clone))
    }

    /// Returns the value of this key, and creates it if there is none.
    ///
    /// If the store is full, another entry makes room.
    ///
    /// `make` is called outside the locks, so it may use the store, and nothing has happened if it unwinds. If
    /// several threads race for a key, each may create a value, but the first to insert one wins: all get that value,
    /// and the others are dropped.
    #[inline]
    pub fn get_or_insert_with<Q>(&self, key: &Q, make: impl FnOnce() -> V) -> Arc<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_or_insert_with_key(key, |_| make())
    }

    /// Returns the value of this key as [`get_or_insert_with`](Self::get_or_insert_with) does; `make` gets the key.
    #[inline]
    pub fn get_or_insert_with_key<Q>(&self, key: &Q, make: impl FnOnce(&K) -> V) -> Arc<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        if let Some(value) = self.found(hash, key) {
            return value;
        }
        let key = key.to_owned();
        let value = Arc::new(make(&key));
        let Ok(value) = self.insert(Entry::new(hash, key, value), |ring| Ok::<_, Infallible>(self.victim(ring)));
        value
    }

    /// Returns the value of this key, and creates it if there is none; inserts no outdated one.
    ///
    /// It does what [`get_or_insert_with_key`](Self::get_or_insert_with_key) does.
    ///
    /// `version` is called before `make`, and again under the shard's lock: a value is outdated if the results
    /// differ. So a thread that changes something for all values and then [walks through the store](Self::for_each)
    /// meets each value that was inserted before the change.
    #[inline]
    pub(crate) fn get_or_insert_current<Q>(
        &self,
        key: &Q,
        make: impl Fn(&K) -> V,
        version: impl Fn() -> usize,
    ) -> Arc<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        if let Some(value) = self.found(hash, key) {
            return value;
        }
        let Ok(value) = self.insert_current(hash, key, make, version, |ring| Ok::<_, Infallible>(self.victim(ring)));
        value
    }

    /// Inserts an entry, unless another thread was faster or `victim` refuses.
    ///
    /// It creates the value again while that is outdated.
    #[cold]
    fn insert_current<Q, E>(
        &self,
        hash: u64,
        key: &Q,
        make: impl Fn(&K) -> V,
        version: impl Fn() -> usize,
        victim: impl Fn(&mut SecondChance<K, V>) -> Result<Option<Victim>, E>,
    ) -> Result<Arc<V>, E>
    where
        Q: ToOwned<Owned = K> + ?Sized,
    {
        loop {
            let made_after = version();
            let key = key.to_owned();
            let value = Arc::new(make(&key));
            let inserted = self.insert(Entry::new(hash, key, value), |ring| {
                if version() == made_after { victim(ring).map_err(Some) } else { Err(None) }
            });
            match inserted {
                Ok(value) => return Ok(value),
                Err(Some(error)) => return Err(error),
                Err(None) => {}
            }
        }
    }

    /// Inserts an entry, unless another thread was faster. `victim` is called under the shard's lock.
    #[cold]
    fn insert<E>(
        &self,
        entry: Entry<K, V>,
        victim: impl FnOnce(&mut SecondChance<K, V>) -> Result<Option<Victim>, E>,
    ) -> Result<Arc<V>, E> {
        // The entry that was evicted, or this one, is dropped after the lock was released.
        let (value, _dropped) = self.shard(entry.hash()).write(|ring| {
            if let Some(earlier) = ring.get(entry.hash(), entry.key()) {
                return (Ok(Arc::clone(earlier)), Some(entry));
            }
            match victim(ring) {
                Ok(victim) => (Ok(Arc::clone(entry.value())), ring.insert(entry, victim)),
                Err(error) => (Err(error), Some(entry)),
            }
        });
        value
    }

    /// Returns the entry that has to make room, or `None` while there is room.
    ///
    /// It prefers one that need not be kept.
    fn victim(&self, ring: &mut SecondChance<K, V>) -> Option<Victim> {
        ring.victim(|value| self.keep_if.as_ref().is_some_and(|keep_if| keep_if(value)))
    }

    /// Looks at the value of this key under the shard's lock, if there is one.
    ///
    /// It neither holds the value nor counts as a use.
    pub(crate) fn inspect<Q: Hash + Eq + ?Sized, T>(&self, key: &Q, look: impl FnOnce(&V) -> T) -> Option<T>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).read(|ring| ring.peek(hash, key).map(|value| look(value)))
    }

    /// Returns the value of this key, if there is one. That is no use of it.
    pub(crate) fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).read(|ring| ring.peek(hash, key).map(Arc::clone))
    }

    /// Returns whether a new key needs no other to make room.
    pub(crate) fn has_room<Q: Hash + ?Sized>(&self, key: &Q) -> bool {
        self.shard(self.hasher.hash_one(key)).read(|ring| ring.entries().len() < ring.capacity())
    }

    /// Returns the value of this key, and creates it if there is none; evicts no value that is held.
    ///
    /// A caller holds a value by an `Arc` or a `Weak`. The method returns `None` if all values that it looked at are
    /// held. It has then allocated nothing, unless other threads took the room meanwhile.
    ///
    /// In a shard of more than 64 entries it does not look at all of them: see [`SecondChance`]. `version` is that of
    /// [`get_or_insert_current`](Self::get_or_insert_current).
    #[inline]
    pub(crate) fn get_or_insert_beside_held<Q>(
        &self,
        key: &Q,
        make: impl Fn(&K) -> V,
        version: impl Fn() -> usize,
    ) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        if let Some(value) = self.found(hash, key) {
            return Some(value);
        }
        self.insert_beside_held(hash, key, make, version)
    }

    /// Inserts an entry, unless another thread was faster or all others are held.
    #[cold]
    fn insert_beside_held<Q>(
        &self,
        hash: u64,
        key: &Q,
        make: impl Fn(&K) -> V,
        version: impl Fn() -> usize,
    ) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        // A flood of new keys is refused before anything is allocated.
        let earlier = self.shard(hash).write(|ring| match ring.get(hash, key) {
            Some(earlier) => Ok(Some(Arc::clone(earlier))),
            None => idle_victim(ring).map(|_| None),
        });
        if let Some(earlier) = earlier.ok()? {
            return Some(earlier);
        }
        self.insert_current(hash, key, make, version, idle_victim).ok()
    }

    /// Removes the entry of this key, and returns its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let removed = self.shard(hash).write(|ring| ring.remove(hash, key));
        // The key is dropped here, after the lock was released.
        removed.map(Entry::into_value)
    }
}

impl<K, V, S> fmt::Debug for BoundedStore<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedStore").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// The error of a search that met only values that a caller holds.
struct NoIdleEntry;

/// Returns the entry that has to make room and that no caller holds; `None` while there is room.
fn idle_victim<K, V>(ring: &mut SecondChance<K, V>) -> Result<Option<Victim>, NoIdleEntry> {
    // `get_mut` succeeds if there is neither another `Arc` nor a `Weak`, and then all that the last holder did has
    // happened before. No thread clones the store's own `Arc` under the exclusive lock, so a value that no caller
    // holds stays so.
    let victim = ring.victim(|value| Arc::get_mut(value).is_none());
    if let Some(held) = victim.filter(|victim| victim.is_kept()) {
        ring.spare(held);
        return Err(NoIdleEntry);
    }
    Ok(victim)
}

/// Returns the number of shards, a power of two.
fn shards_for(capacity: usize) -> usize {
    #[cfg(feature = "std")]
    let threads = std::thread::available_parallelism().map_or(1, core::num::NonZero::get).min(1 << 10);
    #[cfg(not(feature = "std"))]
    let threads = 1;
    let fit = (capacity / LEAST_IN_SHARD).max(1);
    (SHARDS_PER_THREAD * threads).next_power_of_two().min(1 << fit.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_exactly_the_capacity() {
        for capacity in [1, 2, 63, 64, 127, 128, 129, 200, 1_000, 1_024, 4_097, 100_003] {
            let store = BoundedStore::<u64, (), _>::with_hasher(capacity, crate::time::Seed::new(1, 2)).unwrap();
            let capacities: Vec<_> = store.shards.iter().map(|shard| shard.read(SecondChance::capacity)).collect();
            assert_eq!(capacities.iter().sum::<usize>(), capacity);
            assert!(capacities.len().is_power_of_two());
            assert!(capacities.len() == 1 || capacities.iter().all(|&each| each >= LEAST_IN_SHARD));
            assert_eq!(capacities.len() == 1, capacity < 2 * LEAST_IN_SHARD);
        }
    }
}
