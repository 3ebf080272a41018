//! The layer of a server that decides by class, tenant and deadline.

use super::{ConcurrencyLayer, ConcurrencyService, RequestClasses};
use crate::Head;
use crate::completion::{EveryStatus, MinBudget, ResponseHead};
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use core::hash::Hash;
use core::mem;
use core::time::Duration;
use damper_core::concurrency::{Admission, Criticality, LimitRule, NotAdmitted, ProbedGradient};
#[cfg(feature = "tokio")]
use damper_core::concurrency::{FixedLimit, LimitBounds};
#[cfg(doc)]
use damper_core::deadline::Deadline;
use damper_core::gate::{Classes, Verdict, Waits};
#[cfg(feature = "tower")]
use damper_core::gate::{Gate, WaitsWith};
use damper_core::setting::Setting;
use damper_core::shadow::Shadowed;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_core::time::{Clock, DefaultClock, Sleep};

/// Decides which requests a server works on, by their class, tenant and deadline, within a limit.
///
/// While a slot is free, a request is served at once. Under overload it waits in a queue, which holds at most as many requests as the
/// limit allows in flight. From there an [`Admission`] chooses: the highest [class](Self::criticality) first, in it the [tenant](Self::tenant) that was served least. A request
/// whose [`Deadline`], in its extensions, leaves less time than a request takes is refused. A request without a deadline waits for 30 s
/// at most, or as long as [`longest_wait`](Self::longest_wait) says.
///
/// A refusal is `503 Service Unavailable` with the gate's own estimate as `Retry-After`, or the status `UNAVAILABLE` for gRPC. Otherwise it is a
/// [`ConcurrencyLayer`]: it holds the slot until the response has ended, and measures the time until it begins.
///
/// Put a [`DeadlineLayer`](crate::DeadlineLayer) outside: it bounds the wait of every request, says how much time a request has, and ends the
/// work when it is over. Without it, work that comes too late takes slots from work that would come in time.
///
/// # Examples
///
/// With axum:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(all(feature = "axum", feature = "tokio"))] {
/// use axum::{Router, routing::get};
/// use damper::concurrency::{Criticality, LimitBounds};
/// use damper::http::{AdmissionLayer, DeadlineLayer};
/// use std::time::Duration;
///
/// # async fn home() {}
/// let admission = AdmissionLayer::adaptive(LimitBounds::DEFAULT)
///     .criticality(|head| match head.uri.path() {
///         "/checkout" => Criticality::CriticalPlus,
///         "/export" => Criticality::Sheddable,
///         _ => Criticality::Critical,
///     })
///     .tenant(|head| head.headers.get("x-tenant").cloned()) // which a proxy has verified
///     .exempt(|head| head.uri.path() == "/healthz");
/// let app: Router = Router::new()
///     .route("/", get(home))
///     .layer(admission)
///     .layer(DeadlineLayer::new(Duration::from_secs(2))); // outside
/// # let _ = app;
/// # }
/// ```
pub struct AdmissionLayer<S: Sleep + Clone, R: LimitRule = ProbedGradient, C: Clock = DefaultClock, V = EveryStatus>(
    pub(crate) ConcurrencyLayer<AdmissionGate<S, R, C>, V>,
);

#[cfg(feature = "tokio")]
impl AdmissionLayer<TokioSleep> {
    /// Creates a layer whose limit follows the latency of the service within these bounds.
    ///
    /// Requests wait by tokio's timer.
    #[must_use]
    pub fn adaptive(bounds: LimitBounds) -> Self {
        Self::new(Arc::new(Admission::new(bounds)))
    }
}

#[cfg(feature = "tokio")]
impl AdmissionLayer<TokioSleep, FixedLimit> {
    /// Creates a layer with this limit.
    ///
    /// Requests wait by tokio's timer. A limit of 0 refuses all at once, still with `Retry-After`.
    #[must_use]
    pub fn fixed(limit: u32) -> Self {
        Self::new(Arc::new(Admission::fixed(limit)))
    }
}

