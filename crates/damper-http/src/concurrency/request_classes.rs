//! The class, the tenant and the deadline of a request at an admission.

use super::AdmissionGate;
use crate::Head;
use crate::criticality::CallClass;
use alloc::sync::Arc;
use core::fmt;
use core::hash::Hash;
use core::time::Duration;
use damper_core::Reads;
use damper_core::concurrency::{Admission, AdmissionRequest, Criticality};
use damper_core::deadline::Deadline;
use damper_core::gate::{Classes, Waits};
use damper_core::setting::Setting;

/// Says the class, the tenant and the deadline of a request of HTTP.
///
/// The deadline is the [`Deadline`] in the extensions of the request, and the class and the tenant are those of the [`CallClass`] there. Unless
/// a setter says otherwise, requests without one are of one class and of one tenant.
///
/// An [`AdmissionLayer`](crate::AdmissionLayer) has one. It is public for gates of your own that contain an admission.
///
/// # Examples
///
/// An admission behind a limit on all connections, in one layer:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::concurrency::{Admission, Criticality};
/// use damper::gate::Classes;
/// use damper::http::{ConcurrencyLayer, RequestClasses};
/// use damper::{Quota, RateLimiter};
/// use std::sync::Arc;
///
/// let classes = RequestClasses::new().criticality(|head| match head.uri.path() {
///     "/export" => Criticality::Sheddable,
///     _ => Criticality::Critical,
/// });
/// let rate = Arc::new(RateLimiter::new(Quota::per_second(500)));
/// let layer = ConcurrencyLayer::new((rate, Classes::new(Arc::new(Admission::default()), classes)));
/// # let _ = layer;
/// ```
#[derive(Clone)]
pub struct RequestClasses {
    criticality: Option<CriticalityOf>,
    add_tenant: Option<AddTenant>,
    longest_wait: Setting<Duration>,
}

type CriticalityOf = Arc<dyn Fn(&Head<'_>) -> Criticality + Send + Sync>;

/// Adds the tenant of a request.
type AddTenant = Arc<dyn Fn(&Head<'_>, AdmissionRequest) -> AdmissionRequest + Send + Sync>;

/// How long a request without a deadline waits, by default.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

impl RequestClasses {
    /// Takes the class and the tenant of each request from its [`CallClass`].
    ///
    /// Requests without one are of one class and of one tenant.
    #[must_use]
    pub const fn new() -> Self {
        Self { criticality: None, add_tenant: None, longest_wait: Setting::constant(LONGEST_WAIT) }
    }

    /// Sets how much a request counts, as [`AdmissionLayer::criticality`](crate::AdmissionLayer::criticality) does.
    #[must_use]
    pub fn criticality(mut self, criticality: impl Fn(&Head<'_>) -> Criticality + Send + Sync + 'static) -> Self {
        self.criticality = Some(Arc::new(criticality));
        self
    }

    /// Sets whose request it is, as [`AdmissionLayer::tenant`](crate::AdmissionLayer::tenant) does.
    #[must_use]
    pub fn tenant<K: Hash>(mut self, tenant: impl Fn(&Head<'_>) -> K + Send + Sync + 'static) -> Self {
        self.add_tenant = Some(Arc::new(move |head, request| request.tenant(&tenant(head))));
        self
    }

    /// Sets how long a request without a deadline waits in the queue. Default: 30 s.
    ///
    /// To change it while requests are served, pass a [`Live`](damper_core::Live).
    #[must_use]
    pub fn longest_wait(mut self, longest: impl Into<Setting<Duration>>) -> Self {
        self.longest_wait = longest.into();
        self
    }

    /// Returns a gate that asks this admission, in whose queue requests wait. They sleep by `sleep`.
    #[must_use]
    pub fn before<R, C, S>(self, admission: Arc<Admission<R, C>>, sleep: S) -> AdmissionGate<S, R, C> {
        // Each request says itself how long it waits.
        Waits::new(Classes::new(admission, self), Duration::MAX, sleep)
    }
}

impl Reads<Head<'_>, AdmissionRequest> for RequestClasses {
    #[inline]
    fn read_from(&self, head: &Head<'_>) -> AdmissionRequest {
        let mut request = AdmissionRequest::new();
        // Closures for both say all, so the extensions need not be searched.
        let says_all = self.criticality.is_some() && self.add_tenant.is_some();
        let class = if says_all { None } else { head.extensions.get::<CallClass>() };
        match (&self.criticality, class) {
            (Some(criticality), _) => request = request.criticality(criticality(head)),
            (None, Some(class)) => request = request.criticality(class.criticality()),
            (None, None) => {}
        }
        match (&self.add_tenant, class.and_then(CallClass::tenant_value)) {
            (Some(add_tenant), _) => request = add_tenant(head, request),
            (None, Some(tenant)) => request = request.tenant(tenant),
            (None, None) => {}
        }
        match head.extensions.get::<Deadline>() {
            Some(deadline) if !deadline.is_never() => request.by(deadline),
            _ => request.wait_at_most(self.longest_wait.get()),
        }
    }
}

impl Default for RequestClasses {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RequestClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestClasses").field("longest_wait", &self.longest_wait).finish_non_exhaustive()
    }
}
