//! One concurrency limit per key.
//!
//! A limit is evicted only if `Arc::get_mut` shows, under the shard's exclusive lock, that no `Arc` and no `Weak` of it is outside
//! the store. So no key has two limits at once.

// | file | type |
// |---|---|
// | here | `LimitTemplate`: the settings of all limits, and the methods of both kinds |
// | `keyed_bulkhead` | `KeyedBulkhead`: one bulkhead per key; its constructors and calls |
// | `keyed_adaptive_limit` | `KeyedAdaptiveLimit`: one adaptive limit per key; its constructors and calls |

mod keyed_adaptive_limit;
mod keyed_bulkhead;

pub use keyed_adaptive_limit::KeyedAdaptiveLimit;
pub use keyed_bulkhead::KeyedBulkhead;

use crate::acquire::{Acquire, Awaited};
use crate::concurrency::bulkhead::Patience;
use crate::concurrency::{BulkheadFull, BulkheadPermit, BulkheadStatus, PermitRequest, RefusalCause};
use crate::store::{Keyed, Template};
use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

mod sealed {
    use crate::concurrency::bulkhead::Patience;
    use crate::concurrency::bulkhead::permit::sealed::Slotted;
    use crate::concurrency::{BulkheadFull, BulkheadStatus};

    /// A limit of which each key can have one.
    pub trait PerKey: Slotted<Wish = Patience, Refusal = BulkheadFull> + Sized {
        /// Returns an unused limit with the settings of this one, which is unused too.
        ///
        /// `first` has the settings of this one before they were changed in use.
        fn alike(&self, first: &Self) -> Self;

        fn with_queue(self, places: u16) -> Self;

        fn change_queue(&self, places: u16);

        fn with_newest_first(self) -> Self;

        fn current_status(&self) -> BulkheadStatus;

        /// Takes the limit, or its bounds, if they were changed on the other limit in use.
        fn take_limit_of(&self, other: &Self);

        /// Takes the number of places of the queue.
        fn take_places_of(&self, other: &Self);
    }
}

use sealed::PerKey;

/// The settings of the limits of a [`KeyedBulkhead`] or [`KeyedAdaptiveLimit`].
#[cfg(feature = "alloc")]
pub struct LimitTemplate<L> {
    /// Holds the settings of all limits, and makes no calls.
    prototype: L,
    /// Keeps the settings with which the template was created.
    first: L,
}

impl<L: PerKey> LimitTemplate<L> {
    fn of(first: L) -> Self {
        Self { prototype: first.alike(&first), first }
    }
}

impl<L: fmt::Debug> fmt::Debug for LimitTemplate<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LimitTemplate").field(&self.prototype).finish()
    }
}

impl<K, L: PerKey> Template<K> for LimitTemplate<L> {
    type Value = L;

    fn create(&self, _: &K) -> L {
        self.prototype.alike(&self.first)
    }

    fn update(&self, limit: &L) {
        limit.take_limit_of(&self.prototype);
        limit.take_places_of(&self.prototype);
    }
}

impl<K, L: PerKey, S> Keyed<K, LimitTemplate<L>, S> {
    /// Gives each limit a queue of `places` places. Default: none.
    ///
    /// It works like [`Bulkhead::queue`](crate::Bulkhead::queue).
    ///
    /// Call it before the first use; [`set_queue`](Self::set_queue) changes the queues later. Without queues,
    /// [`acquire`](Self::acquire) never waits.
    #[must_use]
    pub fn queue(self, places: u16) -> Self {
        self.with_prototype(|prototype| prototype.with_queue(places))
    }

    /// Changes the number of places of each queue, of present and future keys, while they are in use.
    ///
    /// It works like [`Bulkhead::set_queue`](crate::Bulkhead::set_queue). A key whose queue was changed individually gets this one too.
    pub fn set_queue(&self, places: u16) {
        self.change_setting(
            |template| template.prototype.change_queue(places),
            |template, limit| limit.take_places_of(&template.prototype),
        );
    }

    /// Serves the queues newest first, as [`Bulkhead::newest_first`](crate::Bulkhead::newest_first) does.
    ///
    /// Call it before the first use. Default: oldest first.
    #[must_use]
    pub fn newest_first(self) -> Self {
        self.with_prototype(PerKey::with_newest_first)
    }

    fn with_prototype(self, change: impl FnOnce(L) -> L) -> Self {
        let (store, LimitTemplate { prototype, .. }) = self.into_parts();
        Self::in_store(store, LimitTemplate::of(change(prototype)))
    }

    /// Returns the keys and the counts of their limits, without any effect.
    ///
    /// No limit counts as used or is held.
    ///
    /// The iterator copies them shard by shard, each when it comes to it, into a list that it allocates then.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// let tenants = damper::KeyedBulkhead::<String>::new(2, 1024)?;
    /// let _permit = tenants.try_acquire("acme")?;
    /// for (tenant, status) in tenants.iter() {
    ///     assert_eq!(format!("{tenant}: {status}"), "acme: 1 of 2 in flight, 0 queued");
    /// }
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (K, BulkheadStatus)>
    where
        K: Clone,
    {
        self.inspect_all(|key, limit| (key.clone(), limit.current_status()))
    }

    /// Returns the counts of the limits, as [`iter`](Self::iter) does, without the keys.
    pub fn statuses(&self) -> impl Iterator<Item = BulkheadStatus> {
        self.inspect_all(|_, limit| limit.current_status())
    }
}

impl<K: Hash + Eq, L: PerKey, S: BuildHasher> Keyed<K, LimitTemplate<L>, S> {
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
        let ticket = limit.enter(&Patience::default())?;
        Ok(BulkheadPermit::of_slot(limit, ticket))
    }

    /// Waits for a permit of this key's limit, as [`Bulkhead::acquire_owned`](crate::Bulkhead::acquire_owned) does.
    ///
    /// If the key has no limit yet and all others are in use, the wait ends at once with that refusal.
    pub fn acquire<Q>(&self, key: &Q) -> Acquire<Arc<L>>
    where
        Arc<L>: Awaited<Request = PermitRequest<Arc<L>>>,
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        Acquire::new(PermitRequest::of(self.get_or_create(key)))
    }

    /// Returns the limit of this key, and creates it if there is none.
    ///
    /// It is in use for as long as you hold it, or a `Weak` of it.
    ///
    /// A setting that you change on it, such as its limit, holds until the same setting is changed for all keys, or until it is
    /// evicted: an idle limit can be evicted, and the next one of its key has the common settings. To keep it from eviction, hold
    /// its limit.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if the key has no limit yet and all others are in use.
    #[inline]
    pub fn get_or_create<Q>(&self, key: &Q) -> Result<Arc<L>, BulkheadFull>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let limit = self.try_get_or_create(key);
        limit.ok_or_else(|| BulkheadFull::new(self.template().prototype.limit(), RefusalCause::StoreFull))
    }

    /// Returns the counts of this key's limit, if it has one.
    ///
    /// It has no effect: the limit does not count as used, and is not held.
    pub fn status<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<BulkheadStatus>
    where
        K: Borrow<Q>,
    {
        self.inspect(key, L::current_status)
    }
}
