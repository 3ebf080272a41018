//! A layer for every gate.

use crate::side::Stand;
use crate::{GateService, OkOrErr, Plain};
use core::fmt;
use core::time::Duration;
#[cfg(doc)]
use damper_core::gate::PerKey;
use damper_core::gate::{AskCost, Costs, Gate, Waits, WaitsWith};
use damper_core::internal::Patient;
use damper_core::retry::EveryErr;
use damper_core::setting::Setting;
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;

/// Puts services behind a gate: a limiter, a breaker, a throttle, a concurrency limit, or your own.
///
/// | a gate | before services of any request |
/// |---|---|
/// | a breaker, a throttle | `GateLayer::new(&GATE)` of a `static`, or `GateLayer::new(arc)` |
/// | a limiter, a bulkhead, an adaptive limit | `GateLayer::limit(&GATE)`, or `GateLayer::limit(arc)` |
/// | an admission | `GateLayer::new(gate)` with a `Classes` of [`gate`](damper_core::gate), which says the class of each request |
/// | one per key | `GateLayer::new(gate)` or `GateLayer::limit(gate)`, with a [`PerKey`] |
/// | with costs, exempt, in shadow mode, one behind the other, your own | `GateLayer::new(gate)` with a gate of [`gate`](damper_core::gate) |
///
/// The caller gets [`CallError::Refused`](damper_core::CallError::Refused) with the refusal, or
/// [`CallError::Failed`](damper_core::CallError::Failed) with the error of the service. Responses reach the caller unchanged. damper's retries
/// never repeat a refusal.
///
/// Clones, and all services that one makes, share the gate. It is asked in `call`, never in `poll_ready`: a caller that polls for readiness
/// and goes away would keep a permit from others.
///
/// The permit is held until the future of the call has ended, or is dropped. A response whose body is still to come is not in flight any
/// more: for `http::Request`, take a layer of `damper::http`.
///
/// # Order
///
/// Put a breaker around what tries again: a call whose attempts all failed is one failure. Put throttles and limits inside of it, so that
/// they see every attempt and a backoff holds no permit, and a timeout inside of a throttle, which does not count a call that is dropped
/// or panics. For a breaker, a call that panics has failed, and one that is dropped says nothing.
///
/// # Examples
///
/// A breaker and a bulkhead, which decide as one gate:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// use damper::tower::GateLayer;
/// use damper::{BreakerConfig, Bulkhead, CallError, CircuitBreaker};
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// static BREAKER: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT); // 5 failures, 30 s, 1 probe
/// static POOL: Bulkhead = Bulkhead::new(64);
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut database = ServiceBuilder::new()
///     .layer(GateLayer::new((&BREAKER, &POOL)))
///     .service(service_fn(async |query: &'static str| query.parse::<u32>()));
///
/// assert_eq!(database.ready().await.unwrap().call("42").await, Ok(42));
/// BREAKER.force_open();
/// match database.ready().await.unwrap().call("42").await {
///     Err(CallError::Refused(refusal)) => println!("{refusal}"), // circuit open, next probe in 28 s
///     other => panic!("{other:?}"),
/// }
/// # }
/// ```
///
/// A limit of each user's bytes:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// use damper::gate::{Costs, PerKey};
/// use damper::tower::GateLayer;
/// use damper::{KeyedLimiter, Quota};
/// use std::sync::Arc;
///
/// struct Upload {
///     user: u64,
///     bytes: u32,
/// }
///
/// let limits = Arc::new(KeyedLimiter::<u64>::builder(Quota::per_second(1_000_000)).build()?);
/// let gate = PerKey::new(|upload: &Upload| upload.user, limits);
/// let layer = GateLayer::new(Costs::new(gate, |upload: &Upload| upload.bytes));
/// # let _ = layer;
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone)]
pub struct GateLayer<X> {
    side: X,
}

/// A layer before services of any request: with the gate `G`, which reads results by `J`.
pub type PlainLayer<G, J = EveryErr> = GateLayer<Plain<G, J>>;

impl<X: Stand> GateLayer<X> {
    /// Creates a layer of this side, such as a `Client` of `damper::http`.
    pub const fn at(side: X) -> Self {
        Self { side }
    }

