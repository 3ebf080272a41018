//! The layer of a client.

use super::built_limits::{adaptive_limit, adaptive_per_key, bulkhead, bulkhead_per_key};
use super::{
    Answer, Bulkheads, ClassifyLoad, ConcurrencyLimit, ConcurrencyPermit, ConcurrencyService, LoadSigns,
    OverloadInTrailers, PermitObserver, PermitOf, ShadowedLimit, Side, Waiting,
};
use crate::Head;
use crate::completion::{ObservedBody, ResponseHead};
use crate::telemetry::ConcurrencyTelemetry;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use damper_core::CallError;
use damper_core::concurrency::{
    AdaptiveLimit, Bulkhead, BulkheadPermit, KeyedAdaptiveLimit, KeyedBulkhead, LimitBounds, Outcome,
};
use damper_core::shadow::ShadowReport;
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use http::Response;

/// Limits the calls that a client has in flight.
///
/// A call over the limit gets an error at once, or after a [wait](Self::waiting), and is not made.
///
/// The error is a [`CallError`], in which [`BulkheadFull::find_in`](damper_core::BulkheadFull::find_in) finds the refusal, whatever it is
/// wrapped in. For gRPC, put the limit into a stack (`client_stack`) with the protocol `damper::tonic::Grpc`: there a generated client
/// gets the refusal as the status `UNAVAILABLE`.
///
/// | for | write |
/// |---|---|
/// | a limit for each host: a host that hangs takes no slots from the others | `ClientConcurrencyLayer::bulkhead_per_host(64)` |
/// | one service | `ClientConcurrencyLayer::bulkhead(64)` |
/// | a service whose capacity is unknown, or changes | `ClientConcurrencyLayer::adaptive(LimitBounds::DEFAULT)` |
/// | hosts whose capacities are unknown | `ClientConcurrencyLayer::adaptive_per_host(LimitBounds::DEFAULT)` |
/// | a queue of another length, newest first; another clock or rule | [`new`](Self::new), with a limit of yours |
///
/// A call is in flight until its response has *ended*, trailers included: until the body was read or dropped. An
/// [adaptive](Self::adaptive) limit measures the latency of a call until its response *begins*.
///
/// Put it inside of retries, so that a call that waits for its next attempt holds no slot, and outside of the timeout of an attempt.
/// Clones, and all services that one makes, share the limit. Permits are taken in `call`, never in `poll_ready`. The service has to be
/// `Clone`, with and without [`waiting`](Self::waiting).
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(all(feature = "tower", feature = "hyper", feature = "tokio"))] {
/// use damper::CallError;
/// use damper::http::ClientConcurrencyLayer;
/// use http_body_util::Empty;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use std::time::Duration;
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let mut client = ServiceBuilder::new()
///     .layer(ClientConcurrencyLayer::bulkhead_per_host(64).waiting(Duration::from_millis(100)))
///     .service(Client::builder(TokioExecutor::new()).build_http());
///
/// let request = http::Request::get("http://localhost/").body(Empty::<bytes::Bytes>::new())?;
/// match client.ready().await?.call(request).await {
///     Ok(response) => println!("{}", response.status()),
///     Err(CallError::Refused(full)) => println!("{full}"), // too many calls in flight, limit 64, no slot in time
///     Err(CallError::Failed(error)) => println!("{error}"),
/// }
/// # Ok(())
/// # }
/// # }
/// ```
pub struct ClientConcurrencyLayer<L, V = LoadSigns> {
    shared: Arc<Shared<L>>,
    classify: V,
}

/// The limit and the settings, in one `Arc`, because a service is cloned for each request.
struct Shared<L> {
    limit: Arc<L>,
    settings: ClientSettings,
}

/// The settings that all services of a layer share.
#[derive(Clone)]
struct ClientSettings {
    /// The time a call must be given before its end by the deadline is a sign of overload, if that was set.
    min_budget: Option<Duration>,
    telemetry: ConcurrencyTelemetry,
}

impl ClientConcurrencyLayer<Arc<Bulkhead>> {
    /// Creates a layer with one limit for all calls.
    ///
    /// Its queue, for calls that [wait](Self::waiting), has as many places as the limit has slots, but at most 128.
    #[must_use]
    pub fn bulkhead(limit: u32) -> Self {
        Self::new(bulkhead(limit))
    }
}

impl ClientConcurrencyLayer<Arc<KeyedBulkhead<String>>> {
    /// Creates a layer with a limit for each host and port, for the 1024 hosts that were called last.
    ///
    /// The host is that of the target, or else of the header `Host`, and has one limit however it is spelled. A host in use is not evicted:
    /// see [`KeyedBulkhead`]. The queues are as those of [`bulkhead`](ClientConcurrencyLayer::bulkhead).
    #[must_use]
    pub fn bulkhead_per_host(limit: u32) -> Self {
        Self::new(bulkhead_per_key(limit))
    }
}

impl ClientConcurrencyLayer<Arc<AdaptiveLimit>> {
    /// Creates a layer with one limit for all calls, which follows their latency within these bounds.
    ///
    /// Its queue, for calls that [wait](Self::waiting), has 128 places.
    #[must_use]
    pub fn adaptive(bounds: LimitBounds) -> Self {
        Self::new(adaptive_limit(bounds))
    }
}

impl ClientConcurrencyLayer<Arc<KeyedAdaptiveLimit<String>>> {
    /// Creates a layer with a limit for each host and port, within these bounds.
    ///
    /// Each follows the latency of its host's responses. The layer keeps the 1024 hosts that were called last.
    ///
    /// The host is as for [`bulkhead_per_host`](ClientConcurrencyLayer::bulkhead_per_host), and the queues are as that of
    /// [`adaptive`](ClientConcurrencyLayer::adaptive).
    #[must_use]
    pub fn adaptive_per_host(bounds: LimitBounds) -> Self {
        Self::new(adaptive_per_key(bounds))
    }
}

impl<L: ConcurrencyLimit> ClientConcurrencyLayer<L> {
    /// Creates a layer from an existing limit.
    ///
    /// It is a [`Bulkhead`] or an [`AdaptiveLimit`] in a `static` or an `Arc`, which you keep to inspect and to change it, a
    /// [`KeyedBulkhead`] or a [`KeyedAdaptiveLimit`] of `String`s in an `Arc`, which has one per host, other [`Bulkheads`], or a [`ConcurrencyLimit`] of your own.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::concurrency::KeyedBulkhead;
    /// use damper::http::ClientConcurrencyLayer;
    /// use std::sync::Arc;
    ///
    /// let hosts = Arc::new(KeyedBulkhead::<String>::new(64, 100)?.queue(16).newest_first());
    /// let layer = ClientConcurrencyLayer::new(Arc::clone(&hosts));
    /// # let _ = layer;
    /// # Ok::<(), damper::CapacityError>(())
    /// ```
    pub fn new(limit: L) -> Self {
        let settings = ClientSettings { min_budget: None, telemetry: ConcurrencyTelemetry::of_client("default") };
        Self { shared: Arc::new(Shared { limit: Arc::new(limit), settings }), classify: LoadSigns }
    }
}

impl<B: Bulkheads, V> ClientConcurrencyLayer<B, V>
where
    BulkheadPermit<B::Bulkhead>: ConcurrencyPermit,
{
    /// Makes calls wait for a permit. Default: a call that finds no slot free is refused at once.
    ///
    /// They wait for `longest` at most, and no longer than the [`Deadline`](damper_core::Deadline) in a request's
    /// extensions leaves.
    ///
    /// They wait in the limit's queue, in their order, by tokio's timer. A call that finds the queue full is refused at once. A future that is
    /// dropped gives up its place.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn waiting(self, longest: Duration) -> ClientConcurrencyLayer<Waiting<B, TokioSleep>, V> {
        self.waiting_by(longest, TokioSleep)
    }

    /// Makes calls wait as `waiting` does (feature `tokio`), sleeping by `sleep`, a [`Sleep`](damper_core::time::Sleep).
    #[must_use]
    pub fn waiting_by<S: Sleep + Clone>(self, longest: Duration, sleep: S) -> ClientConcurrencyLayer<Waiting<B, S>, V> {
        let Self { shared, classify } = self;
        let limit = Arc::new(Waiting::of(Arc::clone(&shared.limit), longest, sleep));
        ClientConcurrencyLayer { shared: Arc::new(Shared { limit, settings: shared.settings.clone() }), classify }
    }
}