#[cfg(feature = "tokio")]
impl<R: LimitRule, C: Clock> AdmissionLayer<TokioSleep, R, C> {
    /// Creates a layer from an existing gate, which you keep to inspect it.
    ///
    /// Requests wait by tokio's timer.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::concurrency::Admission;
    /// use damper::http::AdmissionLayer;
    /// use std::sync::Arc;
    ///
    /// let gate = Arc::new(Admission::default().queue(256));
    /// let layer = AdmissionLayer::new(Arc::clone(&gate));
    /// println!("{} of {} in flight", gate.in_flight(), gate.limit());
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn new(gate: Arc<Admission<R, C>>) -> Self {
        Self::sleeping_by(gate, TokioSleep)
    }
}

impl<S: Sleep + Clone, R: LimitRule, C: Clock> AdmissionLayer<S, R, C> {
    /// Creates a layer from an existing gate. Requests sleep by `sleep`, a [`Sleep`].
    #[must_use]
    pub fn sleeping_by(gate: Arc<Admission<R, C>>, sleep: S) -> Self {
        Self(ConcurrencyLayer::new(RequestClasses::new().before(gate, sleep)))
    }
}

impl<S: Sleep + Clone, R: LimitRule, C: Clock, V> AdmissionLayer<S, R, C, V> {
    /// Sets how much a request counts.
    ///
    /// Default: the class that a [`CriticalityLayer`](crate::CriticalityLayer) outside has found, or else [`Criticality::Critical`].
    ///
    /// Strict priority starves: while the higher classes use up the capacity, the lower ones get nothing.
    #[must_use]
    pub fn criticality(self, criticality: impl Fn(&Head<'_>) -> Criticality + Send + Sync + 'static) -> Self {
        self.with_classes(|classes| classes.criticality(criticality))
    }

    /// Sets whose request it is: anything that can be hashed.
    ///
    /// Default: the tenant that a [`CriticalityLayer`](crate::CriticalityLayer) outside has found. Requests without a tenant are one tenant's.
    ///
    /// A client that chooses its own name gets a share for each, so take one that was verified before. The closure returns the name,
    /// not a reference into the request: `|head| head.headers.get("x-tenant").cloned()`.
    #[must_use]
    pub fn tenant<K: Hash>(self, tenant: impl Fn(&Head<'_>) -> K + Send + Sync + 'static) -> Self {
        self.with_classes(|classes| classes.tenant(tenant))
    }

    /// Sets how long a request without a deadline waits in the queue. Default: 30 s.
    ///
    /// One with a [`Deadline`] waits until that, less the time that requests take.
    #[must_use]
    pub fn longest_wait(self, longest: impl Into<Setting<Duration>>) -> Self {
        self.with_classes(|classes| classes.longest_wait(longest))
    }

    /// Exempts the requests for which the predicate is true, as [`ConcurrencyLayer::exempt`] does.
    ///
    /// Default: none.
    #[must_use]
    pub fn exempt(self, predicate: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(self.0.exempt(predicate))
    }

    /// Sets the time after which a refused client may come back where the gate has no estimate.
    ///
    /// Default: one second.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        Self(self.0.retry_after(wait))
    }

    /// Sets the body of a refusal, as [`ConcurrencyLayer::body`] does. Default: a line of text.
    #[must_use]
    pub fn body<T: Into<Bytes>>(
        self,
        body: impl Fn(&Head<'_>, &NotAdmitted) -> (&'static str, T) + Send + Sync + 'static,
    ) -> Self {
        Self(self.0.body(body))
    }

    /// Sets the body of a refusal to a problem document (RFC 9457) in JSON.
    #[must_use]
    pub fn problem_json(self) -> Self {
        Self(self.0.problem_json())
    }

    /// Sets the shortest time given to a call whose end by the deadline is a sign of overload.
    ///
    /// Default: the [median](Admission::median_service_time) of recent service times. See
    /// [`ConcurrencyLayer::min_budget`].
    #[must_use]
    pub fn min_budget(self, min_budget: impl Into<MinBudget>) -> Self {
        Self(self.0.min_budget(min_budget))
    }

    /// Sets the longest time for which a frame of a response may wait until its client takes it.
    ///
    /// Default: none here. See [`ConcurrencyLayer::stall_limit`].
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn stall_limit(self, longest: Duration) -> Self {
        Self(self.0.stall_limit(longest))
    }

    /// Sets the name of the limit in logs and metrics. Default: `default`.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self(self.0.named(name))
    }

