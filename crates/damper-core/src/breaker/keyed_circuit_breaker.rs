//! A breaker for every key.

use super::run::ClassifyFn;
use super::{BreakerConfig, CallError, CircuitBreaker, Run};
use crate::capacity::CapacityError;
use crate::store::LruStore;
use crate::time::{Clock, DefaultClock, Seed};
use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

/// One [`CircuitBreaker`] per key, of the keys that were used last: an [`LruStore`] of breakers that are all alike.
///
/// A breaker that was evicted is forgotten: the next call for its key passes, and meets a new one. So those go last
/// that know something which is worth keeping: open ones, half-open ones with probes in flight or decided, and those
/// that were forced into a state (or set to metrics only). An open breaker whose cooldown is over and that is no longer called
/// is not among them.
///
/// # Floods of keys
///
/// A client that chooses the keys, such as the hosts of URLs, cannot evict an open breaker by calling many hosts, failing
/// ones included: their closed breakers go first. It can trip breakers of its own, with `failure_threshold` failures
/// each. Where all breakers of a shard are worth keeping, the shard evicts one that was not called lately, and counts it:
/// [`store().kept_evictions()`](LruStore::kept_evictions) above 0 says that the capacity is too small, or that
/// the store is flooded with hosts. A low threshold makes such a flood cheap; a capacity well above the number of hosts that you
/// call makes it expensive.
///
/// For breakers that differ, or that have listeners, take an [`LruStore`] and create each as you like.
///
/// # Examples
///
#[cfg_attr(feature = "std", doc = "```")]
#[cfg_attr(not(feature = "std"), doc = "```text")]
/// # extern crate damper_core as damper;
/// use damper::{BreakerConfig, CallError, KeyedCircuitBreaker};
///
/// let config = BreakerConfig::builder().failure_threshold(2).build()?;
/// let hosts = KeyedCircuitBreaker::<String>::new(config, 1024)?;
/// for _ in 0..2 {
///     assert_eq!(hosts.call("down.example.com", || Err::<(), _>("timed out")), Err(CallError::Failed("timed out")));
/// }
/// assert!(matches!(hosts.call("down.example.com", || Ok::<_, &str>(())), Err(CallError::Open(_))));
/// assert_eq!(hosts.call("api.example.com", || Ok::<_, &str>("pong")), Ok("pong"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedCircuitBreaker<K, C = DefaultClock, S = Seed> {
    store: LruStore<K, CircuitBreaker<C>, S>,
    config: BreakerConfig,
    clock: C,
}

#[cfg(feature = "std")]
impl<K: Hash + Eq> KeyedCircuitBreaker<K> {
    /// Creates breakers of this configuration for at most `capacity` keys, on the [default clock](DefaultClock).
    ///
    /// # Errors
    ///
    /// [`CapacityError`] if the capacity is not 1 to 2^28 (2^24 on targets of 32 bits).
    pub fn new(config: BreakerConfig, capacity: usize) -> Result<Self, CapacityError> {
        Self::with_clock(config, capacity, crate::time::Monotonic)
    }
}

#[cfg(feature = "std")]
impl<K: Hash + Eq, C: Clock + Clone> KeyedCircuitBreaker<K, C> {
    /// Creates breakers of this configuration for at most `capacity` keys, on a clock of your own. A reference to a clock is
    /// a clock too.
    ///
    /// # Errors
    ///
    /// [`CapacityError`] as for [`new`](KeyedCircuitBreaker::new).
    pub fn with_clock(config: BreakerConfig, capacity: usize, clock: C) -> Result<Self, CapacityError> {
        Self::with_clock_and_hasher(config, capacity, clock, Seed::random())
    }
}

impl<K: Hash + Eq, C: Clock + Clone, S: BuildHasher> KeyedCircuitBreaker<K, C, S> {
    /// As `with_clock`, with a hasher of your own, as [`LruStore::with_hasher`] has it: for where there is no `std`.
    ///
    /// # Errors
    ///
    /// [`CapacityError`] as for [`LruStore::with_hasher`].
    pub fn with_clock_and_hasher(
        config: BreakerConfig,
        capacity: usize,
        clock: C,
        hasher: S,
    ) -> Result<Self, CapacityError> {
        let is_worth_keeping = |breaker: &CircuitBreaker<C>| breaker.status().is_worth_keeping();
        let store = LruStore::with_hasher(capacity, hasher)?.keep_if(is_worth_keeping);
        Ok(Self { store, config, clock })
    }

    /// The breaker of this key, which is made if there is none; as [`LruStore::get_or_insert_with`]. For permits, and
    /// for calls with a verdict of your own.
    #[inline]
    pub fn get_or_create<Q>(&self, key: &Q) -> Arc<CircuitBreaker<C>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.store.get_or_insert_with(key, || self.closed())
    }

    /// Makes one call if the breaker of this key lets it pass; `Err` is a failure. As [`CircuitBreaker::call`].
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<Q, T, E>(&self, key: &Q, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_or_create(key).call(call)
    }

    /// Awaits a future if the breaker of this key lets it pass; `Err` is a failure. As [`CircuitBreaker::run`], and it
    /// borrows nothing.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the future was not polled, [`CallError::Failed`] with its error if it was.
    pub fn run<Q, T, E, F>(&self, key: &Q, future: F) -> Run<Arc<CircuitBreaker<C>>, F, ClassifyFn<T, E>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future<Output = Result<T, E>>,
    {
        Run::of_result(self.get_or_create(key), future)
    }

    /// Where the breakers are: to look at all of them, to find one without making it, to remove some.
    #[must_use]
    pub fn store(&self) -> &LruStore<K, CircuitBreaker<C>, S> {
        &self.store
    }

    fn closed(&self) -> CircuitBreaker<C> {
        CircuitBreaker::with_clock(self.config, self.clock.clone())
    }
}

impl<K, C: fmt::Debug, S> fmt::Debug for KeyedCircuitBreaker<K, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedCircuitBreaker")
            .field("config", &self.config)
            .field("capacity", &self.store.capacity())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
