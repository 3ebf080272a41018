//! A bulkhead for every key.

use super::{AcquirePermit, Bulkhead, BulkheadFull, BulkheadPermit, FullCause};
use crate::capacity::CapacityError;
use crate::store::LruStore;
use crate::time::{Clock, DefaultClock, Seed};
use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

/// One [`Bulkhead`] per key, of the keys that were used last: an [`LruStore`] of bulkheads that are all alike.
///
/// A bulkhead in use is not evicted: one with calls in flight or queued, or one whose `Arc` you hold. So a key has no more calls in
/// flight than the limit, however many keys there are. (A [`Weak`](alloc::sync::Weak) of yours does not count as holding it: one that is
/// upgraded just as its bulkhead is evicted stands beside the key's new bulkhead.) If no other bulkhead can make room, a call for a new key is refused with
/// [`FullCause::StoreFull`].
///
/// The search for one that can looks at a part of one shard only, and the next search goes on from there. So a large
/// store that is almost all in use may refuse a new key, although it has an idle bulkhead. Choose a capacity well above the number
/// of calls that can be in flight at once.
///
/// # Floods of keys
///
/// A client that chooses the keys gets a whole limit for each. Put one bulkhead for all keys before this, with a limit below the
/// capacity.
///
/// # Examples
///
#[cfg_attr(feature = "std", doc = "```")]
#[cfg_attr(not(feature = "std"), doc = "```text")]
/// # extern crate damper_core as damper;
/// use damper::concurrency::KeyedBulkhead;
///
/// let tenants = KeyedBulkhead::<String>::new(2, 1024)?.queue(4);
/// let first = tenants.try_acquire("acme")?;
/// let second = tenants.acquire("acme").wait()?;
/// assert!(tenants.try_acquire("acme").is_err());
/// assert!(tenants.try_acquire("initech").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedBulkhead<K, C = DefaultClock, S = Seed> {
    store: LruStore<K, Bulkhead<C>, S>,
    limit: u32,
    places: u16,
    is_newest_first: bool,
    clock: C,
}

#[cfg(feature = "std")]
impl<K: Hash + Eq> KeyedBulkhead<K> {
    /// Creates bulkheads for so many calls in flight per key, for at most `capacity` keys, on the [default clock](DefaultClock).
    ///
    /// # Errors
    ///
    /// [`CapacityError`] if the capacity is not 1 to 2^28 (2^24 on targets of 32 bits).
    pub fn new(limit: u32, capacity: usize) -> Result<Self, CapacityError> {
        Self::with_clock(limit, capacity, crate::time::Monotonic)
    }
}

#[cfg(feature = "std")]
impl<K: Hash + Eq, C: Clock + Clone> KeyedBulkhead<K, C> {
    /// As [`new`](KeyedBulkhead::new), on a clock of your own, by which calls wait. A reference to a clock is a clock too.
    ///
    /// # Errors
    ///
    /// [`CapacityError`] as for [`new`](KeyedBulkhead::new).
    pub fn with_clock(limit: u32, capacity: usize, clock: C) -> Result<Self, CapacityError> {
        Self::with_clock_and_hasher(limit, capacity, clock, Seed::random())
    }
}

impl<K: Hash + Eq, C: Clock + Clone, S: BuildHasher> KeyedBulkhead<K, C, S> {
    /// As `with_clock`, with a hasher of your own, as [`LruStore::with_hasher`] has it: for where there is no `std`.
    ///
    /// # Errors
    ///
    /// [`CapacityError`] as for [`LruStore::with_hasher`].
    pub fn with_clock_and_hasher(limit: u32, capacity: usize, clock: C, hasher: S) -> Result<Self, CapacityError> {
        let store = LruStore::with_hasher(capacity, hasher)?;
        Ok(Self { store, limit, places: 0, is_newest_first: false, clock })
    }

    /// Gives each bulkhead a queue of so many places, as [`Bulkhead::queue`] does; to be called before the first use. Default: none.
    #[must_use]
    pub fn queue(self, places: u16) -> Self {
        Self { places, ..self }
    }

    /// Serves the queues newest first, as [`Bulkhead::newest_first`] does; to be called before the first use. Default: oldest first.
    #[must_use]
    pub fn newest_first(self) -> Self {
        Self { is_newest_first: true, ..self }
    }

    /// Takes a permit of this key's bulkhead, as [`Bulkhead::try_acquire_owned`] does.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if there is none, or the key has no bulkhead and all others are in use.
    #[inline]
    pub fn try_acquire<Q>(&self, key: &Q) -> Result<BulkheadPermit<Arc<Bulkhead<C>>>, BulkheadFull>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let bulkhead = self.get_or_create(key)?;
        bulkhead.take()?;
        Ok(BulkheadPermit::of_slot(bulkhead))
    }

    /// Waits for a permit of this key's bulkhead, as [`Bulkhead::acquire_owned`] does. If the key has none and all others are in
    /// use, the wait ends with that refusal, at once.
    pub fn acquire<Q>(&self, key: &Q) -> AcquirePermit<Arc<Bulkhead<C>>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        AcquirePermit::of(self.get_or_create(key))
    }

    /// Returns the bulkhead of this key, which is created if there is none. It is in use for as long as you hold it.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if all others are in use.
    #[inline]
    pub fn get_or_create<Q>(&self, key: &Q) -> Result<Arc<Bulkhead<C>>, BulkheadFull>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let bulkhead = self.store.get_or_insert_beside_held(key, || self.create());
        bulkhead.ok_or_else(|| BulkheadFull::new(self.limit, FullCause::StoreFull))
    }

    fn create(&self) -> Bulkhead<C> {
        let bulkhead = Bulkhead::with_clock(self.limit, self.clock.clone()).queue(self.places);
        if self.is_newest_first { bulkhead.newest_first() } else { bulkhead }
    }

    /// Returns the bulkhead of this key, if there is one.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<Bulkhead<C>>>
    where
        K: Borrow<Q>,
    {
        self.store.get(key)
    }

    /// Returns the bulkheads, as [`LruStore::iter`] does.
    pub fn iter(&self) -> impl Iterator<Item = (K, Arc<Bulkhead<C>>)>
    where
        K: Clone,
    {
        self.store.iter()
    }

    /// Returns how many keys have a bulkhead.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Returns whether no key has one.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Returns the most keys that can have one.
    pub fn capacity(&self) -> usize {
        self.store.capacity()
    }

    /// Returns how many bulkheads had to make room for others so far.
    pub fn evictions(&self) -> u64 {
        self.store.evictions()
    }
}

impl<K, C: fmt::Debug, S> fmt::Debug for KeyedBulkhead<K, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedBulkhead")
            .field("limit", &self.limit)
            .field("places", &self.places)
            .field("capacity", &self.store.capacity())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