    /// Lets a candidate decide beside the gate, and changes nothing. Default: none.
    ///
    /// See [`ConcurrencyLayer::shadow`]. The candidate gets the classes, tenants and deadlines of this layer, so set these first. It has no queue: a call for which it
    /// has no free slot counts as refused.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// # #[cfg(feature = "tokio")] {
    /// use damper::concurrency::{Admission, LimitBounds};
    /// use damper::http::AdmissionLayer;
    /// use std::sync::Arc;
    ///
    /// let layer = AdmissionLayer::adaptive(LimitBounds::DEFAULT).shadow(Arc::new(Admission::fixed(32)));
    /// // A day later:
    /// println!("{} calls more would have been refused", layer.shadow_report().only_by_candidate);
    /// # }
    /// ```
    #[must_use]
    pub fn shadow<Q: LimitRule, D: Clock>(
        self,
        candidate: Arc<Admission<Q, D>>,
    ) -> ConcurrencyLayer<ShadowedGate<S, R, C, Q, D>, V> {
        let classes = self.0.limit_in_force().get_ref().class_ref().clone();
        self.0.shadow(Classes::new(candidate, classes))
    }

    fn with_classes(self, change: impl FnOnce(RequestClasses) -> RequestClasses) -> Self {
        Self(self.0.with_limit(|gate| {
            let classes = gate.get_mut().class_mut();
            *classes = change(mem::take(classes));
        }))
    }

    /// Sets how a call ended, by its response, or by the error in its place. Default: [`EveryStatus`].
    ///
    /// The same as [`ConcurrencyLayer::classify`].
    #[must_use]
    pub fn classify<E, O, F>(self, classify: F) -> AdmissionLayer<S, R, C, F>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> O,
        O: Into<Verdict>,
    {
        AdmissionLayer(self.0.classify(classify))
    }
}

impl<S: Sleep + Clone, R: LimitRule, C: Clock, V: Clone> AdmissionLayer<S, R, C, V> {
    /// Puts a service behind the gate.
    pub fn layer<T>(&self, service: T) -> ConcurrencyService<T, AdmissionGate<S, R, C>, V> {
        self.0.layer(service)
    }
}

#[cfg(feature = "tower")]
impl<S, R, C, V, T> tower_layer::Layer<T> for AdmissionLayer<S, R, C, V>
where
    S: Sleep + Clone,
    R: LimitRule,
    C: Clock,
    V: Clone,
    AdmissionGate<S, R, C>: Gate<Wait: WaitsWith<T>>,
{
    type Service = ConcurrencyService<T, AdmissionGate<S, R, C>, V>;

    fn layer(&self, service: T) -> Self::Service {
        self.layer(service)
    }
}

#[cfg(feature = "metrics")]
impl<S: Sleep + Clone, R: LimitRule, C: Clock, V> damper_metrics::Source for AdmissionLayer<S, R, C, V> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.0.read(readings);
    }
}

#[cfg(feature = "metrics")]
impl<S: Sleep + Clone, R: LimitRule, C: Clock, V> damper_metrics::NamedSource for AdmissionLayer<S, R, C, V> {
    fn name(&self) -> &str {
        damper_metrics::NamedSource::name(&self.0)
    }
}

/// Clones share the gate.
impl<S: Sleep + Clone, R: LimitRule, C: Clock, V: Clone> Clone for AdmissionLayer<S, R, C, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Sleep + Clone, R: LimitRule, C: Clock, V> fmt::Debug for AdmissionLayer<S, R, C, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdmissionLayer").field(&self.0).finish()
    }
}

/// An admission, asked by the [class](RequestClasses) of each request, in whose queue requests wait.
pub type AdmissionGate<S, R = ProbedGradient, C = DefaultClock> =
    Waits<Classes<Arc<Admission<R, C>>, RequestClasses>, S>;

/// A gate in force, and a candidate beside it, which has no queue. Made by [`AdmissionLayer::shadow`].
pub type ShadowedGate<S, R, C, Q, D> = Shadowed<AdmissionGate<S, R, C>, Classes<Arc<Admission<Q, D>>, RequestClasses>>;
