//! Which breaker, and what is a failure.

use super::{BreakerService, SharedBreaker};
use crate::{EveryErr, Key, One, PerKey};
use alloc::sync::Arc;
use core::fmt;
use damper_core::breaker::{KeyedCircuitBreaker, OnStateChange, Verdict};
use damper_core::time::Clock;

/// Puts services of any request behind circuit breakers.
///
/// A failing service is not called, and the caller gets an error at once.
///
/// Every `Err` of the service is a failure, unless it is a [refusal](damper_core::is_refusal) of a layer of damper inside,
/// or [`classify`](Self::classify) says otherwise. The caller gets
/// [`CallError::Failed`](damper_core::CallError) with it, or [`CallError::Refused`](damper_core::CallError) where the breaker
/// refused the call. Responses reach the caller unchanged.
///
/// Clones, and all services that one makes, share the breakers. Permits are taken in `call`, never in `poll_ready`: a
/// caller that polls for readiness and goes away would keep others from a probe. A call that panics has failed.
///
/// For `http::Request`, `damper::http::CircuitBreakerLayer` knows hosts, statuses and bodies.
///
/// # Examples
///
/// One breaker, before a client of a database:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// use damper::tower::BreakerLayer;
/// use damper::{BreakerConfig, CallError, CircuitBreaker};
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// static DATABASE: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT); // 5 failures, 30 s, 1 probe
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut database = ServiceBuilder::new()
///     .layer(BreakerLayer::new(&DATABASE))
///     .service(service_fn(async |query: &'static str| query.parse::<u32>()));
///
/// assert_eq!(database.ready().await.unwrap().call("42").await, Ok(42));
/// DATABASE.force_open();
/// let refused = database.ready().await.unwrap().call("42").await;
/// assert!(matches!(refused, Err(CallError::Refused(_))));
/// # }
/// ```
///
/// With a candidate, which decides beside it and changes nothing:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// use damper::shadow::Shadowed;
/// use damper::tower::BreakerLayer;
/// use damper::{BreakerConfig, CircuitBreaker};
/// use std::sync::Arc;
///
/// let nervous = BreakerConfig::builder().failure_threshold(2).build()?;
/// let database = Arc::new(Shadowed::new(CircuitBreaker::default(), CircuitBreaker::new(nervous)));
/// let layer = BreakerLayer::new(Arc::clone(&database));
/// // A day later:
/// println!("{} calls more would have been refused", database.report().only_by_candidate);
/// # let _ = layer;
/// # Ok::<(), damper::breaker::BreakerConfigError>(())
/// ```
///
/// A breaker per key, and what is a failure:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// use damper::breaker::Verdict;
/// use damper::tower::BreakerLayer;
/// use damper::{BreakerConfig, KeyedCircuitBreaker};
///
/// struct Query {
///     shard: u32,
/// }
///
/// enum DatabaseError {
///     Constraint,
///     Connection,
/// }
///
/// let shards = KeyedCircuitBreaker::new(BreakerConfig::DEFAULT, 64)?;
/// let layer = BreakerLayer::by(|query: &Query| query.shard, shards).classify(|result: &Result<u32, DatabaseError>| {
///     Verdict::failure_if(matches!(result, Err(DatabaseError::Connection)))
/// });
/// # let _ = (layer, DatabaseError::Constraint);
/// # Ok::<(), damper::CapacityError>(())
/// ```
#[derive(Clone)]
pub struct BreakerLayer<B, V = EveryErr> {
    pub(super) breakers: B,
    pub(super) classify: V,
}

impl<B: SharedBreaker> BreakerLayer<One<B>> {
    /// Creates a layer with one breaker for all requests: a reference to a `static`, or an `Arc`.
    pub fn new(breaker: B) -> Self {
        Self { breakers: One(breaker), classify: EveryErr }
    }
}

impl<F, K, C: Clock + Clone, S, L: OnStateChange> BreakerLayer<PerKey<F, Arc<KeyedCircuitBreaker<K, C, S, L>>>> {
    /// Creates a layer with a breaker for each key that `key` takes from requests.
    ///
    /// Pass an `Arc` to keep the breakers, for looking at them and for controlling them.
    pub fn by<R>(key: F, breakers: impl Into<Arc<KeyedCircuitBreaker<K, C, S, L>>>) -> Self
    where
        F: Fn(&R) -> K,
        K: Key,
    {
        Self { breakers: PerKey { key, keyed: breakers.into() }, classify: EveryErr }
    }
}

impl<B, V> BreakerLayer<B, V> {
    /// Sets what a result says about the service. Default: [`EveryErr`].
    ///
    /// The closure is cloned for every call, which costs nothing if it captures nothing. It names the service's response
    /// and error.
    pub fn classify<T, E, F>(self, classify: F) -> BreakerLayer<B, F>
    where
        F: Fn(&Result<T, E>) -> Verdict,
    {
        BreakerLayer { breakers: self.breakers, classify }
    }
}

impl<B: Clone, V: Clone, S> tower_layer::Layer<S> for BreakerLayer<B, V> {
    type Service = BreakerService<S, B, V>;

    fn layer(&self, service: S) -> BreakerService<S, B, V> {
        BreakerService::new(service, self.clone())
    }
}

impl<B, V> fmt::Debug for BreakerLayer<B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerLayer").finish_non_exhaustive()
    }
}
