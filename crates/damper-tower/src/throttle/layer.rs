//! Which throttle, and what is a rejection.

use super::{SharedThrottle, ThrottleService};
use crate::{EveryErr, Key, One, PerKey};
use alloc::sync::Arc;
use core::fmt;
use damper_core::breaker::Verdict;
use damper_core::throttle::KeyedThrottle;
use damper_core::time::Clock;

/// Puts services of any request behind adaptive throttles.
///
/// The layer refuses most calls that an overloaded service would reject.
///
/// Every `Err` of the service is a rejection, unless it is a [refusal](damper_core::is_refusal) of a layer of damper inside,
/// or [`classify`](Self::classify) says otherwise: only what overload causes should count, not an answer that says no. The caller
/// gets [`CallError::Failed`](damper_core::CallError) with it, or
/// [`CallError::Refused`](damper_core::CallError) where the call was not sent. Responses reach the caller
/// unchanged.
///
/// Clones, and all services that one makes, share the throttles. A throttle decides in `call`, never in `poll_ready`.
///
/// Put it inside of what tries again, so that it counts every attempt, and put a timeout inside of it: a call that is dropped is
/// not counted.
///
/// For `http::Request`, `damper::http::ThrottleLayer` knows hosts, statuses, bodies and deadlines.
///
/// # Examples
///
/// One throttle, before a client of a database:
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
///
/// A throttle per key, and what is a rejection:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// use damper::breaker::Verdict;
/// use damper::throttle::KeyedThrottle;
/// use damper::tower::ThrottleLayer;
///
/// struct Query {
///     shard: u32,
/// }
///
/// enum DatabaseError {
///     Constraint,
///     TooBusy,
/// }
///
/// let shards = KeyedThrottle::new(64)?;
/// let layer = ThrottleLayer::by(|query: &Query| query.shard, shards).classify(|result: &Result<u32, DatabaseError>| {
///     Verdict::failure_if(matches!(result, Err(DatabaseError::TooBusy)))
/// });
/// # let _ = (layer, DatabaseError::Constraint);
/// # Ok::<(), damper::CapacityError>(())
/// ```
#[derive(Clone)]
pub struct ThrottleLayer<T, V = EveryErr> {
    pub(super) throttles: T,
    pub(super) classify: V,
}

impl<T: SharedThrottle> ThrottleLayer<One<T>> {
    /// Creates a layer with one throttle for all requests: a reference to a `static`, or an `Arc`.
    pub fn new(throttle: T) -> Self {
        Self { throttles: One(throttle), classify: EveryErr }
    }
}

impl<F, K: Key, C: Clock + Clone, S> ThrottleLayer<PerKey<F, Arc<KeyedThrottle<K, C, S>>>> {
    /// Creates a layer with a throttle for each key that `key` takes from requests.
    ///
    /// Pass an `Arc` to keep the throttles, for looking at them.
    pub fn by<R>(key: F, throttles: impl Into<Arc<KeyedThrottle<K, C, S>>>) -> Self
    where
        F: Fn(&R) -> K,
    {
        Self { throttles: PerKey { key, keyed: throttles.into() }, classify: EveryErr }
    }
}

impl<T, V> ThrottleLayer<T, V> {
    /// Sets the verdict on a result. Default: [`EveryErr`].
    ///
    /// A [failure](Verdict::Failure) is a rejection, and a success is a call that the service accepted.
    ///
    /// The closure is cloned for every call, which costs nothing if it captures nothing. It names the service's response
    /// and error.
    pub fn classify<A, E, F>(self, classify: F) -> ThrottleLayer<T, F>
    where
        F: Fn(&Result<A, E>) -> Verdict,
    {
        ThrottleLayer { throttles: self.throttles, classify }
    }
}

impl<T: Clone, V: Clone, S> tower_layer::Layer<S> for ThrottleLayer<T, V> {
    type Service = ThrottleService<S, T, V>;

    fn layer(&self, service: S) -> ThrottleService<S, T, V> {
        ThrottleService::new(service, self.clone())
    }
}

impl<T, V> fmt::Debug for ThrottleLayer<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleLayer").finish_non_exhaustive()
    }
}
