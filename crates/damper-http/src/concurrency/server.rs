//! The layer of a server: its limit, and its settings.

use super::ConcurrencyService;
use super::built_limits::{adaptive_limit, adaptive_per_key, bulkhead, bulkhead_per_key};
use super::server_settings::{Exemptions, ServerSettings, SharedSettings};
use crate::Head;
use crate::completion::{EveryStatus, MinBudget, ResponseHead, WhileBodyLasts};
use crate::deadline::RequestDeadline;
use crate::rate_limit::refusal_body::RefusalBody;
use crate::telemetry::{Kind, Telemetry};
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use core::hash::Hash;
use core::time::Duration;
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, KeyedAdaptiveLimit, KeyedBulkhead, LimitBounds};
use damper_core::gate::Forecast;
#[cfg(doc)]
use damper_core::gate::Refusal;
use damper_core::gate::WaitsWith;
use damper_core::gate::{Ask, Exempt, Gate, PerKey, Shared, Verdict, Waits};
use damper_core::internal::Patient;
use damper_core::setting::Setting;
use damper_core::shadow::{ShadowReport, Shadowed};
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_tower::GateService;

/// Limits the calls that a server has in flight.
///
/// A request over the limit gets `503 Service Unavailable` at once, or after a [wait](Self::waiting).
///
/// The refusal carries `Retry-After` (whole [seconds](Self::retry_after), rounded up), and a line of text or the [body](Self::body)
/// that you choose. The request's body is not read, and the service is not called. A gRPC request gets the
/// status `UNAVAILABLE`, with the wait as a `google.rpc.RetryInfo`. A limit of yours may refuse with another
/// [kind](damper_core::gate::RefusalKind), which gives the status.
///
/// | for | write |
/// |---|---|
/// | a limit that you know, such as that of a pool of connections | `ConcurrencyLayer::bulkhead(64)` |
/// | a limit that follows the latency of the service | `ConcurrencyLayer::adaptive(LimitBounds::DEFAULT)` |
/// | one limit per tenant | `ConcurrencyLayer::bulkhead_by(\|head\| tenant_of(head), 4)` |
/// | one that follows the latency of each route | `ConcurrencyLayer::adaptive_by(\|head\| route_of(head), LimitBounds::DEFAULT)` |
/// | a queue of another length, newest first; another clock or rule | [`new`](Self::new), with a limit of yours |
///
/// A call is in flight until its response has *ended*, trailers included: until the server took the last data of the body, or the client went away, or
/// the handler panicked. A connection that was upgraded, to a WebSocket say, is not in flight any more.
///
/// A client that does not read its response keeps its slot until the [`Deadline`](damper_core::Deadline) of the request passes. Then the slot is
/// free and the handler's body is dropped, whether or not the client reads, with the feature `tokio` and on a runtime of tokio. A
/// `stall_limit` does that earlier, and for requests without a deadline. So the body of the service has to be `Send + 'static`.
///
/// An [adaptive](Self::adaptive) limit measures the latency of a call until its response *begins*. A client that is slow to read keeps its
/// slot, and does not count as a slow server.
///
/// Put it inside of the deadline and the rate limits, and outside of the handler: a call that is ended by its deadline frees its slot, and
/// counts as a sign of overload. Clones, and all services that one makes, share the limit. A setter changes this layer only. Permits are
/// taken in `call`, never in `poll_ready`. Where requests wait, the service has to be `Clone`.
///
/// # Examples
///
/// With axum:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(all(feature = "axum", feature = "tokio"))] {
/// use axum::{Router, routing::get};
/// use damper::concurrency::LimitBounds;
/// use damper::http::{ConcurrencyLayer, DeadlineLayer};
/// use std::time::Duration;
///
/// # async fn home() {}
/// # async fn report() {}
/// let reports = ConcurrencyLayer::bulkhead(4).waiting(Duration::from_millis(200));
/// let all = ConcurrencyLayer::adaptive(LimitBounds::DEFAULT).exempt(|head| head.uri.path() == "/healthz");
/// let app: Router = Router::new()
///     .route("/report", get(report).layer(reports))
///     .route("/", get(home))
///     .layer(all)
///     .layer(DeadlineLayer::new(Duration::from_secs(2))); // outside
/// # let _ = app;
/// # }
/// ```
pub struct ConcurrencyLayer<L: Gate, V = EveryStatus> {
    pub(super) shared: Arc<SharedSettings<L>>,
    pub(super) completion: WhileBodyLasts<V>,
}

