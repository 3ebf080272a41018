//! A throttle for every key.

use super::phase::Rule;
use super::{AdaptiveThrottle, Throttled};
use crate::breaker::Verdict;
use crate::setting::Live;
use crate::store::{Evictable, Keyed, Template};
use crate::time::{Clock, DefaultClock, Seed};
use crate::{CallError, OutOfRange};
use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

/// One [`AdaptiveThrottle`] per key, for the most recently used keys, in a [`Keyed`] store.
///
/// All throttles have the same settings.
///
/// An evicted throttle is forgotten: the next calls for its key pass and get a new one. So throttles that now refuse calls are
/// evicted last, unless they were not called for 30 s.
///
/// # Floods of keys
///
/// A client that chooses the keys, such as the hosts of URLs, cannot evict a throttle that refuses calls by calling many hosts
/// that respond. It can make throttles of its own refuse, with 10 rejected calls within 5 s each. If all throttles of a shard
/// refuse, the shard evicts one that was not called lately, and counts the eviction:
/// [`store().kept_evictions()`](crate::BoundedStore::kept_evictions) above 0 says that the capacity is too small, or that the store is
/// flooded with hosts.
///
/// For throttles with different settings, use an [`BoundedStore`](crate::BoundedStore) and create each throttle yourself.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::CallError;
/// use damper::throttle::KeyedThrottle;
///
/// let hosts = KeyedThrottle::<String>::new(1024)?;
/// for _ in 0..10 {
///     assert_eq!(hosts.call("down.example.com", || Err::<(), _>(503)), Err(CallError::Failed(503)));
/// }
/// assert_eq!(hosts.get_or_create("down.example.com").status().share_refused(), 0.99);
/// assert_eq!(hosts.call("api.example.com", || Ok::<_, u16>("pong")), Ok("pong"));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "alloc")]
pub type KeyedThrottle<K, C = DefaultClock, S = Seed> = Keyed<K, ThrottleTemplate<C>, S>;

/// The settings and the clock of a [`KeyedThrottle`].
#[cfg(feature = "alloc")]
#[derive(Debug)]
pub struct ThrottleTemplate<C = DefaultClock> {
    rule: Live<Rule>,
    /// Hashes a key to the seed of its throttle.
    ///
    /// Otherwise all throttles would refuse the same calls, first, second, and so on.
    seed: Seed,
    clock: C,
}

impl<C> ThrottleTemplate<C> {
    fn new(seed: Seed, clock: C) -> Self {
        Self { rule: Live::new(Rule::DEFAULT), seed, clock }
    }
}

#[cfg(feature = "std")]
impl Default for ThrottleTemplate {
    fn default() -> Self {
        Self::new(Seed::random(), crate::time::Monotonic)
    }
}

impl<K: Hash, C: Clock + Clone> Template<K> for ThrottleTemplate<C> {
    type Value = AdaptiveThrottle<C>;

    fn create(&self, key: &K) -> AdaptiveThrottle<C> {
        let throttle = AdaptiveThrottle::with_clock(self.clock.clone(), self.seed.hash_one(key));
        Template::<K>::update(self, &throttle);
        throttle
    }

    fn update(&self, throttle: &AdaptiveThrottle<C>) {
        throttle.set_rule(self.rule.get());
    }

    fn is_worth_keeping(throttle: &AdaptiveThrottle<C>) -> bool {
        // An eviction runs this on some entries under a lock. It reads the clock and 24 words of the entry, some tens of
        // nanoseconds.
        throttle.status().is_worth_keeping()
    }
}

impl<C> Evictable for ThrottleTemplate<C> {}

#[cfg(feature = "std")]
impl<K: Hash + Eq> KeyedThrottle<K> {
    /// Creates throttles for at most `capacity` keys, on the [default clock](DefaultClock).
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the capacity is not 1 to 2^28 (2^24 on targets of 32 bits).
    pub fn new(capacity: usize) -> Result<Self, OutOfRange> {
        Self::with_clock(capacity, crate::time::Monotonic)
    }
}

#[cfg(feature = "std")]
impl<K: Hash + Eq, C: Clock + Clone> KeyedThrottle<K, C> {
    /// Creates throttles as [`new`](KeyedThrottle::new) does, on a clock of your own.
    ///
    /// A reference to a clock is a clock too.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] as for [`new`](KeyedThrottle::new).
    pub fn with_clock(capacity: usize, clock: C) -> Result<Self, OutOfRange> {
        Self::with_clock_and_hasher(capacity, clock, Seed::random())
    }
}

