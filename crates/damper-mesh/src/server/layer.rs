//! The layer that serves Mesh: its limits and its callers.

use super::MeshService;
use crate::document::Request;
use crate::scopes::{Caller, Scopes};
use crate::telemetry::ServerTelemetry;
use damper_core::deadline::SkewGuard;
#[cfg(feature = "metrics")]
use damper_core::limit::KeyedAlgorithm;
use damper_core::limit::TokenBucket;
#[cfg(feature = "metrics")]
use damper_core::time::Clock;
use damper_core::time::DefaultClock;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_http::Head;
use std::fmt;
use std::sync::Arc;

/// Serves Mesh over HTTP around a tower service of [`IncomingCall`](super::IncomingCall)s.
///
/// The service returns a JSON value or a [`MeshError`](crate::MeshError).
///
/// | request | response |
/// |---|---|
/// | unreadable, larger than [`max_request`](Self::max_request), or of another protocol | `INVALID_REQUEST`, 400 |
/// | method is not POST | `INVALID_REQUEST`, 405 |
/// | deadline passed on arrival, or passes during the call | `DEADLINE_EXCEEDED`, 504; the service's future is dropped |
/// | for `mesh.capabilities` | the limits in force, without counting against them |
/// | above a limit of its scopes | `RATE_LIMITED`, 429 with `Retry-After`; the service is not called |
/// | any other | the service's result or error, 200 with any code |
///
/// Responses of the service and refusals report the usage of the limits that the request met. Responses of the service
/// also report the duration of the call. The response to a request with a deadline has a report of it. The deadline
/// counts from the arrival of the HTTP request's head. A [`Deadline`](damper_core::Deadline) in the HTTP request's
/// extensions, as set by a [`DeadlineLayer`](damper_http::DeadlineLayer), applies too if it passes earlier, but reports
/// show the request's own.
///
/// Convert errors of downstream services with [`MeshError::from_downstream`](crate::MeshError::from_downstream).
/// Otherwise clients apply their limits to this service.
///
/// Clones of a layer and all its services share the limits.
///
/// Metrics and logs carry the name of the service. See [the crate](crate#metrics-and-logs).
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// # #[cfg(feature = "tokio")] {
/// use damper::Quota;
/// use damper::mesh::{Caller, IncomingCall, MeshError, MeshLayer, Scopes};
/// use serde_json::{Value, json};
/// use tower::{ServiceBuilder, service_fn};
///
/// async fn orders(call: IncomingCall) -> Result<Value, MeshError> {
///     match call.function() {
///         "orders.create" => Ok(json!({ "order_id": 456, "status": "created" })),
///         other => Err(MeshError::new("FUNCTION_NOT_FOUND", format!("There is no function {other}"))),
///     }
/// }
///
/// let scopes = Scopes::builder()
///     .global(Quota::per_minute(10_000))
///     .service(Quota::per_minute(1_000))
///     .function("orders.create", Quota::per_minute(100))
///     .build()?;
///
/// /// The service that an outer authentication layer verified and put into the request's extensions.
/// #[derive(Clone)]
/// struct Verified(String);
///
/// let layer = MeshLayer::new("orders-api", scopes).caller(|caller, head, _| {
///     caller.service(head.extensions.get::<Verified>().map_or("", |verified| &verified.0))
/// });
/// let service = ServiceBuilder::new().layer(layer).service(service_fn(orders));
/// # let _ = service;
/// # }
/// # Ok::<(), damper::mesh::ScopesError>(())
/// ```
pub struct MeshLayer<Z, C = DefaultClock, A = TokenBucket> {
    pub(super) settings: Arc<Settings<C, A>>,
    pub(super) sleep: Z,
}

/// Names the caller of a request.
pub(super) type CallerOf = Arc<dyn for<'a> Fn(Caller<'a>, &Head<'a>, &'a Request) -> Caller<'a> + Send + Sync>;

/// The settings that all services of a layer share.
pub(super) struct Settings<C, A> {
    pub(super) name: String,
    pub(super) scopes: Arc<Scopes<C, A>>,
    pub(super) caller: CallerOf,
    pub(super) max_request: usize,
    pub(super) skew_guard: Option<Arc<SkewGuard<C>>>,
    pub(super) telemetry: ServerTelemetry,
}

const MAX_REQUEST: usize = 1 << 20;

