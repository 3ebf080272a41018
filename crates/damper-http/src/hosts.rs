//! A value per host, for layers that keep a retry budget or a pacer for each.

use crate::Head;
use crate::retry::Budgets;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use damper_core::gate::PacerSource;
use damper_core::quota::Quota;
use damper_core::retry::{Budget, RetryBudget, RetryBudgetConfig};
use damper_core::store::BoundedStore;
use damper_core::throttle::{Pacer, Strategy};
use damper_core::time::Clock;
use damper_core::{OutOfRange, Reads};

/// A retry budget or a [`Pacer`] per host and port, for the most recently called hosts. Clones share them.
///
/// | of | are | retries or rejections of one host |
/// |---|---|---|
/// | a [`Budget`], such as a [`RetryBudget`] | the [`Budgets`] of a [`RetryLayer`](crate::RetryLayer) or a [`HedgeLayer`](crate::HedgeLayer) | take nothing from the other hosts |
/// | a [`Pacer`] | the pacers of a [`PacingLayer`](crate::PacingLayer) | slow no calls to another |
///
/// The host is found as [breakers per host](crate::CircuitBreakerLayer::per_host) find it. Requests without a host share a value. A host
/// that was evicted and comes back starts with a new one, a budget with its whole reserve, so let the capacity exceed the number of hosts in
/// use.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::{Hosts, PacingLayer, RetryLayer};
/// use damper::retry::{RetryBudget, RetryBudgetConfig};
/// use damper::throttle::{Pacer, RemainingDecrease};
/// use damper::{Quota, Retry};
///
/// # async fn sleep(_: std::time::Duration) {}
/// let config = RetryBudgetConfig::builder().reserve(20).build()?;
/// let budgets = Hosts::by(64, move || RetryBudget::new(config))?;
/// let layer = RetryLayer::sleeping_by(Retry::new(3), sleep).budgets(budgets);
/// # let _ = layer;
///
/// let quota = Quota::per_hour(4_500);
/// let pacers = Hosts::by(64, move || Pacer::with_strategy(RemainingDecrease::new(quota)))?;
/// let layer = PacingLayer::sleeping_by(pacers.clone(), sleep);
/// for (host, pacer) in pacers.store().iter() {
///     println!("{host}: {:?} before the next call", pacer.peek());
/// }
/// # let _ = layer;
/// # Ok::<(), damper::OutOfRange>(())
/// ```
pub struct Hosts<T>(Arc<HostsInner<T>>);

/// One `Arc` holds all fields, because layers are cloned.
struct HostsInner<T> {
    hosts: BoundedStore<String, T>,
    create: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T> Hosts<T> {
    /// Creates values for this many hosts, each by this function.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the capacity is not 1 to 2^28.
    pub fn by(capacity: usize, create: impl Fn() -> T + Send + Sync + 'static) -> Result<Self, OutOfRange> {
        Ok(Self::of(BoundedStore::new(capacity)?, create))
    }

    fn of(hosts: BoundedStore<String, T>, create: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self(Arc::new(HostsInner { hosts, create: Box::new(create) }))
    }

    /// Returns the values by their hosts.
    #[must_use]
    pub fn store(&self) -> &BoundedStore<String, T> {
        &self.0.hosts
    }

    /// Returns the value of the host of a request.
    fn get(&self, head: &Head<'_>) -> Arc<T> {
        let HostsInner { hosts, create } = &*self.0;
        head.with_host(|host| hosts.get_or_insert_with(host, create))
    }
}

impl Hosts<RetryBudget> {
    /// Creates budgets of this configuration for the 1024 most recently called hosts.
    #[must_use]
    pub fn budgets(config: RetryBudgetConfig) -> Self {
        Self::of(BoundedStore::default(), move || RetryBudget::new(config))
    }
}

impl Hosts<Pacer> {
    /// Creates pacers with this quota per host, for the 1024 most recently called hosts.
    #[must_use]
    pub fn pacers(quota: Quota) -> Self {
        Self::of(BoundedStore::default(), move || Pacer::new(quota))
    }
}

impl<B: Budget> Budgets for Hosts<B> {
    type Budget = B;
    type Choice = Arc<B>;

    fn choose(&self, head: &Head<'_>) -> Arc<B> {
        self.get(head)
    }

    fn budget<'a>(&'a self, choice: &'a Arc<B>) -> &'a B {
        choice
    }
}

/// The longest sleep of all hosts.
#[cfg(feature = "metrics")]
impl<S: Strategy, C: Clock> damper_metrics::Source for Hosts<Pacer<S, C>> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        let mut longest = core::time::Duration::ZERO;
        self.store().for_each(|pacer| longest = longest.max(pacer.peek()));
        readings.record(&damper_metrics::catalogue::PACING_NEXT_SLEEP, longest.as_secs_f64());
    }
}

impl<S: Strategy, C: Clock> PacerSource for Hosts<Pacer<S, C>> {
    type Strategy = S;
    type Clock = C;
    type Pacer = Arc<Pacer<S, C>>;
}

impl<S: Strategy, C: Clock> Reads<Head<'_>, <Self as PacerSource>::Pacer> for Hosts<Pacer<S, C>> {
    fn read_from(&self, head: &Head<'_>) -> Arc<Pacer<S, C>> {
        self.get(head)
    }
}

/// Clones share the values.
impl<T> Clone for Hosts<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Hosts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosts").field("hosts", &self.0.hosts.len()).finish_non_exhaustive()
    }
}
