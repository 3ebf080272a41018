//! A value per key, created from a template whose settings can change.
//!
//! A [`Keyed`] is an `BoundedStore` with a [`Template`], which creates the value of each key and holds the settings of all. A change of
//! the settings (such as `set_config` or `set_limit`) changes the template, then counts the change, and then walks through the
//! shards, one value at a time (`walk`). A new value is inserted only if no change was counted since before it was created, which is
//! checked under the shard's lock. So either the walk finds the value, or the value was created with the new settings.

use super::BoundedStore;
use crate::OutOfRange;
use crate::sync::{AtomicUsize, Ordering};
use crate::time::Seed;
use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

/// Creates the values of a [`Keyed`] store, and holds their common settings.
///
/// # Examples
///
/// Each tenant may make so many calls a day. The number can change at any time, and holds for all tenants.
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::store::{Evictable, Keyed, Template};
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// struct Allowance {
///     calls: AtomicU32,
///     most: AtomicU32,
/// }
///
/// impl Allowance {
///     fn admits(&self) -> bool {
///         self.calls.fetch_add(1, Relaxed) < self.most.load(Relaxed)
///     }
/// }
///
/// struct PerTenant {
///     most: AtomicU32,
/// }
///
/// impl Template<String> for PerTenant {
///     type Value = Allowance;
///
///     fn create(&self, _tenant: &String) -> Allowance {
///         Allowance { calls: AtomicU32::new(0), most: AtomicU32::new(self.most.load(Relaxed)) }
///     }
///
///     fn update(&self, allowance: &Allowance) {
///         allowance.most.store(self.most.load(Relaxed), Relaxed);
///     }
///
///     fn is_worth_keeping(allowance: &Allowance) -> bool {
///         allowance.calls.load(Relaxed) > 0
///     }
/// }
///
/// impl Evictable for PerTenant {}
///
/// let tenants = Keyed::with_template(PerTenant { most: AtomicU32::new(1) }, 1024)?;
/// assert!(tenants.get_or_create("acme").admits());
/// assert!(!tenants.get_or_create("acme").admits());
///
/// tenants.change(|template| template.most.store(10, Relaxed));
/// assert!(tenants.get_or_create("acme").admits());
/// # }
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not a template of values for keys of type `{K}`")]
pub trait Template<K> {
    /// The type of the values, of which each key has one.
    type Value;

    /// Creates the value of a key, with the settings in force.
    ///
    /// It is called outside the store's locks, and may use the store.
    fn create(&self, key: &K) -> Self::Value;

    /// Gives an existing value the settings in force.
    ///
    /// [`Keyed::change`] calls it for each value, outside the store's locks. The default does nothing: it is for
    /// settings that never change.
    fn update(&self, value: &Self::Value) {
        _ = value;
    }

    /// Returns whether a value is worth keeping; such values are evicted last.
    ///
    /// By default none is. It is called as the predicate of [`BoundedStore::keep_if`] is. If the template is not
    /// [`Evictable`], its values are kept while they are held, whatever this returns.
    fn is_worth_keeping(value: &Self::Value) -> bool {
        _ = value;
        false
    }
}

/// A [`Template`] whose values can be evicted while a caller holds them.
///
/// The next caller that asks for the key then gets a new value beside the one that is held. The trait is for values
/// of which a key may have two for a while, such as breakers. Without it a value that is held stays, as a bulkhead
/// has to: use [`Keyed::try_get_or_create`], which refuses new keys while no entry can be evicted.
pub trait Evictable {}

/// A value per key, for the most recently used keys, all with the settings of one [template](Template).
///
/// [`KeyedCircuitBreaker`](crate::KeyedCircuitBreaker), [`KeyedBulkhead`](crate::KeyedBulkhead),
/// [`KeyedAdaptiveLimit`](crate::KeyedAdaptiveLimit) and [`KeyedThrottle`](crate::throttle::KeyedThrottle) are such stores, and
/// have methods of their own. [`Template`] has an example with a type of your own.
///
/// The values are in an [`BoundedStore`], which says what an entry costs, and which one is evicted. For values with
/// settings of their own, use an `BoundedStore` and create each value yourself.
#[cfg(feature = "alloc")]
pub struct Keyed<K, T: Template<K>, S = Seed> {
    store: BoundedStore<K, T::Value, S>,
    template: T,
    /// The number of changes of the template; wraps.
    changes: AtomicUsize,
}

#[cfg(feature = "std")]
impl<K, T: Template<K>> Keyed<K, T> {
    /// Creates a store for the values of at most `capacity` keys.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the capacity is not 1 to 2^28 (2^24 on targets of 32 bits).
    pub fn with_template(template: T, capacity: usize) -> Result<Self, OutOfRange> {
        Self::with_template_and_hasher(template, capacity, Seed::random())
    }
}

/// Creates a store for at most 1,024 keys.
#[cfg(feature = "std")]
impl<K, T: Template<K> + Default> Default for Keyed<K, T> {
    fn default() -> Self {
        Self::in_store(BoundedStore::default(), T::default())
    }
}

impl<K, T: Template<K>, S> Keyed<K, T, S> {
    /// Creates a store as `with_template` does, with a hasher of your own, for use without `std`.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] as for [`BoundedStore::with_hasher`].
    pub fn with_template_and_hasher(template: T, capacity: usize, hasher: S) -> Result<Self, OutOfRange> {
        Ok(Self::in_store(BoundedStore::with_hasher(capacity, hasher)?, template))
    }