impl ConcurrencyLayer<Arc<Bulkhead>> {
    /// Creates a layer with one limit for all requests. A limit of 0 refuses all.
    ///
    /// Its queue, for requests that [wait](Self::waiting), has as many places as the limit has slots, but at most 128.
    #[must_use]
    pub fn bulkhead(limit: u32) -> Self {
        Self::new(bulkhead(limit))
    }
}

impl ConcurrencyLayer<Arc<AdaptiveLimit>> {
    /// Creates a layer with one limit for all requests, which follows their latency within these bounds.
    ///
    /// The head of a stream comes at once, so its latency says little beside that of other calls: give streaming methods a limit of their
    /// own, or [exempt](Self::exempt) them.
    ///
    /// Its queue, for requests that [wait](Self::waiting), has 128 places.
    #[must_use]
    pub fn adaptive(bounds: LimitBounds) -> Self {
        Self::new(adaptive_limit(bounds))
    }
}

impl<F: Fn(&Head<'_>) -> K, K: Hash + Eq + Clone> ConcurrencyLayer<PerKey<F, Arc<KeyedBulkhead<K>>>> {
    /// Creates a layer with a limit for each key that a closure returns.
    ///
    /// It has limits for the 1024 keys that were used last. All requests for which an `Option` is `None` share a
    /// limit.
    ///
    /// The queue of a key takes 52 bytes a place, 3.3 KB for a limit of 64, though nothing waits in it without `waiting`. A key in use is not
    /// evicted: see [`KeyedBulkhead`]. A client that chooses its key gets a whole limit for each, so put a limit for all
    /// requests outside. The queues are as those of [`bulkhead`](ConcurrencyLayer::bulkhead).
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::concurrency::KeyedBulkhead;
    /// use damper::gate::PerKey;
    /// use damper::http::{ConcurrencyLayer, Head};
    /// use std::sync::Arc;
    ///
    /// #[derive(Clone, Hash, PartialEq, Eq)]
    /// struct Tenant(u64);
    ///
    /// fn tenant_of(head: &Head<'_>) -> Option<Tenant> {
    ///     head.extensions.get().cloned()
    /// }
    ///
    /// let layer = ConcurrencyLayer::bulkhead_by(tenant_of, 4);
    ///
    /// // The same with more keys and without a queue.
    /// let tenants = Arc::new(KeyedBulkhead::new(4, 100_000)?);
    /// let many = ConcurrencyLayer::new(PerKey::new(tenant_of, tenants));
    /// # let _ = (layer, many);
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub fn bulkhead_by(key: F, limit: u32) -> Self {
        Self::new(PerKey::new(key, bulkhead_per_key(limit)))
    }
}

impl<F: Fn(&Head<'_>) -> K, K: Hash + Eq + Clone> ConcurrencyLayer<PerKey<F, Arc<KeyedAdaptiveLimit<K>>>> {
    /// Creates a layer with an adaptive limit for each key that a closure returns.
    ///
    /// The layer keeps the 1024 keys that were used last. Use it for routes whose latencies differ, which must not
    /// share one limit.
    ///
    /// The notes on the keys of [`bulkhead_by`](ConcurrencyLayer::bulkhead_by) hold here too. The queues are as that of
    /// [`adaptive`](ConcurrencyLayer::adaptive).
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::concurrency::LimitBounds;
    /// use damper::http::{ConcurrencyLayer, Head};
    ///
    /// #[derive(Clone, Hash, PartialEq, Eq)]
    /// enum Route {
    ///     Search,
    ///     Other,
    /// }
    ///
    /// fn route_of(head: &Head<'_>) -> Route {
    ///     if head.uri.path() == "/search" { Route::Search } else { Route::Other }
    /// }
    ///
    /// let layer = ConcurrencyLayer::adaptive_by(route_of, LimitBounds::DEFAULT);
    /// # let _ = layer;
    /// ```
    pub fn adaptive_by(key: F, bounds: LimitBounds) -> Self {
        Self::new(PerKey::new(key, adaptive_per_key(bounds)))
    }
}

