//! An adaptive limit for every key.

use super::LimitTemplate;
use super::sealed::PerKey;
use crate::concurrency::{
    AdaptiveLimit, BoundedRule, BulkheadFull, BulkheadStatus, LimitBounds, LimitRule, Outcome, ProbedGradient,
};
use crate::store::Keyed;
use crate::time::{Clock, DefaultClock, Seed};
use crate::{CallError, OutOfRange};
use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;

/// One [`AdaptiveLimit`] per key, for the most recently used keys.
///
/// Each follows the calls of its own key, a host or a route.
///
/// Calls of different services must not share a limit: the fast ones would set the latency that the slow ones are compared with.
///
/// See [limits per key](crate::concurrency#limits-per-key) for when a limit is evicted, and for floods of keys. An evicted limit loses its measurements, so
/// give the store room for more keys than you call.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::KeyedAdaptiveLimit;
/// use damper::concurrency::LimitBounds;
///
/// let hosts = KeyedAdaptiveLimit::<String>::new(LimitBounds::DEFAULT, 1024)?;
/// let answer = hosts.call("api.example.com", || "42".parse::<u32>());
/// assert_eq!(answer, Ok(42));
///
/// let permit = hosts.try_acquire("www.example.com")?;
/// permit.success();
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "alloc")]
pub type KeyedAdaptiveLimit<K, R = ProbedGradient, C = DefaultClock, S = Seed> =
    Keyed<K, LimitTemplate<AdaptiveLimit<R, C>>, S>;

#[cfg(feature = "std")]
impl<K> KeyedAdaptiveLimit<K> {
    /// Creates limits that move within these bounds, for at most `capacity` keys, on the [default clock](DefaultClock).
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the capacity is not 1 to 2^28 (2^24 on targets of 32 bits).
    pub fn new(bounds: LimitBounds, capacity: usize) -> Result<Self, OutOfRange> {
        Self::with_rule(ProbedGradient::new(bounds), capacity, crate::time::Monotonic)
    }
}

#[cfg(feature = "std")]
impl<K, R: LimitRule, C: Clock + Clone> KeyedAdaptiveLimit<K, R, C> {
    /// Creates limits that each follow a copy of this rule, on a clock of your own.
    ///
    /// A reference to a clock is a clock too.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] as for [`new`](KeyedAdaptiveLimit::new).
    pub fn with_rule(rule: R, capacity: usize, clock: C) -> Result<Self, OutOfRange> {
        Self::with_rule_and_hasher(rule, capacity, clock, Seed::random())
    }
}

impl<K, R: LimitRule, C: Clock + Clone, S> KeyedAdaptiveLimit<K, R, C, S> {
    /// Creates limits as `with_rule` does, with a hasher of your own, for use without `std`.
    ///
    /// See [`BoundedStore::with_hasher`](crate::BoundedStore::with_hasher).
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] as for [`BoundedStore::with_hasher`](crate::BoundedStore::with_hasher).
    pub fn with_rule_and_hasher(rule: R, capacity: usize, clock: C, hasher: S) -> Result<Self, OutOfRange> {
        let prototype = AdaptiveLimit::with_rule(rule, clock);
        Self::with_template_and_hasher(LimitTemplate::of(prototype), capacity, hasher)
    }
}

impl<K, R: BoundedRule, C: Clock + Clone, S> KeyedAdaptiveLimit<K, R, C, S> {
    /// Changes the bounds of all present and future keys' limits while they are in use.
    ///
    /// It works like [`AdaptiveLimit::set_bounds`].
    ///
    /// A key whose bounds were changed individually gets these too. Later limits start where the first did, or at the nearest
    /// bound. The limits change one after the other, and each counts as in use while it is changed. If a waker or a rule panics,
    /// the limits behind it are changed all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::KeyedAdaptiveLimit;
    /// use damper::concurrency::LimitBounds;
    ///
    /// let hosts = KeyedAdaptiveLimit::<String>::new(LimitBounds::DEFAULT, 1024)?;
    /// hosts.set_bounds(LimitBounds::new(1, 10)?);
    /// assert_eq!(hosts.get_or_create("api.example.com")?.limit(), 10);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_bounds(&self, bounds: LimitBounds) {
        self.change_setting(
            |template| template.prototype.set_bounds(bounds),
            |template, limit| limit.take_limit_of(&template.prototype),
        );
    }
}

impl<K: Hash + Eq, R: LimitRule, C: Clock + Clone, S: BuildHasher> KeyedAdaptiveLimit<K, R, C, S> {
    /// Makes one call if this key has a slot free and no call waits for it, as [`AdaptiveLimit::call`] does.
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

    /// Makes one call as [`call`](Self::call) does; `classify` gives the outcome. As [`AdaptiveLimit::call_with`].
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was, whatever the outcome.
    #[inline]
    pub fn call_with<Q, T, E>(
        &self,
        key: &Q,
        call: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Outcome,
    ) -> Result<T, CallError<E, BulkheadFull>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_or_create(key)?.call_with(call, classify)
    }

    /// Awaits a future if this key has a slot free and no call waits for it, as [`AdaptiveLimit::run`] does.
    ///
    /// The returned future borrows nothing, so it can be spawned. The key's limit is in use from this call on.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was.
    pub fn run<Q, T, E, F>(
        &self,
        key: &Q,
        future: F,
    ) -> impl Future<Output = Result<T, CallError<E, BulkheadFull>>> + use<K, R, C, S, Q, T, E, F>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future<Output = Result<T, E>>,
    {
        let limit = self.get_or_create(key);
        async move { limit?.run(future).await }
    }

    /// Awaits a future as [`run`](Self::run) does; `classify` gives the outcome.
    ///
    /// It works like [`AdaptiveLimit::run_with`], but the future borrows nothing.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was, whatever the outcome.
    pub fn run_with<Q, T, E, F, O>(
        &self,
        key: &Q,
        future: F,
        classify: O,
    ) -> impl Future<Output = Result<T, CallError<E, BulkheadFull>>> + use<K, R, C, S, Q, T, E, F, O>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future<Output = Result<T, E>>,
        O: FnOnce(&Result<T, E>) -> Outcome,
    {
        let limit = self.get_or_create(key);
        async move { limit?.run_with(future, classify).await }
    }

    /// Returns the latency of this key's unloaded service, as [`AdaptiveLimit::baseline`] does.
    ///
    /// The key does not count as used, as in [`status`](Self::status).
    pub fn baseline<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Duration>
    where
        K: Borrow<Q>,
    {
        self.inspect(key, AdaptiveLimit::baseline).flatten()
    }
}

impl<R: LimitRule, C: Clock + Clone> PerKey for AdaptiveLimit<R, C> {
    fn alike(&self, first: &Self) -> Self {
        AdaptiveLimit::alike(self, first)
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
        self.take_bounds_of(other);
    }

    fn take_places_of(&self, other: &Self) {
        self.take_queue_of(other);
    }
}