    /// Creates a store of this template's values in an empty `BoundedStore`.
    pub(crate) fn in_store(store: BoundedStore<K, T::Value, S>, template: T) -> Self {
        let store = store.keep_if(|value| T::is_worth_keeping(value));
        Self { store, template, changes: AtomicUsize::new(0) }
    }

    /// Takes the store apart, for another template before the first use.
    pub(crate) fn into_parts(self) -> (BoundedStore<K, T::Value, S>, T) {
        (self.store, self.template)
    }

    /// Returns the template. Change it by [`change`](Self::change) only.
    pub fn template(&self) -> &T {
        &self.template
    }

    /// Changes the template while it is in use, and gives its settings to all present and future values.
    ///
    /// The function changes the template through atomics or a lock. The values change one after the other, as in
    /// [`BoundedStore::for_each`], and all have changed when it returns. If [`update`](Template::update) panics for one
    /// of them, the rest are changed all the same. If two threads change the template at once, all values have the
    /// same settings in the end.
    pub fn change(&self, change: impl FnOnce(&T)) {
        self.change_setting(change, T::update);
    }

    /// Changes one setting of the template as [`change`](Self::change) does; `update` gives it to an existing value.
    ///
    /// The other settings of a value stay as they are, because they may have been changed individually.
    pub(crate) fn change_setting(&self, change: impl FnOnce(&T), update: impl Fn(&T, &T::Value)) {
        change(&self.template);
        // ORDERING: Release pairs with the Acquire in `changes`: a thread that sees the count sees the template's settings.
        // loom-tests: live_limits::last_of_two_changes_holds. A value that this thread does not find in the store is inserted
        // after it has released the shard's lock, by a thread that looks for changes under that lock:
        // live_limits::new_key_gets_the_changed_limit, breaker_settings::new_key_gets_the_changed_settings.
        self.changes.fetch_add(1, Ordering::Release);
        self.store.for_each(|value| self.update(value, &update));
    }

    /// Gives a value settings of the template, or newer ones if these change meanwhile.
    fn update(&self, value: &T::Value, update: impl Fn(&T, &T::Value)) {
        loop {
            let before = self.changes();
            update(&self.template, value);
            if self.changes() == before {
                return;
            }
        }
    }

    fn changes(&self) -> usize {
        // ORDERING: Acquire, as in `change`.
        self.changes.load(Ordering::Acquire)
    }

    /// Returns how many keys have a value.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Returns whether no key has a value.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Returns the most keys that can have a value.
    pub fn capacity(&self) -> usize {
        self.store.capacity()
    }

    /// Returns how many values were evicted so far.
    pub fn evictions(&self) -> u64 {
        self.store.evictions()
    }

    /// Returns what `look` returns for each value. No value counts as used, or is held.
    ///
    /// The iterator calls it shard by shard, under the shard's lock: it must not use the store.
    pub fn inspect_all<R>(&self, look: impl Fn(&K, &T::Value) -> R) -> impl Iterator<Item = R> {
        self.store.copies(move |key, value| look(key, value))
    }
}

impl<K: Hash + Eq, T: Template<K>, S: BuildHasher> Keyed<K, T, S> {
    /// Returns the value of this key, and creates it if there is none; evicts no value that is held.
    ///
    /// A caller holds a value by an `Arc` or a `Weak`. The method returns `None` if the key has no value yet, and all
    /// values that could make room are held. It has then allocated nothing, unless other threads took the room
    /// meanwhile.
    #[inline]
    pub fn try_get_or_create<Q>(&self, key: &Q) -> Option<Arc<T::Value>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.store.get_or_insert_beside_held(key, |key| self.template.create(key), || self.changes())
    }

    /// Returns what `look` returns for the value of this key, if it has one.
    ///
    /// The value does not count as used, and is not held. `look` is called under a lock: it must not use the store.
    pub fn inspect<Q: Hash + Eq + ?Sized, R>(&self, key: &Q, look: impl FnOnce(&T::Value) -> R) -> Option<R>
    where
        K: Borrow<Q>,
    {
        self.store.inspect(key, look)
    }

    /// Returns the value of this key, if it has one. That is no use of it.
    pub(crate) fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<T::Value>>
    where
        K: Borrow<Q>,
    {
        self.store.peek(key)
    }

    /// Returns whether a new key gets a value without an eviction.
    pub(crate) fn has_room<Q: Hash + ?Sized>(&self, key: &Q) -> bool {
        self.store.has_room(key)
    }

    /// Creates the value that a new key would get, outside of the store.
    pub(crate) fn apart<Q: ToOwned<Owned = K> + ?Sized>(&self, key: &Q) -> Arc<T::Value> {
        Arc::new(self.template.create(&key.to_owned()))
    }
}

impl<K, T: Template<K> + Evictable, S> Keyed<K, T, S> {
    /// Returns the store of the values.
    ///
    /// Use it to list the values, to find one without creating it, and to remove some.
    #[must_use]
    pub fn store(&self) -> &BoundedStore<K, T::Value, S> {
        &self.store
    }
}

impl<K: Hash + Eq, T: Template<K> + Evictable, S: BuildHasher> Keyed<K, T, S> {
    /// Returns the value of this key, and creates it if there is none.
    ///
    /// It does what [`BoundedStore::get_or_insert_with`] does. Use it for permits, to read the status of one key, and to
    /// control it.
    #[inline]
    pub fn get_or_create<Q>(&self, key: &Q) -> Arc<T::Value>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.store.get_or_insert_current(key, |key| self.template.create(key), || self.changes())
    }
}

impl<K, T: Template<K> + fmt::Debug, S> fmt::Debug for Keyed<K, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("template", &self.template)
            .field("capacity", &self.store.capacity())
            .finish_non_exhaustive()
    }
}