impl<L: for<'a> Ask<Head<'a>>> ConcurrencyLayer<L> {
    /// Creates a layer from an existing limit.
    ///
    /// It is a [`Bulkhead`] or an [`AdaptiveLimit`] in a `static` or an `Arc`, which you keep to inspect and to change it, or another
    /// [gate](damper_core::gate), such as a [`PerKey`] or one of your own, that is asked about a [`Head`]. The `Deadline` of a request, if it has
    /// one, is among the extensions of its head.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Bulkhead;
    /// use damper::http::ConcurrencyLayer;
    /// use std::sync::Arc;
    ///
    /// static REPORTS: Bulkhead = Bulkhead::new(4);
    /// let reports = ConcurrencyLayer::new(&REPORTS);
    ///
    /// let pool = Arc::new(Bulkhead::new(64).queue(16).newest_first());
    /// let layer = ConcurrencyLayer::new(Arc::clone(&pool));
    /// pool.set_limit(32);
    /// # let _ = (reports, layer);
    /// ```
    pub fn new(limit: L) -> Self {
        Self { shared: Arc::new(SharedSettings::new(limit)), completion: WhileBodyLasts::new() }
    }
}

impl<L: Gate + for<'a> Ask<Head<'a>>, V> ConcurrencyLayer<L, V> {
    /// Returns what the limit would answer to a request now, and changes nothing. An exempt request passes.
    pub(crate) fn forecast(&self, head: &Head<'_>) -> Forecast<L::Refusal> {
        self.shared.gate.forecast(head)
    }
}

impl<L: Patient + Clone, V> ConcurrencyLayer<L, V> {
    /// Makes requests wait for a permit. Default: a request without a free slot is refused at once.
    ///
    /// They wait for `longest` at most, and no longer than the [`Deadline`](damper_core::Deadline) in a request's
    /// extensions leaves. To change `longest` while calls are made, pass a [`Live`](damper_core::Live).
    ///
    /// They wait in the limit's queue, in their order, by tokio's timer. A request that finds the queue full is refused at once. A future that
    /// is dropped gives up its place.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn waiting(
        self,
        longest: impl Into<Setting<Duration>>,
    ) -> ConcurrencyLayer<Waits<L, TokioSleep, RequestDeadline>, V> {
        self.waiting_by(longest, TokioSleep)
    }

    /// Makes requests wait as `waiting` does (feature `tokio`), sleeping by `sleep`, a [`Sleep`](damper_core::time::Sleep).
    #[must_use]
    pub fn waiting_by<S: Sleep>(
        self,
        longest: impl Into<Setting<Duration>>,
        sleep: S,
    ) -> ConcurrencyLayer<Waits<L, S, RequestDeadline>, V> {
        self.map(|limit| Waits::new(limit, longest, sleep).time_left(RequestDeadline))
    }
}

impl<L: Gate, V> ConcurrencyLayer<L, V> {
    /// Exempts the requests for which the predicate is true, such as health checks. Default: none.
    ///
    /// They take no permit.
    #[must_use]
    pub fn exempt(mut self, predicate: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        let shared = Arc::make_mut(&mut self.shared);
        shared.gate = Exempt::new(shared.gate.gate().clone(), Exemptions::of(predicate));
        self
    }