    /// Returns the gate, for example to [forecast](damper_core::gate::Ask::forecast) what it would answer.
    pub fn gate(&self) -> &X::Gate {
        self.side.gate()
    }
}

impl<G: Gate> PlainLayer<G> {
    /// Creates a layer with this gate for all requests.
    ///
    /// It reads results as [`EveryErr`] does: every `Err` of the service is a failure for a breaker and a rejection for a throttle, unless it
    /// is a [refusal](damper_core::is_refusal) of a layer of damper inside, or [`classify`](GateLayer::classify) says otherwise. For a
    /// throttle only what overload causes should count, not an answer that says no. For a service whose errors are in boxes, as those of tower's timeouts are, say by
    /// [`reading`](Self::reading) how to read them.
    pub const fn new(gate: G) -> Self {
        GateLayer::reading(gate, EveryErr)
    }
}

impl<G: Gate> PlainLayer<G, OkOrErr> {
    /// Creates a layer with this limit for all requests: of a rate, or of calls in flight.
    ///
    /// It reads results as [`OkOrErr`] does, so the errors of the service may be in boxes. Each call takes a token or a slot. Where there is
    /// none, the call is refused, or [waits](GateLayer::waiting) for one, first come first served. They are taken in `call`: tower's
    /// `ConcurrencyLimit` takes its slots in `poll_ready`, so there a service that is ready and not called keeps others waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
    /// # #[cfg(feature = "tokio")] {
    /// use damper::CallError;
    /// use damper::tower::GateLayer;
    /// use damper::{Quota, RateLimiter};
    /// use std::time::Duration;
    /// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
    ///
    /// static QUERIES: RateLimiter = RateLimiter::new(Quota::per_second(100).burst(1));
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() {
    /// let parse = service_fn(async |query: &'static str| query.parse::<u32>());
    /// let mut refusing = ServiceBuilder::new().layer(GateLayer::limit(&QUERIES)).service(parse);
    /// assert_eq!(refusing.ready().await.unwrap().call("42").await, Ok(42));
    /// let refused = refusing.ready().await.unwrap().call("42").await;
    /// assert!(matches!(refused, Err(CallError::Refused(_))));
    ///
    /// let waiting = GateLayer::limit(&QUERIES).waiting(Duration::from_secs(1));
    /// let mut waiting = ServiceBuilder::new().layer(waiting).service(parse);
    /// assert_eq!(waiting.ready().await.unwrap().call("42").await, Ok(42));
    /// # }
    /// # run(); }
    /// ```
    pub const fn limit(gate: G) -> Self {
        GateLayer::reading(gate, OkOrErr)
    }
}

impl<G, J> PlainLayer<G, J> {
    /// Creates a layer with this gate, which reads results as `classify` does.
    ///
    /// That is a closure, [`EveryErr`] or [`OkOrErr`].
    pub const fn reading(gate: G, classify: J) -> Self {
        Self { side: Plain { gate, classify } }
    }

    /// Sets how the result of a call is read, for gates that learn from it. Default: [`EveryErr`].
    ///
    /// The closure returns an [`Ending`](damper_core::gate::Ending), or a [`Verdict`](damper_core::gate::Verdict). It is cloned for every call,
    /// which costs nothing if it captures nothing. It names the service's response and error.
    ///
    /// # Examples
    ///
    /// A breaker for each shard:
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
    /// use damper::gate::{Ending, PerKey};
    /// use damper::tower::GateLayer;
    /// use damper::{BreakerConfig, KeyedCircuitBreaker};
    /// use std::sync::Arc;
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
    /// let shards = Arc::new(KeyedCircuitBreaker::<u32>::new(BreakerConfig::DEFAULT, 64)?);
    /// let gate = PerKey::new(|query: &Query| query.shard, shards);
    /// let layer = GateLayer::new(gate).classify(|result: &Result<u32, DatabaseError>| match result {
    ///     Ok(_) => Ending::Success,
    ///     Err(DatabaseError::Constraint) => Ending::Declined, // the database works
    ///     Err(DatabaseError::Connection) => Ending::Broken,
    /// });
    /// # let _ = layer;
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub fn classify<T, E, V, F>(self, classify: F) -> PlainLayer<G, F>
    where
        F: Fn(&Result<T, E>) -> V,
    {
        GateLayer::reading(self.side.gate, classify)
    }

