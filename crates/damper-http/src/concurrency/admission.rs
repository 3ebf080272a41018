//! The layer of a server that decides by class, tenant and deadline.

use super::{ConcurrencyLayer, RequestClasses};
use crate::Head;
use crate::completion::EveryStatus;
use alloc::sync::Arc;
use core::hash::Hash;
use core::mem;
use core::time::Duration;
use damper_core::concurrency::{Admission, Criticality, LimitRule, ProbedGradient};
#[cfg(doc)]
use damper_core::deadline::Deadline;
use damper_core::gate::{Classes, Waits};
use damper_core::setting::Setting;
use damper_core::shadow::Shadowed;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_core::time::{Clock, DefaultClock, Sleep};

/// A layer whose limit is an admission. Made by [`ConcurrencyLayer::admission`].
pub type AdmissionLayer<S, R = ProbedGradient, C = DefaultClock, V = EveryStatus> =
    ConcurrencyLayer<AdmissionGate<S, R, C>, V>;

#[cfg(feature = "tokio")]
impl<R: LimitRule, C: Clock> AdmissionLayer<TokioSleep, R, C> {
    /// Decides which requests a server works on, by their class, tenant and deadline, within a limit.
    ///
    /// Pass an [`Admission`], or an `Arc` of one, which you keep to inspect it. [`Admission::new`] has a limit that follows the latency of the
    /// service, and [`Admission::fixed`] one that you know.
    ///
    /// While a slot is free, a request is served at once. Under overload it waits in a queue, by tokio's timer. The queue holds at most as many
    /// requests as the limit allows in flight, or as many as [`Admission::queue`] says. From there the admission chooses: the highest
    /// [class](Self::criticality) first, in it the [tenant](Self::tenant) that was served least. A request whose [`Deadline`], in its
    /// extensions, leaves less time than a request takes is refused. A request without a deadline waits for 30 s at most, or as long as
    /// [`longest_wait`](Self::longest_wait) says. A limit of 0 refuses all at once.
    ///
    /// A refusal is `503 Service Unavailable` with the gate's own estimate as `Retry-After`, or the status `UNAVAILABLE` for gRPC. The time given
    /// to a call whose end by the deadline is a sign of overload is the [median](Admission::median_service_time) of recent service times,
    /// unless [`min_budget`](ConcurrencyLayer::min_budget) says otherwise.
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
    /// # #[cfg(feature = "axum")] {
    /// use axum::{Router, routing::get};
    /// use damper::concurrency::{Admission, Criticality, LimitBounds};
    /// use damper::http::{ConcurrencyLayer, DeadlineLayer};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// # async fn home() {}
    /// let gate = Arc::new(Admission::new(LimitBounds::DEFAULT).queue(256));
    /// let admission = ConcurrencyLayer::admission(Arc::clone(&gate))
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
    /// println!("{} of {} in flight", gate.in_flight(), gate.limit());
    /// # let _ = app;
    /// # }
    /// ```
    #[must_use]
    pub fn admission(gate: impl Into<Arc<Admission<R, C>>>) -> Self {
        Self::admission_by(gate, TokioSleep)
    }
}

impl<S: Sleep + Clone, R: LimitRule, C: Clock> AdmissionLayer<S, R, C> {
    /// Decides as `admission` does (feature `tokio`). Requests sleep by `sleep`, a [`Sleep`].
    #[must_use]
    pub fn admission_by(gate: impl Into<Arc<Admission<R, C>>>, sleep: S) -> Self {
        Self::new(RequestClasses::new().before(gate.into(), sleep))
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

    /// Lets another admission decide beside this one, and changes nothing. Default: none.
    ///
    /// See [`shadow`](ConcurrencyLayer::shadow). The candidate gets the classes, tenants and deadlines of this layer, so set these first. It has
    /// no queue: a call for which it has no free slot counts as refused.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// # #[cfg(feature = "tokio")] {
    /// use damper::concurrency::Admission;
    /// use damper::http::ConcurrencyLayer;
    /// use std::sync::Arc;
    ///
    /// let layer = ConcurrencyLayer::admission(Admission::default()).shadow_admission(Arc::new(Admission::fixed(32)));
    /// // A day later:
    /// println!("{} calls more would have been refused", layer.shadow_report().only_by_candidate);
    /// # }
    /// ```
    #[must_use]
    pub fn shadow_admission<Q: LimitRule, D: Clock>(
        self,
        candidate: Arc<Admission<Q, D>>,
    ) -> ConcurrencyLayer<ShadowedGate<S, R, C, Q, D>, V> {
        let classes = self.limit_in_force().get_ref().class_ref().clone();
        self.shadow(Classes::new(candidate, classes))
    }

    fn with_classes(self, change: impl FnOnce(RequestClasses) -> RequestClasses) -> Self {
        self.with_limit(|gate| {
            let classes = gate.get_mut().class_mut();
            *classes = change(mem::take(classes));
        })
    }
}

/// An admission, asked by the [class](RequestClasses) of each request, in whose queue requests wait.
pub type AdmissionGate<S, R = ProbedGradient, C = DefaultClock> =
    Waits<Classes<Arc<Admission<R, C>>, RequestClasses>, S>;

/// A gate in force, and a candidate beside it, which has no queue.
///
/// Made by [`ConcurrencyLayer::shadow_admission`].
pub type ShadowedGate<S, R, C, Q, D> = Shadowed<AdmissionGate<S, R, C>, Classes<Arc<Admission<Q, D>>, RequestClasses>>;