    /// Sets the time after which a refused client may come back, unless the refusal itself says it.
    ///
    /// Default: one second.
    ///
    /// It is rounded up to whole seconds, at least one, except in gRPC. All refused clients get the same, so those of a burst come back
    /// together. To spread them, implement [`Refusal::retry_after`] for a refusal of your own.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        self.with(|settings| settings.retry_after = wait)
    }

    /// Sets the body of a refusal: its content type, and its bytes. Default: a line of text.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::ConcurrencyLayer;
    ///
    /// let layer = ConcurrencyLayer::bulkhead(64)
    ///     .body(|_, full| ("application/json", format!(r#"{{"error": "{full}"}}"#)));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn body<T: Into<Bytes>>(
        self,
        body: impl Fn(&Head<'_>, &L::Refusal) -> (&'static str, T) + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.body = RefusalBody::custom(body))
    }

    /// Sets the body of a refusal to a problem document (RFC 9457) in JSON.
    #[must_use]
    pub fn problem_json(self) -> Self {
        self.with(|settings| settings.body = RefusalBody::Problem)
    }

    /// Sets the time that a call has to be given before its end by the deadline is a sign of overload.
    ///
    /// Default: the [usual latency](damper_core::gate::Permit::usual_latency) of the limit where it is known, else 0.9 s.
    ///
    /// A client that leaves its calls 1 ms must not shrink the limit of all others. Where the [`Deadline`](damper_core::Deadline) in a
    /// request's extensions leaves less when the call gets its permit, nothing is recorded of a call that is dropped after its deadline,
    /// answers 504 or `DEADLINE_EXCEEDED`, or fails once the deadline has passed.
    #[must_use]
    pub fn min_budget(self, min_budget: impl Into<MinBudget>) -> Self {
        self.with(|settings| settings.min_budget = min_budget.into())
    }

    /// Sets the longest time for which a frame of a response may wait until its client takes it.
    ///
    /// Default: none here, and [`STALL_LIMIT`](crate::STALL_LIMIT), 30 s, in [`server_stack`](crate::server_stack).
    ///
    /// A server asks a response for its next frame once it could write the last one, so a client that reads nothing would keep its slot for
    /// as long as its connection lives. After this time the body of the service is dropped, which frees the slot, and a client that reads on
    /// then finds its connection, or its stream of HTTP/2, broken off by a [`ReaderStalled`](crate::ReaderStalled). Time in which the
    /// service has no data does not count, so event streams may be silent for as long as they like.
    ///
    /// A client has to take one frame in this time, beyond what the server's buffers hold: frames of 64 KiB in 30 s are 2 KiB/s. It needs a
    /// runtime of tokio whose timer is enabled. A body is dropped at most some milliseconds late.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::ConcurrencyLayer;
    /// use std::time::Duration;
    ///
    /// let layer = ConcurrencyLayer::bulkhead(64).stall_limit(Duration::from_secs(10));
    /// # let _ = layer;
    /// ```
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn stall_limit(self, longest: Duration) -> Self {
        self.with(|settings| settings.stall_limit = Some(longest))
    }

    /// Sets the name of the limit in logs and metrics. Default: `default`.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.with(|settings| settings.telemetry = Telemetry::new(Kind::ServerConcurrency, name))
    }

    /// Lets a candidate decide beside the limit, on the same calls, and changes nothing. Default: none.
    ///
    /// The candidate holds a slot of its own while a call is in flight that it would have let pass, and learns of the same outcomes. A call
    /// that waited in force holds the candidate's slot meanwhile, and teaches it no latency. A call that was refused in force is counted, and
    /// holds no slot. A call that would have to wait at the candidate is not counted: give it no `waiting`, and that call is one of its
    /// refusals.
    ///
    /// [`shadow_report`](ConcurrencyLayer::shadow_report) counts where the two disagree, and an exporter of metrics reads it.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Bulkhead;
    /// use damper::http::ConcurrencyLayer;
    /// use std::sync::Arc;
    ///
    /// let layer = ConcurrencyLayer::bulkhead(64).shadow(Arc::new(Bulkhead::new(32)));
    /// // A day later:
    /// println!("{} calls more would have been refused", layer.shadow_report().only_by_candidate);
    /// ```
    #[must_use]
    pub fn shadow<S: Gate>(self, candidate: S) -> ConcurrencyLayer<Shadowed<L, S>, V>
    where
        L: Clone,
    {
        self.map(|limit| Shadowed::new(limit, candidate))
    }

    /// The limit.
    pub(super) fn limit_in_force(&self) -> &L {
        self.shared.gate.gate()
    }

    /// Changes the settings that a limit has itself, for this layer.
    ///
    /// Clones of the limit have to share what they count.
    pub(super) fn with_limit(mut self, set: impl FnOnce(&mut L)) -> Self
    where
        L: Clone,
    {
        let shared = Arc::make_mut(&mut self.shared);
        let mut limit = L::clone(shared.gate.gate());
        set(&mut limit);
        shared.gate = shared.gate.with_gate(Shared::new(limit));
        self
    }

    /// Puts another limit, with the same refusals, into the place of this one.
    fn map<M: Gate<Refusal = L::Refusal>>(self, change: impl FnOnce(L) -> M) -> ConcurrencyLayer<M, V>
    where
        L: Clone,
    {
        let SharedSettings { gate, settings } = Arc::unwrap_or_clone(self.shared);
        let gate = gate.with_gate(Shared::new(change(L::clone(gate.gate()))));
        ConcurrencyLayer { shared: Arc::new(SharedSettings { gate, settings }), completion: self.completion }
    }

    /// Changes a setting of this layer. Earlier clones keep theirs, and all share the limit.
    fn with(mut self, set: impl FnOnce(&mut ServerSettings<L::Refusal>)) -> Self {
        set(&mut Arc::make_mut(&mut self.shared).settings);
        self
    }
}

