//! A bulkhead for every key.

use super::LimitTemplate;
use super::sealed::PerKey;
use crate::concurrency::{Bulkhead, BulkheadFull, BulkheadStatus};
use crate::store::Keyed;
use crate::time::{Clock, DefaultClock, Seed};
use crate::{CallError, OutOfRange};
use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

/// One [`Bulkhead`] per key, for the most recently used keys, in a bounded store.
///
/// All bulkheads have the same settings.
///
/// See [limits per key](crate::concurrency#limits-per-key) for when a bulkhead is evicted, and for floods of keys.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::KeyedBulkhead;
///
/// let tenants = KeyedBulkhead::<String>::new(2, 1024)?.queue(4);
/// let first = tenants.try_acquire("acme")?;
/// let second = tenants.acquire("acme").wait()?;
/// assert!(tenants.try_acquire("acme").is_err());
/// assert!(tenants.try_acquire("initech").is_ok());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "alloc")]
pub type KeyedBulkhead<K, C = DefaultClock, S = Seed> = Keyed<K, LimitTemplate<Bulkhead<C>>, S>;

#[cfg(feature = "std")]
impl<K> KeyedBulkhead<K> {
    /// Creates bulkheads for `limit` calls in flight per key, for at most `capacity` keys.
    ///
    /// They are on the [default clock](DefaultClock).
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the capacity is not 1 to 2^28 (2^24 on targets of 32 bits).
    pub fn new(limit: u32, capacity: usize) -> Result<Self, OutOfRange> {
        Self::with_clock(limit, capacity, crate::time::Monotonic)
    }
}

#[cfg(feature = "std")]
impl<K, C: Clock + Clone> KeyedBulkhead<K, C> {
    /// Creates bulkheads as [`new`](KeyedBulkhead::new) does, on a clock of your own, which times the waits.
    ///
    /// A reference to a clock is a clock too.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] as for [`new`](KeyedBulkhead::new).
    pub fn with_clock(limit: u32, capacity: usize, clock: C) -> Result<Self, OutOfRange> {
        Self::with_clock_and_hasher(limit, capacity, clock, Seed::random())
    }
}

impl<K, C: Clock + Clone, S> KeyedBulkhead<K, C, S> {
    /// Creates bulkheads as `with_clock` does, with a hasher of your own, for use without `std`.
    ///
    /// See [`BoundedStore::with_hasher`](crate::BoundedStore::with_hasher).
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] as for [`BoundedStore::with_hasher`](crate::BoundedStore::with_hasher).
    pub fn with_clock_and_hasher(limit: u32, capacity: usize, clock: C, hasher: S) -> Result<Self, OutOfRange> {
        let prototype = Bulkhead::with_clock(limit, clock);
        Self::with_template_and_hasher(LimitTemplate::of(prototype), capacity, hasher)
    }
}

impl<K, C: Clock + Clone, S> KeyedBulkhead<K, C, S> {
    /// Changes the limit of all present and future keys while they are in use.
    ///
    /// It works like [`Bulkhead::set_limit`].
    ///
    /// A key whose limit was changed individually gets this one too. The limits change one after the other, and each counts as in
    /// use while it is changed. If a waker panics, the limits behind it are changed all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// let tenants = damper::KeyedBulkhead::<String>::new(1, 1024)?;
    /// let first = tenants.try_acquire("acme")?;
    /// tenants.set_limit(2);
    /// let second = tenants.try_acquire("acme")?;
    /// let others = (tenants.try_acquire("initech")?, tenants.try_acquire("initech")?);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limit(&self, limit: u32) {
        self.change_setting(
            |template| template.prototype.set_limit(limit),
            |template, limit| limit.take_limit_of(&template.prototype),
        );
    }
}

impl<K: Hash + Eq, C: Clock + Clone, S: BuildHasher> KeyedBulkhead<K, C, S> {
    /// Makes one call if this key has a slot free and no call waits for it, as [`Bulkhead::call`] does.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<Q, T, E>(&self, key: &Q, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E, BulkheadFull>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_or_create(key)?.call(call)
    }

    /// Awaits a future if this key has a slot free and no call waits for it, as [`Bulkhead::run`] does.
    ///
    /// The returned future borrows nothing, so it can be spawned. The key's bulkhead is in use from this call on.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was.
    pub fn run<Q, T, E, F>(
        &self,
        key: &Q,
        future: F,
    ) -> impl Future<Output = Result<T, CallError<E, BulkheadFull>>> + use<K, C, S, Q, T, E, F>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future<Output = Result<T, E>>,
    {
        let bulkhead = self.get_or_create(key);
        async move { bulkhead?.run(future).await }
    }
}

impl<C: Clock + Clone> PerKey for Bulkhead<C> {
    fn alike(&self, _: &Self) -> Self {
        Bulkhead::alike(self)
    }

    fn with_queue(self, places: u16) -> Self {
        self.queue(places)
    }

    fn change_queue(&self, places: u16) {
        self.set_queue(places);
    }

    fn with_newest_first(self) -> Self {
        self.newest_first()
    }

    fn current_status(&self) -> BulkheadStatus {
        self.status()
    }

    fn take_limit_of(&self, other: &Self) {
        self.set_limit(other.limit());
    }

    fn take_places_of(&self, other: &Self) {
        self.take_queue_of(other);
    }
}
