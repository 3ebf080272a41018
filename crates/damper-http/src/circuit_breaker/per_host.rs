//! A breaker per host that a layer makes itself.

use super::Breakers;
use super::host::with_host;
use super::host_listener::{HostListener, Listeners};
use crate::Head;
use alloc::string::String;
use alloc::sync::Arc;
use damper_core::breaker::{BreakerConfig, CircuitBreaker, CircuitOpen, Permit};
use damper_core::store::LruStore;
use damper_core::time::{DefaultClock, Monotonic};

/// The hosts that are known unless told otherwise.
const DEFAULT_CAPACITY: usize = 1024;

type HostBreaker = CircuitBreaker<DefaultClock, HostListener>;

/// A breaker per host, of the hosts that were called last. Made by
/// [`CircuitBreakerLayer::per_host`](super::CircuitBreakerLayer::per_host).
#[derive(Clone, Debug)]
pub struct PerHost(Arc<Shared>);

/// In one `Arc`, because services are cloned often.
#[derive(Debug)]
struct Shared {
    hosts: LruStore<String, HostBreaker>,
    config: BreakerConfig,
    listeners: Arc<Listeners>,
}

impl PerHost {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self::of(DEFAULT_CAPACITY, config, Arc::new(Listeners::none()))
    }

    fn of(capacity: usize, config: BreakerConfig, listeners: Arc<Listeners>) -> Self {
        let hosts = LruStore::new(capacity).keep_if(|breaker: &HostBreaker| breaker.status().is_worth_keeping());
        Self(Arc::new(Shared { hosts, config, listeners }))
    }

    /// New ones that are told to others.
    pub(super) fn with_listeners(&self, change: impl FnOnce(&Listeners) -> Listeners) -> Self {
        Self::of(self.0.hosts.capacity(), self.0.config, Arc::new(change(&self.0.listeners)))
    }

    /// New ones, of so many hosts.
    pub(super) fn of_at_most(&self, capacity: usize) -> Self {
        Self::of(capacity, self.0.config, Arc::clone(&self.0.listeners))
    }

    fn breaker(&self, host: &str) -> Arc<HostBreaker> {
        let Shared { hosts, config, listeners } = &*self.0;
        hosts.get_or_insert_with(host, || {
            // Those before it: its own comes after this.
            listeners.telemetry.evicted(|| hosts.evictions(), || hosts.kept_evictions());
            CircuitBreaker::with_clock(*config, Monotonic).with_listener(HostListener::new(host, listeners))
        })
    }
}

impl Breakers for PerHost {
    type Breaker = Arc<HostBreaker>;

    fn try_acquire(&self, head: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        let breaker = with_host(head, |host| self.breaker(host));
        let permit = breaker.try_acquire_owned();
        self.0.listeners.telemetry.asked(&permit, || breaker.state());
        permit
    }
}