impl<L: Gate, V> ConcurrencyLayer<L, V> {
    /// Sets how a call ended, by its response, or by the error in its place. Default: [`EveryStatus`].
    ///
    /// The table of [`Ending`](damper_core::gate::Ending) has what an [`AdaptiveLimit`] makes of that: 503, 504 and timeouts are signs of overload,
    /// and the latency of successes counts as that of the server's work. A 429 and `RESOURCE_EXHAUSTED` are about one client's quota
    /// or one message's size, and a server sends them in no time. If they were signs of overload, one client beyond its quota would take the
    /// limit from all others. The same holds for a 404 as a success: calls that a client makes fail at will would make the server look fast.
    /// A server that refuses by 429 because it is overloaded needs a closure that says so. With the feature `tokio`, the `Elapsed` of tower's
    /// timeouts is a timeout. Without it, this crate does not know the type, and takes it as an error like any other.
    ///
    /// A call that ends by its deadline is a sign of overload only if that left it as long as a call [usually takes](Self::min_budget).
    ///
    /// The closure is cloned for every call, which costs nothing if it captures nothing. It names the service's error. Only limits that learn
    /// from it ask it. In trailers the gRPC statuses of overload count, whatever classifies the heads.
    ///
    /// # Examples
    ///
    /// Cached pages say nothing about the database, and a timeout of tower's does:
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::concurrency::LimitBounds;
    /// use damper::gate::{Ending, Verdict};
    /// use damper::http::{ConcurrencyLayer, EveryStatus, ResponseHead};
    /// # mod tower { pub mod timeout { pub mod error {
    /// #     #[derive(Debug)] pub struct Elapsed;
    /// # } } }
    /// use tower::timeout::error::Elapsed;
    ///
    /// type BoxError = Box<dyn std::error::Error + Send + Sync>;
    ///
    /// let layer = ConcurrencyLayer::adaptive(LimitBounds::DEFAULT).classify(
    ///     |response: Result<&ResponseHead, &BoxError>| match response {
    ///         Ok(head) if head.headers.contains_key("x-cache-hit") => Verdict::of(Ending::NotSent),
    ///         Err(error) if (**error).is::<Elapsed>() => Verdict::of(Ending::TimedOut),
    ///         other => EveryStatus::judge_boxed(other),
    ///     },
    /// );
    /// # let _ = layer;
    /// # impl std::fmt::Display for Elapsed { fn fmt(&self, _: &mut std::fmt::Formatter) -> std::fmt::Result { Ok(()) } }
    /// # impl std::error::Error for Elapsed {}
    /// ```
    #[must_use]
    pub fn classify<E, R, F>(self, classify: F) -> ConcurrencyLayer<L, F>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> R,
        R: Into<Verdict>,
    {
        ConcurrencyLayer { shared: self.shared, completion: WhileBodyLasts::by(classify) }
    }
}

impl<L: Gate, S: Gate, V> ConcurrencyLayer<Shadowed<L, S>, V> {
    /// Returns the refusals of the limit and of the [candidate](ConcurrencyLayer::shadow) beside it.
    #[must_use]
    pub fn shadow_report(&self) -> ShadowReport {
        self.limit_in_force().report()
    }
}

/// The limit that the layer asks, with the label `side`.
#[cfg(feature = "metrics")]
impl<L: Gate + damper_metrics::Source, V> damper_metrics::Source for ConcurrencyLayer<L, V> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.limit_in_force().read(&self.shared.settings.telemetry.of_side(readings));
    }
}

#[cfg(feature = "metrics")]
impl<L: Gate + damper_metrics::Source, V> damper_metrics::NamedSource for ConcurrencyLayer<L, V> {
    fn name(&self) -> &str {
        self.shared.settings.telemetry.name()
    }
}

impl<L: Gate, V: Clone> ConcurrencyLayer<L, V> {
    /// Puts a service behind the limit.
    pub fn layer<T>(&self, service: T) -> ConcurrencyService<T, L, V> {
        GateService::new(service, self.clone())
    }
}

impl<L: Gate<Wait: WaitsWith<T>>, V: Clone, T> tower_layer::Layer<T> for ConcurrencyLayer<L, V> {
    type Service = ConcurrencyService<T, L, V>;

    fn layer(&self, service: T) -> ConcurrencyService<T, L, V> {
        self.layer(service)
    }
}

/// Clones share the limit.
impl<L: Gate, V: Clone> Clone for ConcurrencyLayer<L, V> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), completion: self.completion.clone() }
    }
}

impl<L: Gate + fmt::Debug, V> fmt::Debug for ConcurrencyLayer<L, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrencyLayer").field("limit", self.limit_in_force()).finish_non_exhaustive()
    }
}