impl<K: Hash + Eq, C: Clock + Clone, S: BuildHasher> KeyedThrottle<K, C, S> {
    /// Creates throttles as `with_clock` does, with a hasher of your own, for use without `std`.
    ///
    /// See [`BoundedStore::with_hasher`](crate::BoundedStore::with_hasher).
    ///
    /// The hasher also makes the calls that this client refuses differ from those of other clients. So give each client another
    /// one: a [`Seed`] of its serial number, or random.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] as for [`BoundedStore::with_hasher`](crate::BoundedStore::with_hasher).
    pub fn with_clock_and_hasher(capacity: usize, clock: C, hasher: S) -> Result<Self, OutOfRange> {
        let seed = Seed::new(hasher.hash_one(()), 0);
        Self::with_template_and_hasher(ThrottleTemplate::new(seed, clock), capacity, hasher)
    }

    /// Sets how many calls may be made for each accepted one. Default: 2.0.
    ///
    /// It works like [`AdaptiveThrottle::multiplier`].
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is not 1.0 to 10.0.
    pub fn multiplier(self, calls: f64) -> Result<Self, OutOfRange> {
        self.set_multiplier(calls)?;
        Ok(self)
    }

    /// Sets the largest share of the calls that is refused. Default: 0.99.
    ///
    /// It works like [`AdaptiveThrottle::max_refused`].
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is not 0.0 to 0.99.
    pub fn max_refused(self, share: f64) -> Result<Self, OutOfRange> {
        self.set_max_refused(share)?;
        Ok(self)
    }

    /// Changes the multiplier of all present and future throttles.
    ///
    /// Calls may be made meanwhile. The counts stay.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is not 1.0 to 10.0. Then nothing has changed.
    pub fn set_multiplier(&self, calls: f64) -> Result<(), OutOfRange> {
        self.set_rule(|rule| rule.with_multiplier(calls))
    }

    /// Changes the largest share that is refused, of all present and future throttles.
    ///
    /// Calls may be made meanwhile. The counts stay.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is not 0.0 to 0.99. Then nothing has changed.
    pub fn set_max_refused(&self, share: f64) -> Result<(), OutOfRange> {
        self.set_rule(|rule| rule.with_max_refused(share))
    }

    fn set_rule(&self, change: impl Fn(Rule) -> Result<Rule, OutOfRange>) -> Result<(), OutOfRange> {
        let mut result = Ok(());
        self.change(|template| result = template.rule.update(change));
        result
    }

    /// Makes one call if the throttle of this key lets it pass. `Err` is a rejection.
    ///
    /// It works like [`AdaptiveThrottle::call`].
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<Q, T, E>(&self, key: &Q, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E, Throttled>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_or_create(key).call(call)
    }

    /// Makes one call as [`call`](Self::call) does; `classify` gives the verdict on what it returned.
    ///
    /// It works like [`AdaptiveThrottle::call_with`].
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was, whatever
    /// the verdict.
    #[inline]
    pub fn call_with<Q, T, E>(
        &self,
        key: &Q,
        call: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Verdict,
    ) -> Result<T, CallError<E, Throttled>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_or_create(key).call_with(call, classify)
    }

    /// Awaits a future if the throttle of this key lets it pass. `Err` is a rejection.
    ///
    /// It works like [`AdaptiveThrottle::run`], but the future borrows nothing.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was.
    pub fn run<Q, T, E, F>(
        &self,
        key: &Q,
        future: F,
    ) -> impl Future<Output = Result<T, CallError<E, Throttled>>> + use<K, C, S, Q, T, E, F>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future<Output = Result<T, E>>,
    {
        self.run_with(key, future, Verdict::of)
    }

    /// Awaits a future as [`run`](Self::run) does; `classify` gives the verdict on what it returned.
    ///
    /// It works like [`AdaptiveThrottle::run_with`], but the future borrows nothing.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was,
    /// whatever the verdict.
    pub fn run_with<Q, T, E, F, V>(
        &self,
        key: &Q,
        future: F,
        classify: V,
    ) -> impl Future<Output = Result<T, CallError<E, Throttled>>> + use<K, C, S, Q, T, E, F, V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future<Output = Result<T, E>>,
        V: FnOnce(&Result<T, E>) -> Verdict,
    {
        let throttle = self.get_or_create(key);
        async move { throttle.run_with(future, classify).await }
    }
}
