//! A breaker for every key.

use super::run::ClassifyFn;
use super::{BreakerConfig, CallError, CircuitBreaker, OnStateChange, Run, SetConfigError, StateChange, Verdict};
use crate::OutOfRange;
use crate::store::{Evictable, Keyed, Template};
use crate::sync::{AtomicBool, Claim, Guarded};
use crate::time::{Clock, DefaultClock, Seed};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

/// One [`CircuitBreaker`] per key, for the most recently used keys, all with one configuration.
///
/// The breakers are in a [`Keyed`] store. An evicted breaker is forgotten: the next call for its key passes and gets a new one. So
/// the store evicts breakers last whose state is worth keeping: open ones, half-open ones with probes in flight or decided, and
/// those that were forced into a state (or set to metrics only). An open breaker whose cooldown is over and that is no longer
/// called is not among them.
///
/// # Floods of keys
///
/// A client that chooses the keys, such as the hosts of URLs, cannot evict an open breaker by calling many hosts, even failing
/// ones: the closed breakers of those hosts are evicted first. It can trip breakers of its own, with `failure_threshold` failures
/// each. If all breakers of a shard are worth keeping, the shard evicts one that was not called lately, and counts the eviction:
/// [`store().kept_evictions()`](crate::BoundedStore::kept_evictions) above 0 says that the capacity is too small, or that the store is
/// flooded with hosts. A low threshold makes such a flood cheap; a capacity well above the number of hosts that you call makes it
/// expensive.
///
/// For breakers with different configurations, use an [`BoundedStore`](crate::BoundedStore) and create each breaker yourself.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{BreakerConfig, CallError, KeyedCircuitBreaker};
///
/// let config = BreakerConfig::builder().failure_threshold(2).build()?;
/// let hosts = KeyedCircuitBreaker::<String>::new(config, 1024)?;
/// for _ in 0..2 {
///     assert_eq!(hosts.call("down.example.com", || Err::<(), _>("timed out")), Err(CallError::Failed("timed out")));
/// }
/// assert!(matches!(hosts.call("down.example.com", || Ok::<_, &str>(())), Err(CallError::Refused(_))));
/// assert_eq!(hosts.call("api.example.com", || Ok::<_, &str>("pong")), Ok("pong"));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "alloc")]
pub type KeyedCircuitBreaker<K, C = DefaultClock, S = Seed, L = ()> = Keyed<K, BreakerTemplate<K, C, L>, S>;

/// The configuration, the clock and the listeners of a [`KeyedCircuitBreaker`].
#[cfg(feature = "alloc")]
pub struct BreakerTemplate<K, C = DefaultClock, L = ()> {
    config: Guarded<BreakerConfig>,
    /// Whether a thread is changing the configuration.
    claimed: AtomicBool,
    clock: C,
    listener_of: ListenerOf<K, L>,
}

/// Makes the listener of a key's breaker.
type ListenerOf<K, L> = Box<dyn Fn(&K) -> L + Send + Sync>;

impl<K, C> BreakerTemplate<K, C> {
    pub(crate) fn new(config: BreakerConfig, clock: C) -> Self {
        Self::with_listeners(config, clock, Box::new(|_| ()))
    }
}

impl<K, C, L> BreakerTemplate<K, C, L> {
    fn with_listeners(config: BreakerConfig, clock: C, listener_of: ListenerOf<K, L>) -> Self {
        Self { config: Guarded::new(config), claimed: AtomicBool::new(false), clock, listener_of }
    }

    fn config(&self) -> BreakerConfig {
        self.config.read(|config| *config)
    }
}

impl<K, C: Clock + Clone, L: OnStateChange> Template<K> for BreakerTemplate<K, C, L> {
    type Value = CircuitBreaker<C, L>;

    fn create(&self, key: &K) -> CircuitBreaker<C, L> {
        CircuitBreaker::with_clock(self.config(), self.clock.clone()).with_listener((self.listener_of)(key))
    }

    fn update(&self, breaker: &CircuitBreaker<C, L>) {
        // On `Busy` another caller is configuring this breaker individually.
        _ = breaker.set_config(&self.config());
    }

    fn is_worth_keeping(breaker: &CircuitBreaker<C, L>) -> bool {
        breaker.status().is_worth_keeping()
    }
}

impl<K, C, L> Evictable for BreakerTemplate<K, C, L> {}

impl<K, C: fmt::Debug, L> fmt::Debug for BreakerTemplate<K, C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerTemplate")
            .field("config", &self.config())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "std")]
impl<K: Hash + Eq> KeyedCircuitBreaker<K> {
    /// Creates breakers of this configuration for at most `capacity` keys, on the [default clock](DefaultClock).
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the capacity is not 1 to 2^28 (2^24 on targets of 32 bits).
    pub fn new(config: BreakerConfig, capacity: usize) -> Result<Self, OutOfRange> {
        Self::with_clock(config, capacity, crate::time::Monotonic)
    }
}

#[cfg(feature = "std")]
impl<K: Hash + Eq, C: Clock + Clone> KeyedCircuitBreaker<K, C> {
    /// Creates breakers of this configuration for at most `capacity` keys, on a clock of your own.
    ///
    /// A reference to a clock is a clock too.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] as for [`new`](KeyedCircuitBreaker::new).
    pub fn with_clock(config: BreakerConfig, capacity: usize, clock: C) -> Result<Self, OutOfRange> {
        Self::with_clock_and_hasher(config, capacity, clock, Seed::random())
    }
}

