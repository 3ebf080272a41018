//! The limits of keys, in a bounded store.

use crate::capacity::CapacityError;
use crate::concurrency::{AcquirePermit, BulkheadFull, BulkheadPermit, BulkheadStatus, FullCause};
use crate::store::LruStore;
use crate::time::Seed;
use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

pub(in crate::concurrency) mod sealed {
    use crate::concurrency::BulkheadStatus;
    use crate::concurrency::bulkhead::permit::sealed::Slotted;

    /// A limit that each key can have one of.
    pub trait PerKey: Slotted + Sized {
        /// Returns an unused limit with the settings of this one, which is unused too.
        fn alike(&self) -> Self;

        fn with_queue(self, places: u16) -> Self;

        fn with_newest_first(self) -> Self;

        fn current_status(&self) -> BulkheadStatus;
    }
}

use sealed::PerKey;

/// One concurrency limit per key, for the keys that were used last, in a bounded store.
///
/// A [`KeyedBulkhead`](super::KeyedBulkhead) or a [`KeyedAdaptiveLimit`](super::KeyedAdaptiveLimit).
///
/// A limit in use is not evicted: one that a permit or a waiting call holds, or whose `Arc` you hold, or a `Weak` of it. So a key has
/// never more calls in flight than its limit, however many keys there are. If no other limit can make room, a call for a new
/// key is refused with [`FullCause::StoreFull`], before anything is allocated for it. An idle key that is evicted begins anew
/// when it comes back.
///
/// The search for one that can make room looks at a part of one shard only, and the next search goes on from there. So a large
/// store that is almost all in use may refuse a new key, although it has an idle limit. Choose a capacity well above the number
/// of calls that can be in flight at once.
///
/// [`status`](Self::status) and [`iter`](Self::iter) are for dashboards: they copy the counts, hold no limit, and count as no use.
///
/// # Floods of keys
///
/// A client that chooses the keys gets a whole limit for each. Put one bulkhead for all keys before this, with a limit below the
/// capacity.
pub struct KeyedConcurrencyLimit<K, L, S = Seed> {
    store: LruStore<K, L, S>,
    /// Has the settings of all limits, and makes no calls.
    prototype: L,
}

impl<K, L, S> KeyedConcurrencyLimit<K, L, S> {
    pub(super) fn of(prototype: L, capacity: usize, hasher: S) -> Result<Self, CapacityError> {
        Ok(Self { store: LruStore::with_hasher(capacity, hasher)?, prototype })
    }

    /// Returns how many keys have a limit.
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

    /// Returns how many limits had to make room for others so far.
    pub fn evictions(&self) -> u64 {
        self.store.evictions()
    }
}

impl<K, L: PerKey, S> KeyedConcurrencyLimit<K, L, S> {
    /// Gives each limit a queue of so many places, as [`Bulkhead::queue`](crate::Bulkhead::queue) does. Default:
    /// none.
    ///
    /// To be called before the first use. Without queues, [`acquire`](Self::acquire) never waits.
    #[must_use]
    pub fn queue(self, places: u16) -> Self {
        Self { prototype: self.prototype.with_queue(places), ..self }
    }

    /// Serves the queues newest first, as [`Bulkhead::newest_first`](crate::Bulkhead::newest_first) does.
    ///
    /// To be called before the first use. Default: oldest first.
    #[must_use]
    pub fn newest_first(self) -> Self {
        Self { prototype: self.prototype.with_newest_first(), ..self }
    }

    /// Returns the keys and the counts of their limits, without any effect: no limit counts as used or is held.
    ///
    /// They are copied shard by shard, each when the iterator comes to it, into a list that is allocated then.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// # extern crate damper_core as damper;
    /// let tenants = damper::KeyedBulkhead::<String>::new(2, 1024)?;
    /// let _permit = tenants.try_acquire("acme")?;
    /// for (tenant, status) in tenants.iter() {
    ///     assert_eq!(format!("{tenant}: {status}"), "acme: 1 of 2 in flight, 0 queued");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (K, BulkheadStatus)>
    where
        K: Clone,
    {
        self.store.copies(|limit| limit.current_status())
    }
}

impl<K: Hash + Eq, L: PerKey, S: BuildHasher> KeyedConcurrencyLimit<K, L, S> {
    /// Takes a permit of this key's limit, as [`Bulkhead::try_acquire_owned`](crate::Bulkhead::try_acquire_owned) does.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if there is none, or the key has no limit yet and all others are in use.
    #[inline]
    pub fn try_acquire<Q>(&self, key: &Q) -> Result<BulkheadPermit<Arc<L>>, BulkheadFull>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let limit = self.get_or_create(key)?;
        limit.enter()?;
        Ok(BulkheadPermit::of_slot(limit))
    }

    /// Waits for a permit of this key's limit, as [`Bulkhead::acquire_owned`](crate::Bulkhead::acquire_owned) does.
    ///
    /// If the key has no limit yet and all others are in use, the wait ends with that refusal, at once.
    pub fn acquire<Q>(&self, key: &Q) -> AcquirePermit<Arc<L>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        AcquirePermit::of(self.get_or_create(key))
    }

    /// Returns the limit of this key, which is created if there is none.
    ///
    /// It is in use for as long as you hold it, or a `Weak` of it.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if all others are in use.
    #[inline]
    pub fn get_or_create<Q>(&self, key: &Q) -> Result<Arc<L>, BulkheadFull>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let limit = self.store.get_or_insert_beside_held(key, || self.prototype.alike());
        limit.ok_or_else(|| BulkheadFull::new(self.prototype.current_status().limit(), FullCause::StoreFull))
    }

    /// Returns the counts of this key's limit, if it has one.
    ///
    /// Without any effect: the limit does not count as used, and is not held.
    pub fn status<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<BulkheadStatus>
    where
        K: Borrow<Q>,
    {
        self.inspect(key, L::current_status)
    }

    pub(super) fn inspect<Q: Hash + Eq + ?Sized, T>(&self, key: &Q, look: impl FnOnce(&L) -> T) -> Option<T>
    where
        K: Borrow<Q>,
    {
        self.store.inspect(key, look)
    }
}

impl<K, L: fmt::Debug, S> fmt::Debug for KeyedConcurrencyLimit<K, L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedConcurrencyLimit")
            .field("each", &self.prototype)
            .field("capacity", &self.store.capacity())
            .finish_non_exhaustive()
    }
}
