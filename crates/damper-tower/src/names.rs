//! Constructors of layers, under the names of what stands in them.

use crate::{GateLayer, KeyedLayer, OkOrErr, PlainLayer};
use alloc::sync::Arc;
use damper_core::gate::{Gate, PerKey};
use damper_core::store::{Keyed, Template};

/// Puts services of any request behind circuit breakers.
///
/// A failing service is not called, and the caller gets an error at once.
///
/// Every `Err` of the service is a failure, unless it is a [refusal](damper_core::is_refusal) of a layer of damper inside, or
/// [`classify`](GateLayer::classify) says otherwise. A call that panics has failed, and one that is dropped is no verdict.
///
/// Put it around what tries again: a call whose attempts all failed is one failure. For `http::Request`,
/// `damper::http::CircuitBreakerLayer` knows hosts, statuses and bodies.
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
/// # Ok::<(), damper::OutOfRange>(())
/// ```
///
/// A breaker per key, and what is a failure:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// use damper::gate::Ending;
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
///     match result {
///         Ok(_) => Ending::Success,
///         Err(DatabaseError::Constraint) => Ending::Declined, // the database works
///         Err(DatabaseError::Connection) => Ending::Broken,
///     }
/// });
/// # let _ = layer;
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum BreakerLayer {}

#[expect(clippy::new_ret_no_self, reason = "it names a layer of another type")]
impl BreakerLayer {
    /// Returns a layer with one breaker for all requests: a reference to a `static`, or an `Arc`.
    pub fn new<G: Gate>(breaker: G) -> PlainLayer<G> {
        GateLayer::new(breaker)
    }

    /// Returns a layer with a breaker for each key that `key` takes from requests.
    ///
    /// Pass an `Arc` to keep the breakers, for looking at them and for controlling them.
    pub fn by<R, F, K, T, S>(key: F, breakers: impl Into<Arc<Keyed<K, T, S>>>) -> KeyedLayer<F, K, T, S>
    where
        F: Fn(&R) -> K,
        T: Template<K>,
    {
        GateLayer::by(key, breakers)
    }
}

/// Puts services of any request behind adaptive throttles.
///
/// They refuse most calls that an overloaded service would reject.
///
/// Every `Err` of the service is a rejection, unless it is a [refusal](damper_core::is_refusal) of a layer of damper inside, or
/// [`classify`](GateLayer::classify) says otherwise: only what overload causes should count, not an answer that says no.
///
/// Put it inside of what tries again, so that it counts every attempt, and put a timeout inside of it: a call that is dropped or panics is
/// not counted. For `http::Request`, `damper::http::ThrottleLayer` knows hosts, statuses, bodies and deadlines.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// use damper::CallError;
/// use damper::throttle::AdaptiveThrottle;
/// use damper::tower::ThrottleLayer;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// static DATABASE: AdaptiveThrottle = AdaptiveThrottle::new();
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut database = ServiceBuilder::new()
///     .layer(ThrottleLayer::new(&DATABASE))
///     .service(service_fn(async |query: &'static str| query.parse::<u32>()));
///
/// match database.ready().await.unwrap().call("42").await {
///     Ok(number) => assert_eq!(number, 42),
///     Err(CallError::Refused(throttled)) => println!("{throttled}"), // throttled, 87 % of the calls are not sent
///     Err(CallError::Failed(error)) => println!("{error}"),
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum ThrottleLayer {}

#[expect(clippy::new_ret_no_self, reason = "it names a layer of another type")]
impl ThrottleLayer {
    /// Returns a layer with one throttle for all requests: a reference to a `static`, or an `Arc`.
    pub fn new<G: Gate>(throttle: G) -> PlainLayer<G> {
        GateLayer::new(throttle)
    }

    /// Returns a layer with a throttle for each key that `key` takes from requests.
    ///
    /// Pass an `Arc` to keep the throttles, for looking at them.
    pub fn by<R, F, K, T, S>(key: F, throttles: impl Into<Arc<Keyed<K, T, S>>>) -> KeyedLayer<F, K, T, S>
    where
        F: Fn(&R) -> K,
        T: Template<K>,
    {
        GateLayer::by(key, throttles)
    }
}

