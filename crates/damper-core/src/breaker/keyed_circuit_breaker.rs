//! A breaker for every key.

use super::run::ClassifyFn;
use super::{BreakerConfig, CallError, CircuitBreaker, OnStateChange, Run, StateChange, Verdict};
use crate::capacity::CapacityError;
use crate::store::LruStore;
use crate::time::{Clock, DefaultClock, Seed};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
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
/// For breakers that differ, take an [`LruStore`] and create each as you like.
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
/// assert!(matches!(hosts.call("down.example.com", || Ok::<_, &str>(())), Err(CallError::Refused(_))));
/// assert_eq!(hosts.call("api.example.com", || Ok::<_, &str>("pong")), Ok("pong"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedCircuitBreaker<K, C = DefaultClock, S = Seed, L = ()> {
    store: LruStore<K, CircuitBreaker<C, L>, S>,
    config: BreakerConfig,
    clock: C,
    listener_of: ListenerOf<K, L>,
}

/// Makes the listener of a key's breaker.
type ListenerOf<K, L> = Box<dyn Fn(&K) -> L + Send + Sync>;

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
        Ok(Self::listened_to(LruStore::with_hasher(capacity, hasher)?, config, clock, Box::new(|_| ())))
    }

    /// Registers a callback for the state changes of all breakers, which gets the key; to be called before the first use.
    ///
    /// It is called as the callback of one breaker is, see [`CircuitBreaker::on_state_change`]. Each breaker has a copy of
    /// its key. An evicted breaker makes no change, and neither does the closed one that takes its place.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// # extern crate damper_core as damper;
    /// use damper::{BreakerConfig, KeyedCircuitBreaker};
    /// use std::sync::mpsc::channel;
    ///
    /// let (sender, changes) = channel();
    /// let config = BreakerConfig::builder().failure_threshold(1).build()?;
    /// let hosts = KeyedCircuitBreaker::<String>::new(config, 1024)?
    ///     .on_state_change(move |change, host| _ = sender.send(format!("{host}: {change}")));
    /// _ = hosts.call("down.example.com", || Err::<(), _>("timed out"));
    /// assert_eq!(changes.try_recv()?, "down.example.com: circuit closed -> open: consecutive failures");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_state_change<F>(self, callback: F) -> KeyedCircuitBreaker<K, C, S, KeyListener<K>>
    where
        K: Clone + 'static,
        F: Fn(StateChange, &K) + Send + Sync + 'static,
    {
        let callback: Arc<KeyCallback<K>> = Arc::new(callback);
        self.with_listeners(move |key| KeyListener { key: key.clone(), callback: Arc::clone(&callback) })
    }

    /// Gives each breaker a listener of its own, which `listener_of` makes for its key; to be called before the first use.
    ///
    /// For listeners that keep something per breaker: such a listener is dropped with its breaker. `listener_of` is called
    /// outside the store's locks, once for each breaker that is created. Breakers that were there before are dropped.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// # extern crate damper_core as damper;
    /// use core::sync::atomic::{AtomicU32, Ordering};
    /// use damper::{BreakerConfig, KeyedCircuitBreaker, OnStateChange, StateChange};
    ///
    /// /// Logs how often a host's breaker changed its state.
    /// struct Flapping {
    ///     host: String,
    ///     changes: AtomicU32,
    /// }
    ///
    /// impl OnStateChange for Flapping {
    ///     fn on_state_change(&self, _: StateChange) {
    ///         let changes = 1 + self.changes.fetch_add(1, Ordering::Relaxed);
    ///         println!("{}: {changes} changes", self.host);
    ///     }
    /// }
    ///
    /// let hosts = KeyedCircuitBreaker::<String>::new(BreakerConfig::DEFAULT, 1024)?
    ///     .with_listeners(|host| Flapping { host: host.clone(), changes: AtomicU32::new(0) });
    /// # assert_eq!(hosts.call("api.example.com", || Ok::<_, &str>("pong")), Ok("pong"));
    /// # Ok::<(), damper::CapacityError>(())
    /// ```
    pub fn with_listeners<L: OnStateChange>(
        self,
        listener_of: impl Fn(&K) -> L + Send + Sync + 'static,
    ) -> KeyedCircuitBreaker<K, C, S, L> {
        let Self { store, config, clock, .. } = self;
        KeyedCircuitBreaker::listened_to(store.emptied(), config, clock, Box::new(listener_of))
    }
}