impl<L: ConcurrencyLimit, V> ClientConcurrencyLayer<L, V> {
    /// Sets the shortest time given to a call whose end by the deadline is a sign of overload.
    ///
    /// Default: the [typical latency](ConcurrencyPermit::typical_latency) of the limit where it is known, else 0.9 s. See [`ConcurrencyLayer::min_budget`](super::ConcurrencyLayer::min_budget).
    #[must_use]
    pub fn min_budget(mut self, min_budget: Duration) -> Self {
        Arc::make_mut(&mut self.shared).settings.min_budget = Some(min_budget);
        self
    }

    /// Sets the name of the limit in logs and metrics. Default: `default`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        Arc::make_mut(&mut self.shared).settings.telemetry = ConcurrencyTelemetry::of_client(name);
        self
    }

    /// Lets a candidate decide beside the limit, as [`ConcurrencyLayer::shadow`](super::ConcurrencyLayer::shadow) does.
    #[must_use]
    pub fn shadow<S: ConcurrencyLimit>(self, candidate: S) -> ClientConcurrencyLayer<ShadowedLimit<L, S>, V> {
        let Self { shared, classify } = self;
        let limit = Arc::new(ShadowedLimit::new(Arc::clone(&shared.limit), candidate));
        ClientConcurrencyLayer { shared: Arc::new(Shared { limit, settings: shared.settings.clone() }), classify }
    }
}