/// Puts services of any request behind a limiter: what a client sends at most.
///
/// Each call takes a token, or its [cost](GateLayer::cost). Where there is none, the call is refused, or [waits](GateLayer::waiting) for one,
/// first come first served.
///
/// Put it inside of what tries again, so that each try takes a token. Its refusal is not retried by damper's retries: the
/// limiter has said that there is nothing to send with.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// # #[cfg(feature = "tokio")] {
/// use damper::CallError;
/// use damper::tower::LimitLayer;
/// use damper::{Quota, RateLimiter};
/// use std::time::Duration;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// static QUERIES: RateLimiter = RateLimiter::new(Quota::per_second(100).burst(1));
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn run() {
/// let parse = service_fn(async |query: &'static str| query.parse::<u32>());
/// let mut refusing = ServiceBuilder::new().layer(LimitLayer::new(&QUERIES)).service(parse);
/// assert_eq!(refusing.ready().await.unwrap().call("42").await, Ok(42));
/// let refused = refusing.ready().await.unwrap().call("42").await;
/// assert!(matches!(refused, Err(CallError::Refused(_))));
///
/// let waiting = LimitLayer::new(&QUERIES).waiting(Duration::from_secs(1));
/// let mut waiting = ServiceBuilder::new().layer(waiting).service(parse);
/// assert_eq!(waiting.ready().await.unwrap().call("42").await, Ok(42));
/// # }
/// # run(); }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum LimitLayer {}

#[expect(clippy::new_ret_no_self, reason = "it names a layer of another type")]
impl LimitLayer {
    /// Returns a layer with one limiter for all requests: a reference to a `static`, or an `Arc`.
    pub fn new<G: Gate>(limiter: G) -> PlainLayer<G, OkOrErr> {
        GateLayer::reading(limiter, OkOrErr)
    }
}

/// Puts services of any request behind bulkheads: how many calls a client has in flight at most.
///
/// Each call takes a permit. Where there is none, the call is refused, or [waits](GateLayer::waiting) for one. The bulkhead may be an
/// [`AdaptiveLimit`](damper_core::AdaptiveLimit) too, which learns from the latency of calls whose result is `Ok`.
///
/// Put it inside of what tries again, so that each try takes a permit and a backoff takes none. Permits are taken in `call`: tower's
/// `ConcurrencyLimit` takes its own in `poll_ready`, so there a service that is ready and not called keeps others waiting.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// # #[cfg(feature = "tokio")] {
/// use damper::tower::BulkheadLayer;
/// use damper::{Bulkhead, CallError};
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn run() {
/// let queries = Arc::new(Bulkhead::new(1).queue(16)); // one in flight, and 16 that wait
/// let parse = service_fn(async |query: &'static str| query.parse::<u32>());
/// let mut refusing = ServiceBuilder::new().layer(BulkheadLayer::new(Arc::clone(&queries))).service(parse);
/// let first = refusing.ready().await.unwrap().call("42");
/// let second = refusing.ready().await.unwrap().call("43");
/// assert!(matches!(second.await, Err(CallError::Refused(_))));
///
/// let waiting = BulkheadLayer::new(queries).waiting(Duration::from_secs(1));
/// let mut waiting = ServiceBuilder::new().layer(waiting).service(parse);
/// let third = waiting.ready().await.unwrap().call("44");
/// assert_eq!(tokio::join!(first, third), (Ok(42), Ok(44)));
/// # }
/// # run(); }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum BulkheadLayer {}

#[expect(clippy::new_ret_no_self, reason = "it names a layer of another type")]
impl BulkheadLayer {
    /// Returns a layer with one bulkhead for all requests: a reference to a `static`, or an `Arc`.
    pub fn new<G: Gate>(bulkhead: G) -> PlainLayer<G, OkOrErr> {
        GateLayer::reading(bulkhead, OkOrErr)
    }

    /// Returns a layer with a bulkhead for each key that `key` takes from requests.
    ///
    /// Pass an `Arc` to keep the bulkheads, for looking at them.
    pub fn by<R, F, K, T, S>(key: F, bulkheads: impl Into<Arc<Keyed<K, T, S>>>) -> KeyedLayer<F, K, T, S, OkOrErr>
    where
        F: Fn(&R) -> K,
        T: Template<K>,
    {
        GateLayer::reading(PerKey::new(key, bulkheads.into()), OkOrErr)
    }
}