impl<K: Hash + Eq, C: Clock + Clone, S: BuildHasher> KeyedCircuitBreaker<K, C, S> {
    /// Creates breakers as `with_clock` does, with a hasher of your own, for use without `std`.
    ///
    /// See [`BoundedStore::with_hasher`](crate::BoundedStore::with_hasher).
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] as for [`BoundedStore::with_hasher`](crate::BoundedStore::with_hasher).
    pub fn with_clock_and_hasher(
        config: BreakerConfig,
        capacity: usize,
        clock: C,
        hasher: S,
    ) -> Result<Self, OutOfRange> {
        Self::with_template_and_hasher(BreakerTemplate::new(config, clock), capacity, hasher)
    }

    /// Registers a callback, which gets the key, for the state changes of all breakers.
    ///
    /// Call it before the first use.
    ///
    /// It is called as the callback of one breaker is, see [`CircuitBreaker::on_state_change`]. Each breaker has a copy of its
    /// key. The eviction of a breaker is not reported, nor is the new closed breaker of its key.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{BreakerConfig, KeyedCircuitBreaker};
    /// use std::sync::mpsc::channel;
    ///
    /// let (sender, changes) = channel();
    /// let config = BreakerConfig::builder().failure_threshold(1).build()?;
    /// let hosts = KeyedCircuitBreaker::<String>::new(config, 1024)?
    ///     .on_state_change(move |change, host| _ = sender.send(format!("{host}: {change}")));
    /// _ = hosts.call("down.example.com", || Err::<(), _>("timed out"));
    /// assert_eq!(changes.try_recv()?, "down.example.com: circuit closed -> open: consecutive failures");
    /// # }
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

    /// Gives each breaker a listener of its own, created by `listener_of`. Call it before the first use.
    ///
    /// Use it for listeners that keep data per breaker: such a listener is dropped with its breaker. `listener_of` is called with
    /// the key, outside the store's locks, for each breaker that is created. Breakers that existed before are dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::sync::atomic::{AtomicU32, Ordering};
    /// use damper::breaker::{OnStateChange, StateChange};
    /// use damper::{BreakerConfig, KeyedCircuitBreaker};
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
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_listeners<L: OnStateChange>(
        self,
        listener_of: impl Fn(&K) -> L + Send + Sync + 'static,
    ) -> KeyedCircuitBreaker<K, C, S, L> {
        let (store, template) = self.into_parts();
        let template = BreakerTemplate::with_listeners(template.config(), template.clock, Box::new(listener_of));
        Keyed::in_store(store.emptied(), template)
    }
}

impl<K: Hash + Eq, C: Clock + Clone, S: BuildHasher, L: OnStateChange> KeyedCircuitBreaker<K, C, S, L> {
    /// Changes the configuration of all present and future breakers while they are in use.
    ///
    /// It works like [`CircuitBreaker::set_config`].
    ///
    /// A breaker that was configured individually gets this configuration too, unless another thread is changing it at that
    /// moment: then it keeps that thread's. The breakers change one after the other, and all have changed when it returns. If the
    /// clock panics for one of them, the rest are changed all the same.
    ///
    /// # Errors
    ///
    /// [`SetConfigError::Busy`] if another thread is changing the configuration of all, which takes milliseconds for many keys.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::breaker::State;
    /// use damper::{BreakerConfig, KeyedCircuitBreaker};
    ///
    /// let hosts = KeyedCircuitBreaker::<String>::new(BreakerConfig::DEFAULT, 1024)?;
    /// _ = hosts.call("down.example.com", || Err::<(), _>("timed out"));
    /// hosts.set_config(&BreakerConfig::builder().failure_threshold(2).build()?)?;
    /// _ = hosts.call("down.example.com", || Err::<(), _>("timed out"));
    /// assert_eq!(hosts.get_or_create("down.example.com").state(), State::Open);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_config(&self, config: &BreakerConfig) -> Result<(), SetConfigError> {
        let _claim = Claim::of(&self.template().claimed).ok_or(SetConfigError::Busy)?;
        self.change(|template| template.config.write(|current| *current = *config));
        Ok(())
    }

    /// Makes one call if the breaker of this key lets it pass. `Err` is a failure.
    ///
    /// It works like [`CircuitBreaker::call`].
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

    /// Makes one call as [`call`](Self::call) does; `classify` gives the verdict on what it returned.
    ///
    /// It works like [`CircuitBreaker::call_with`].
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

    /// Awaits a future if the breaker of this key lets it pass; `Err` is a failure.
    ///
    /// It works like [`CircuitBreaker::run`], but the future borrows nothing.
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

    /// Awaits a future as [`run`](Self::run) does; `classify` gives the verdict on what it returned.
    ///
    /// It works like [`CircuitBreaker::run_with`], but the future borrows nothing.
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
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() -> Result<(), damper::OutOfRange> {
    /// use damper::breaker::{State, Verdict};
    /// use damper::{BreakerConfig, KeyedCircuitBreaker};
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
    /// # run().unwrap(); }
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
}

/// A callback for the state changes of all breakers.
type KeyCallback<K> = dyn Fn(StateChange, &K) + Send + Sync;

/// Calls a callback with the key of a breaker, for each change of its state.
///
/// It is the listener of the breakers with a [callback](KeyedCircuitBreaker::on_state_change).
#[cfg(feature = "alloc")]
pub struct KeyListener<K> {
    key: K,
    callback: Arc<KeyCallback<K>>,
}

impl<K> KeyListener<K> {
    /// Creates the listener of the breaker with this key.
    pub fn new(key: K, callback: impl Fn(StateChange, &K) + Send + Sync + 'static) -> Self {
        Self { key, callback: Arc::new(callback) }
    }
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