impl<K: Hash + Eq, C: Clock + Clone, S: BuildHasher, L: OnStateChange> KeyedCircuitBreaker<K, C, S, L> {
    fn listened_to(
        store: LruStore<K, CircuitBreaker<C, L>, S>,
        config: BreakerConfig,
        clock: C,
        listener_of: ListenerOf<K, L>,
    ) -> Self {
        let store = store.keep_if(|breaker| breaker.status().is_worth_keeping());
        Self { store, config, clock, listener_of }
    }

    /// The breaker of this key, which is made if there is none; as [`LruStore::get_or_insert_with`]. For permits, and
    /// for what breakers are controlled by.
    #[inline]
    pub fn get_or_create<Q>(&self, key: &Q) -> Arc<CircuitBreaker<C, L>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.store.get_or_insert_with_key(key, |key| {
            CircuitBreaker::with_clock(self.config, self.clock.clone()).with_listener((self.listener_of)(key))
        })
    }

    /// Makes one call if the breaker of this key lets it pass; `Err` is a failure. As [`CircuitBreaker::call`].
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<Q, T, E>(&self, key: &Q, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_or_create(key).call(call)
    }

    /// Makes one call as [`call`](Self::call) does; `classify` gives the verdict on what it returned. As
    /// [`CircuitBreaker::call_with`].
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was, whatever the
    /// verdict.
    #[inline]
    pub fn call_with<Q, T, E>(
        &self,
        key: &Q,
        call: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Verdict,
    ) -> Result<T, CallError<E>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.get_or_create(key).call_with(call, classify)
    }

    /// Awaits a future if the breaker of this key lets it pass; `Err` is a failure. As [`CircuitBreaker::run`], and it
    /// borrows nothing.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was.
    pub fn run<Q, T, E, F>(&self, key: &Q, future: F) -> Run<Arc<CircuitBreaker<C, L>>, F, ClassifyFn<T, E>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future<Output = Result<T, E>>,
    {
        Run::of_result(self.get_or_create(key), future)
    }

    /// Awaits a future as [`run`](Self::run) does; `classify` gives the verdict on what it returned. As
    /// [`CircuitBreaker::run_with`], and it borrows nothing.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was, whatever the
    /// verdict.
    ///
    /// # Examples
    ///
    /// A page that is not found is not the server's failure:
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// # extern crate damper_core as damper;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), damper::CapacityError> {
    /// use damper::{BreakerConfig, KeyedCircuitBreaker, State, Verdict};
    ///
    /// let hosts = KeyedCircuitBreaker::<String>::new(BreakerConfig::DEFAULT, 1024)?;
    /// for _ in 0..10 {
    ///     let not_found = async { Err::<(), _>(404) };
    ///     let response = hosts.run_with("api.example.com", not_found, |result| match result {
    ///         Err(404) => Verdict::Success,
    ///         result => Verdict::of(result),
    ///     });
    ///     assert!(response.await.is_err());
    /// }
    /// assert_eq!(hosts.get_or_create("api.example.com").state(), State::Closed);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_with<Q, T, E, F, V>(&self, key: &Q, future: F, classify: V) -> Run<Arc<CircuitBreaker<C, L>>, F, V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future<Output = Result<T, E>>,
        V: FnOnce(&Result<T, E>) -> Verdict,
    {
        Run::new(self.get_or_create(key), future, classify)
    }

    /// Where the breakers are: to look at all of them, to find one without making it, to remove some.
    #[must_use]
    pub fn store(&self) -> &LruStore<K, CircuitBreaker<C, L>, S> {
        &self.store
    }
}

impl<K, C: fmt::Debug, S, L> fmt::Debug for KeyedCircuitBreaker<K, C, S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedCircuitBreaker")
            .field("config", &self.config)
            .field("capacity", &self.store.capacity())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// A callback for the state changes of all breakers.
type KeyCallback<K> = dyn Fn(StateChange, &K) + Send + Sync;

/// Calls the callback of [`KeyedCircuitBreaker::on_state_change`] with the key of a breaker.
pub struct KeyListener<K> {
    key: K,
    callback: Arc<KeyCallback<K>>,
}

impl<K> OnStateChange for KeyListener<K> {
    fn on_state_change(&self, change: StateChange) {
        (self.callback)(change, &self.key);
    }
}

impl<K: fmt::Debug> fmt::Debug for KeyListener<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyListener").field("key", &self.key).finish_non_exhaustive()
    }
}
