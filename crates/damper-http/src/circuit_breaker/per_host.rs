//! A breaker per host, which their layer creates.

use super::Breakers;
use super::host_listener::{HostListener, LayerListener};
use crate::Head;
use alloc::string::String;
use alloc::sync::Arc;
use damper_core::breaker::{BreakerConfig, CircuitBreaker, CircuitOpen, Permit};
use damper_core::store::LruStore;
use damper_core::time::{DefaultClock, Monotonic};

/// The hosts that a layer keeps by default.
const DEFAULT_CAPACITY: usize = 1024;

type HostBreaker = CircuitBreaker<DefaultClock, HostListener>;

/// A breaker per host, for the hosts that were called last. Made by
/// [`CircuitBreakerLayer::per_host`](super::CircuitBreakerLayer::per_host).
#[derive(Clone, Debug)]
pub struct PerHost(Arc<PerHostInner>);

/// In one `Arc`, because services are cloned often.
#[derive(Debug)]
struct PerHostInner {
    hosts: LruStore<String, HostBreaker>,
    config: BreakerConfig,
    listener: Arc<LayerListener>,
}

impl PerHost {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self::of(DEFAULT_CAPACITY, config, Arc::new(LayerListener::unnamed()))
    }

    fn of(capacity: usize, config: BreakerConfig, listener: Arc<LayerListener>) -> Self {
        let hosts = LruStore::new(capacity).unwrap_or_default();
        let hosts = hosts.keep_if(|breaker: &HostBreaker| breaker.status().is_worth_keeping());
        Self(Arc::new(PerHostInner { hosts, config, listener }))
    }

    /// Returns new breakers with another listener.
    pub(super) fn with_listener(&self, change: impl FnOnce(&LayerListener) -> LayerListener) -> Self {
        Self::of(self.0.hosts.capacity(), self.0.config, Arc::new(change(&self.0.listener)))
    }

    /// Returns new breakers for at most `capacity` hosts.
    pub(super) fn with_capacity(&self, capacity: usize) -> Self {
        Self::of(capacity, self.0.config, Arc::clone(&self.0.listener))
    }

    fn breaker(&self, host: &str) -> Arc<HostBreaker> {
        let PerHostInner { hosts, config, listener } = &*self.0;
        hosts.get_or_insert_with(host, || {
            // This reports earlier evictions: the store evicts for this host after this closure.
            listener.telemetry.record_evictions(|| hosts.evictions(), || hosts.kept_evictions());
            CircuitBreaker::with_clock(*config, Monotonic).with_listener(HostListener::new(host, listener))
        })
    }
}

impl Breakers for PerHost {
    type Breaker = Arc<HostBreaker>;

    fn try_acquire(&self, head: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        let breaker = head.with_host(|host| self.breaker(host));
        let permit = breaker.try_acquire_owned();
        self.0.listener.telemetry.record_call(&permit, || breaker.state());
        permit
    }
}
