//! The layer of a client.

use super::built_limits::{adaptive_limit, adaptive_per_key, bulkhead, bulkhead_per_key};
use super::{AdaptiveLimitPerHost, BulkheadPerHost};
use crate::client_gate::client_layer;
use crate::completion::{EveryStatus, MinBudget, ResponseHead, WhileBodyLasts};
use crate::deadline::RequestDeadline;
use crate::telemetry::{Kind, Telemetry};
use crate::{ClientGate, Head, TargetHost};
use alloc::sync::Arc;
use core::time::Duration;
#[cfg(doc)]
use damper_core::CallError;
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, LimitBounds};
#[cfg(doc)]
use damper_core::concurrency::{KeyedAdaptiveLimit, KeyedBulkhead};
use damper_core::gate::{Ask, Gate, PerKey, Shared, Verdict, Waits};
use damper_core::internal::Patient;
use damper_core::setting::Setting;
use damper_core::shadow::{ShadowReport, Shadowed};
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_tower::GateService;

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
/// Clones, and all services that one makes, share the limit. Permits are taken in `call`, never in `poll_ready`. Where calls wait, the service
/// has to be `Clone`.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(all(feature = "hyper", feature = "tokio"))] {
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
#[derive(Clone)]
pub struct ClientConcurrencyLayer<L, V = EveryStatus>(ClientGate<L, WhileBodyLasts<V>, Telemetry>);

/// A client's service whose calls in flight are limited. Made by [`ClientConcurrencyLayer`].
pub type ClientConcurrencyService<T, L, V = EveryStatus> = GateService<T, ClientGate<L, WhileBodyLasts<V>, Telemetry>>;

impl ClientConcurrencyLayer<Arc<Bulkhead>> {
    /// Creates a layer with one limit for all calls.
    ///
    /// Its queue, for calls that [wait](Self::waiting), has as many places as the limit has slots, but at most 128.
    #[must_use]
    pub fn bulkhead(limit: u32) -> Self {
        Self::new(bulkhead(limit))
    }
}

impl ClientConcurrencyLayer<BulkheadPerHost> {
    /// Creates a layer with a limit for each host and port, for the 1024 hosts that were called last.
    ///
    /// The host is the [`TargetHost`], which has one limit however it is spelled. A host in use is not evicted: see [`KeyedBulkhead`]. The queues are as those of [`bulkhead`](ClientConcurrencyLayer::bulkhead).
    #[must_use]
    pub fn bulkhead_per_host(limit: u32) -> Self {
        Self::new(PerKey::new(TargetHost, bulkhead_per_key(limit)))
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

impl ClientConcurrencyLayer<AdaptiveLimitPerHost> {
    /// Creates a layer with a limit for each host and port, within these bounds.
    ///
    /// Each follows the latency of its host's responses. The layer keeps the 1024 hosts that were called last.
    ///
    /// The host is as for [`bulkhead_per_host`](ClientConcurrencyLayer::bulkhead_per_host), and the queues are as that of
    /// [`adaptive`](ClientConcurrencyLayer::adaptive).
    #[must_use]
    pub fn adaptive_per_host(bounds: LimitBounds) -> Self {
        Self::new(PerKey::new(TargetHost, adaptive_per_key(bounds)))
    }
}

impl<L: for<'a> Ask<Head<'a>>> ClientConcurrencyLayer<L> {
    /// Creates a layer from an existing limit.
    ///
    /// It is a [`Bulkhead`] or an [`AdaptiveLimit`] in a `static` or an `Arc`, which you keep to inspect and to change it, or another
    /// [gate](damper_core::gate), such as a [`PerKey`] by [`TargetHost`] or one of your own, that is asked about a [`Head`].
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Bulkhead;
    /// use damper::http::ClientConcurrencyLayer;
    ///
    /// static DATABASE: Bulkhead = Bulkhead::new(16);
    /// let layer = ClientConcurrencyLayer::new(&DATABASE);
    /// # let _ = layer;
    /// ```
    pub fn new(limit: L) -> Self {
        let telemetry = Telemetry::new(Kind::ClientConcurrency, "default");
        Self(ClientGate::observed_by(telemetry, limit, WhileBodyLasts::new(), MinBudget::of_gate()))
    }
}

impl<L: Patient, V> ClientConcurrencyLayer<L, V> {
    /// Makes calls wait for a permit. Default: a call that finds no slot free is refused at once.
    ///
    /// They wait for `longest` at most, and no longer than the [`Deadline`](damper_core::Deadline) in a request's
    /// extensions leaves, less the margin of a `ClientDeadlineLayer`. To change `longest` while calls are made, pass a
    /// [`Live`](damper_core::Live).
    ///
    /// They wait in the limit's queue, in their order, by tokio's timer. A call that finds the queue full is refused at once. A future that is
    /// dropped gives up its place.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn waiting(
        self,
        longest: impl Into<Setting<Duration>>,
    ) -> ClientConcurrencyLayer<Waits<L, TokioSleep, RequestDeadline>, V> {
        self.waiting_by(longest, TokioSleep)
    }

    /// Makes calls wait as `waiting` does (feature `tokio`), sleeping by `sleep`, a [`Sleep`](damper_core::time::Sleep).
    #[must_use]
    pub fn waiting_by<S: Sleep>(
        self,
        longest: impl Into<Setting<Duration>>,
        sleep: S,
    ) -> ClientConcurrencyLayer<Waits<L, S, RequestDeadline>, V> {
        ClientConcurrencyLayer(self.0.map_gate(|limit| Waits::new(limit, longest, sleep).time_left(RequestDeadline)))
    }
}

impl<L: Gate, V> ClientConcurrencyLayer<L, V> {
    /// Sets the shortest time given to a call whose end by the deadline is a sign of overload.
    ///
    /// Default: the [usual latency](damper_core::gate::Permit::usual_latency) of the limit where it is known, else 0.9 s. See
    /// [`ConcurrencyLayer::min_budget`](super::ConcurrencyLayer::min_budget).
    #[must_use]
    pub fn min_budget(self, min_budget: impl Into<MinBudget>) -> Self {
        Self(self.0.min_budget(min_budget))
    }