#[cfg(feature = "tokio")]
impl<C, A> MeshLayer<TokioSleep, C, A> {
    /// Creates the layer of a service with this name and these limits, which sleeps by tokio's timer.
    ///
    /// Keep an `Arc` of the limits to inspect them and to change their quotas.
    #[must_use]
    pub fn new(name: impl Into<String>, scopes: impl Into<Arc<Scopes<C, A>>>) -> Self {
        Self::sleeping_by(name, scopes, TokioSleep)
    }
}

impl<Z, C, A> MeshLayer<Z, C, A> {
    /// Creates the layer of a service with this name and these limits, which sleeps by `sleep`.
    ///
    /// See [`Sleep`](damper_core::time::Sleep).
    #[must_use]
    pub fn sleeping_by(name: impl Into<String>, scopes: impl Into<Arc<Scopes<C, A>>>, sleep: Z) -> Self {
        let caller: CallerOf = Arc::new(|caller, _, _| caller);
        let (name, scopes) = (name.into(), scopes.into());
        let telemetry = ServerTelemetry::new(&name);
        let settings = Settings { name, scopes, caller, max_request: MAX_REQUEST, skew_guard: None, telemetry };
        Self { settings: Arc::new(settings), sleep }
    }

    /// Sets the caller of each request: the closure names the service and the user.
    ///
    /// Default: both are unnamed, so all calls share one limit.
    ///
    /// A client that can choose these names evades the limit. Take them from an extension that an authentication layer
    /// set, not from a header that the client writes.
    #[must_use]
    pub fn caller(
        self,
        caller: impl for<'a> Fn(Caller<'a>, &Head<'a>, &'a Request) -> Caller<'a> + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.caller = Arc::new(caller))
    }

    /// Sets the maximum size of a request in bytes. Default: 1 MiB.
    #[must_use]
    pub fn max_request(self, bytes: usize) -> Self {
        self.with(|settings| settings.max_request = bytes)
    }

    /// Serves requests with expired instants if too many expire on arrival, because clocks then differ.
    ///
    /// Such a request is served as if it had no deadline. Default: each one is refused.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
    /// # #[cfg(feature = "tokio")] {
    /// use damper::deadline::SkewGuard;
    /// use damper::mesh::{MeshLayer, Scopes};
    ///
    /// let layer = MeshLayer::new("orders-api", Scopes::none()).skew_guard(SkewGuard::new());
    /// # let _ = layer;
    /// # }
    /// ```
    #[must_use]
    pub fn skew_guard(self, guard: impl Into<Arc<SkewGuard<C>>>) -> Self {
        self.with(|settings| settings.skew_guard = Some(guard.into()))
    }

    fn with(self, set: impl FnOnce(&mut Settings<C, A>)) -> Self {
        let Settings { name, scopes, caller, max_request, skew_guard, telemetry } = &*self.settings;
        let mut settings = Settings {
            name: name.clone(),
            scopes: Arc::clone(scopes),
            caller: Arc::clone(caller),
            max_request: *max_request,
            skew_guard: skew_guard.clone(),
            telemetry: telemetry.clone(),
        };
        set(&mut settings);
        Self { settings: Arc::new(settings), sleep: self.sleep }
    }
}

impl<S, Z: Clone, C, A> tower_layer::Layer<S> for MeshLayer<Z, C, A> {
    type Service = MeshService<S, Z, C, A>;

    fn layer(&self, service: S) -> MeshService<S, Z, C, A> {
        MeshService::new(service, self.clone())
    }
}

/// Its limits.
#[cfg(feature = "metrics")]
impl<Z, C: Clock, A: KeyedAlgorithm> damper_metrics::Source for MeshLayer<Z, C, A> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.settings.scopes.read(readings);
    }
}

/// The name of its service.
#[cfg(feature = "metrics")]
impl<Z, C: Clock, A: KeyedAlgorithm> damper_metrics::NamedSource for MeshLayer<Z, C, A> {
    fn name(&self) -> &str {
        &self.settings.name
    }
}

/// Clones share the limits.
impl<Z: Clone, C, A> Clone for MeshLayer<Z, C, A> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings), sleep: self.sleep.clone() }
    }
}

impl<Z, C: fmt::Debug, A> fmt::Debug for MeshLayer<Z, C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeshLayer")
            .field("name", &self.settings.name)
            .field("scopes", &self.settings.scopes)
            .field("max_request", &self.settings.max_request)
            .finish_non_exhaustive()
    }
}