    /// Sets the cost of a request, in tokens of a limiter, by a closure. Default: 1.
    ///
    /// A request that costs 0 always passes. One that costs more than the burst is always refused. The cost is not corrected by the response:
    /// for that call [`reserve`](damper_core::RateLimiter::reserve) and settle in a service of your own, or use the rate limit layer of
    /// `damper::http`. Set it before [`waiting`](Self::waiting).
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
    /// use damper::tower::GateLayer;
    /// use damper::{Quota, RateLimiter};
    ///
    /// struct Query {
    ///     rows: u32,
    /// }
    ///
    /// static ROWS: RateLimiter = RateLimiter::new(Quota::per_second(10_000));
    ///
    /// let layer = GateLayer::limit(&ROWS).cost(|query: &Query| query.rows);
    /// # let _ = layer;
    /// ```
    pub fn cost<R, F>(self, cost: F) -> PlainLayer<Costs<G, F>, J>
    where
        F: Fn(&R) -> u32,
        G: AskCost<R>,
    {
        self.map(|gate| Costs::new(gate, cost))
    }

    /// Lets calls wait for their turn by tokio's timer, for at most `longest`. Default: they do not wait.
    ///
    /// A bulkhead has places to wait in if it was built with a [`queue`](damper_core::Bulkhead::queue). A rate limiter gives tokens in advance,
    /// first come first served, and refuses a call that would wait for longer at once. To change `longest` while calls are made, pass a
    /// [`Live`](damper_core::Live).
    ///
    /// The service has to be `Clone`, because the call is made after the wait. If requests have deadlines, set
    /// [`time_left`](GateLayer::time_left).
    #[cfg(feature = "tokio")]
    pub fn waiting(self, longest: impl Into<Setting<Duration>>) -> PlainLayer<Waits<G, TokioSleep>, J>
    where
        G: Patient,
    {
        self.waiting_by(longest, TokioSleep)
    }

    /// Lets calls wait as [`waiting`](Self::waiting) does, by a [`Sleep`] of your own.
    pub fn waiting_by<Z: Sleep>(self, longest: impl Into<Setting<Duration>>, sleep: Z) -> PlainLayer<Waits<G, Z>, J>
    where
        G: Patient,
    {
        self.map(|gate| Waits::new(gate, longest, sleep))
    }

    fn map<H>(self, change: impl FnOnce(G) -> H) -> PlainLayer<H, J> {
        let Plain { gate, classify } = self.side;
        GateLayer::reading(change(gate), classify)
    }
}

impl<G, Z, J> PlainLayer<Waits<G, Z>, J> {
    /// Sets how much time a request has left, beyond which it does not wait. Default: it has no deadline.
    ///
    /// By a closure, or for requests of HTTP by `damper::http::RequestDeadline`: see [`Reads`](damper_core::Reads). A call whose
    /// deadline has passed is refused by a bulkhead even if a slot is free.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
    /// # #[cfg(feature = "tokio")] {
    /// use damper::tower::GateLayer;
    /// use damper::{Deadline, Quota, RateLimiter};
    /// use std::time::Duration;
    ///
    /// struct Query {
    ///     deadline: Deadline,
    /// }
    ///
    /// static QUERIES: RateLimiter = RateLimiter::new(Quota::per_second(100));
    ///
    /// let waiting = GateLayer::limit(&QUERIES).waiting(Duration::from_secs(1));
    /// let layer = waiting.time_left(|query: &Query| Some(query.deadline.remaining()));
    /// # let _ = layer;
    /// # }
    /// ```
    pub fn time_left<F>(self, time_left: F) -> PlainLayer<Waits<G, Z, F>, J> {
        self.map(|gate| gate.time_left(time_left))
    }
}

impl<S, X> tower_layer::Layer<S> for GateLayer<X>
where
    X: Stand,
    <X::Gate as Gate>::Wait: WaitsWith<S>,
{
    type Service = GateService<S, X>;

    fn layer(&self, service: S) -> GateService<S, X> {
        GateService::new(service, self.side.clone())
    }
}

impl<X> fmt::Debug for GateLayer<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateLayer").finish_non_exhaustive()
    }
}