    /// Sets the name of the limit in logs and metrics. Default: `default`.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self(ClientGate { observer: Telemetry::new(Kind::ClientConcurrency, name), ..self.0 })
    }

    /// Lets a candidate decide beside the limit, as [`ConcurrencyLayer::shadow`](super::ConcurrencyLayer::shadow) does.
    #[must_use]
    pub fn shadow<S: Gate>(self, candidate: S) -> ClientConcurrencyLayer<Shared<Shadowed<L, S>>, V> {
        ClientConcurrencyLayer(self.0.map_gate(|limit| Shared::new(Shadowed::new(limit, candidate))))
    }

    /// Sets how a call ended, by its response, or by the error in its place. Default: [`EveryStatus`].
    ///
    /// As [`ConcurrencyLayer::classify`](super::ConcurrencyLayer::classify). The closure names the service's error,
    /// `hyper_util::client::legacy::Error` for instance.
    #[must_use]
    pub fn classify<E, T, F>(self, classify: F) -> ClientConcurrencyLayer<L, F>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> T,
        T: Into<Verdict>,
    {
        ClientConcurrencyLayer(self.0.map_completion(|_| WhileBodyLasts::by(classify)))
    }
}

impl<L: Gate, S: Gate, V> ClientConcurrencyLayer<Shared<Shadowed<L, S>>, V> {
    /// Returns the refusals of the limit and of the [candidate](ClientConcurrencyLayer::shadow) beside it.
    #[must_use]
    pub fn shadow_report(&self) -> ShadowReport {
        self.0.gate.report()
    }
}

/// The limit that the layer asks, with the label `side`.
#[cfg(feature = "metrics")]
impl<L: damper_metrics::Source, V> damper_metrics::Source for ClientConcurrencyLayer<L, V> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.0.gate.read(&self.0.observer.of_side(readings));
    }
}

#[cfg(feature = "metrics")]
impl<L: damper_metrics::Source, V> damper_metrics::NamedSource for ClientConcurrencyLayer<L, V> {
    fn name(&self) -> &str {
        self.0.observer.name()
    }
}

client_layer!(ClientConcurrencyLayer<L, V>, WhileBodyLasts<V>, Telemetry, ClientConcurrencyService, "limit");
