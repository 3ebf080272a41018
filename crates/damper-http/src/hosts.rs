//! A pacer per host.

use crate::Head;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use damper_core::OutOfRange;
use damper_core::Reads;
use damper_core::gate::PacerSource;
use damper_core::quota::Quota;
use damper_core::store::BoundedStore;
use damper_core::throttle::{Level, Pacer, Strategy};
use damper_core::time::{Clock, DefaultClock};

/// A [`Pacer`] per host and port, for the most recently called hosts. Clones share them.
///
/// Rejections by one host slow no calls to another. The host is found as [breakers per host](crate::CircuitBreakerLayer::per_host) find it.
/// Requests without a host share a pacer. A host that was evicted and comes back starts with a new pacer, so let the capacity exceed the
/// number of hosts in use.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::Quota;
/// use damper::http::{HostPacers, PacingLayer};
/// use damper::throttle::{Pacer, RemainingDecrease};
///
/// # async fn sleep(_: std::time::Duration) {}
/// let quota = Quota::per_hour(4_500);
/// let hosts = HostPacers::by(64, move || Pacer::with_strategy(RemainingDecrease::new(quota)))?;
/// let layer = PacingLayer::sleeping_by(hosts.clone(), sleep);
/// for (host, pacer) in hosts.store().iter() {
///     println!("{host}: {:?} before the next call", pacer.peek());
/// }
/// # let _ = layer;
/// # Ok::<(), damper::OutOfRange>(())
/// ```
pub struct HostPacers<S: Strategy = Level, C: Clock = DefaultClock>(Arc<HostPacersInner<S, C>>);

/// One `Arc` holds all fields, because layers are cloned.
struct HostPacersInner<S, C> {
    hosts: BoundedStore<String, Pacer<S, C>>,
    create: CreatePacer<S, C>,
}

/// Creates the pacer of a host.
type CreatePacer<S, C> = Box<dyn Fn() -> Pacer<S, C> + Send + Sync>;

impl HostPacers {
    /// Creates pacers with this quota per host, for the 1024 most recently called hosts.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self(Arc::new(HostPacersInner { hosts: BoundedStore::default(), create: Box::new(move || Pacer::new(quota)) }))
    }
}

impl<S: Strategy, C: Clock> HostPacers<S, C> {
    /// Creates pacers for this many hosts, each by this function: for another strategy or clock.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the capacity is not 1 to 2^28.
    pub fn by(capacity: usize, create: impl Fn() -> Pacer<S, C> + Send + Sync + 'static) -> Result<Self, OutOfRange> {
        let create = Box::new(create);
        Ok(Self(Arc::new(HostPacersInner { hosts: BoundedStore::new(capacity)?, create })))
    }

    /// Returns the pacers by their hosts.
    #[must_use]
    pub fn store(&self) -> &BoundedStore<String, Pacer<S, C>> {
        &self.0.hosts
    }
}

/// The longest sleep of all hosts.
#[cfg(feature = "metrics")]
impl<S: Strategy, C: Clock> damper_metrics::Source for HostPacers<S, C> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        let mut longest = core::time::Duration::ZERO;
        self.store().for_each(|pacer| longest = longest.max(pacer.peek()));
        readings.record(&damper_metrics::catalogue::PACING_NEXT_SLEEP, longest.as_secs_f64());
    }
}

impl<S: Strategy, C: Clock> PacerSource for HostPacers<S, C> {
    type Strategy = S;
    type Clock = C;
    type Pacer = Arc<Pacer<S, C>>;
}

impl<S: Strategy, C: Clock> Reads<Head<'_>, <Self as PacerSource>::Pacer> for HostPacers<S, C> {
    fn read_from(&self, head: &Head<'_>) -> Arc<Pacer<S, C>> {
        let HostPacersInner { hosts, create } = &*self.0;
        head.with_host(|host| hosts.get_or_insert_with(host, create))
    }
}

/// Clones share the pacers.
impl<S: Strategy, C: Clock> Clone for HostPacers<S, C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Strategy, C: Clock> fmt::Debug for HostPacers<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostPacers").field("hosts", &self.0.hosts.len()).finish_non_exhaustive()
    }
}