impl<L: ConcurrencyLimit, S: ConcurrencyLimit, V> ClientConcurrencyLayer<ShadowedLimit<L, S>, V> {
    /// Returns the refusals of the limit and of the [candidate](ClientConcurrencyLayer::shadow) beside it.
    #[must_use]
    pub fn shadow_report(&self) -> ShadowReport {
        self.shared.limit.report()
    }
}

impl<L: ConcurrencyLimit, V> ClientConcurrencyLayer<L, V> {
    /// Sets what a response, or the error in its place, says about the load of the service.
    ///
    /// Default: [`LoadSigns`].
    ///
    /// As [`ConcurrencyLayer::classify`](super::ConcurrencyLayer::classify). The closure names the service's error,
    /// `hyper_util::client::legacy::Error` for instance.
    #[must_use]
    pub fn classify<E, F>(self, classify: F) -> ClientConcurrencyLayer<L, F>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> Outcome,
    {
        ClientConcurrencyLayer { shared: self.shared, classify }
    }
}

/// The limit that the layer asks, with the label `side`.
#[cfg(feature = "metrics")]
impl<L: damper_metrics::Source, V> damper_metrics::Source for ClientConcurrencyLayer<L, V> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.shared.limit.read(&self.shared.settings.telemetry.of_side(readings));
    }
}

#[cfg(feature = "metrics")]
impl<L: damper_metrics::Source, V> damper_metrics::NamedSource for ClientConcurrencyLayer<L, V> {
    fn name(&self) -> &str {
        self.shared.settings.telemetry.name()
    }
}

impl<L, V: Clone> ClientConcurrencyLayer<L, V> {
    /// Puts a service behind the limit.
    pub fn layer<T>(&self, service: T) -> ConcurrencyService<T, Self> {
        ConcurrencyService::new(service, self.clone())
    }
}

#[cfg(feature = "tower")]
impl<L, V: Clone, T> tower_layer::Layer<T> for ClientConcurrencyLayer<L, V> {
    type Service = ConcurrencyService<T, Self>;

    fn layer(&self, service: T) -> ConcurrencyService<T, Self> {
        self.layer(service)
    }
}

impl<L: ConcurrencyLimit, V: Clone> Side for ClientConcurrencyLayer<L, V> {
    type Limit = L;
    type Classify = V;
    type Refused = L::Refusal;

    #[inline]
    fn limit(&self) -> &L {
        &self.shared.limit
    }

    #[inline]
    fn classify(&self) -> &V {
        &self.classify
    }

    #[inline]
    fn min_budget(&self) -> Option<Duration> {
        self.shared.settings.min_budget
    }

    /// The caller reads the body itself.
    #[inline]
    fn stall_limit(&self) -> Option<Duration> {
        None
    }

    #[inline]
    fn exempts(&self, _: &Head<'_>) -> bool {
        false
    }

    #[inline]
    fn record_allowed(&self) {
        self.shared.settings.telemetry.record_allowed();
    }

    #[cold]
    fn refuse(&self, head: &Head<'_>, refusal: L::Refusal) -> L::Refusal {
        self.shared.settings.telemetry.record_refused(head, &refusal);
        refusal
    }
}

impl<L, V, R, E> Answer<R, E> for ClientConcurrencyLayer<L, V>
where
    L: ConcurrencyLimit,
    V: ClassifyLoad<E> + Clone,
    R: http_body::Body,
{
    type Body = ObservedBody<R, PermitObserver<L::Permit>, OverloadInTrailers<L::Permit>>;
    type Error = CallError<E, L::Refusal>;

    #[inline]
    fn answered(response: Response<R>, observer: Option<PermitObserver<PermitOf<Self>>>) -> Response<Self::Body> {
        response.map(|body| ObservedBody::new(body, observer, OverloadInTrailers::new()))
    }

    fn failed(error: E) -> Self::Error {
        CallError::Failed(error)
    }

    fn refused(refused: L::Refusal) -> Result<Response<Self::Body>, Self::Error> {
        Err(CallError::Refused(refused))
    }
}

/// Clones share the limit.
impl<L, V: Clone> Clone for ClientConcurrencyLayer<L, V> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), classify: self.classify.clone() }
    }
}

/// Clones share the limit.
impl<L> Clone for Shared<L> {
    fn clone(&self) -> Self {
        Self { limit: Arc::clone(&self.limit), settings: self.settings.clone() }
    }
}

impl<L: fmt::Debug, V> fmt::Debug for ClientConcurrencyLayer<L, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConcurrencyLayer").field("limit", &self.shared.limit).finish_non_exhaustive()
    }
}
