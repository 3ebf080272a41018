//! A breaker per host that a layer makes itself.

use super::Breakers;
use super::host::with_host;
use super::told::{Listeners, Told};
use crate::breaker::{BreakerConfig, CircuitBreaker, CircuitOpen, Permit};
use crate::clock::{DefaultClock, Monotonic};
use crate::http::Head;
use crate::keyed::LruStore;
use alloc::string::String;
use alloc::sync::Arc;

/// The hosts that are known unless told otherwise.
const DEFAULT_CAPACITY: usize = 1024;

type HostBreaker = CircuitBreaker<DefaultClock, Told>;

/// A breaker per host, of the hosts that were called last. Made by [`CircuitBreakerLayer::per_host`](super::CircuitBreakerLayer::per_host).
#[derive(Clone, Debug)]
pub struct PerHost {
    hosts: Arc<LruStore<String, HostBreaker>>,
    config: BreakerConfig,
    listeners: Arc<Listeners>,
}

impl PerHost {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self { hosts: hosts(DEFAULT_CAPACITY), config, listeners: Arc::new(Listeners::none()) }
    }

    /// New ones that are told to others.
    pub(super) fn with_listeners(&self, change: impl FnOnce(&Listeners) -> Listeners) -> Self {
        let listeners = Arc::new(change(&self.listeners));
        Self { hosts: hosts(self.hosts.capacity()), config: self.config, listeners }
    }

    /// New ones, of so many hosts.
    pub(super) fn of_at_most(&self, capacity: usize) -> Self {
        Self { hosts: hosts(capacity), config: self.config, listeners: Arc::clone(&self.listeners) }
    }

    fn breaker(&self, host: &str) -> Arc<HostBreaker> {
        self.hosts.get_or_insert_with(host, || {
            // Those before it: its own comes after this.
            self.listeners.telemetry.evicted(|| self.hosts.evictions());
            CircuitBreaker::with_clock(self.config, Monotonic).listened_to_by(Told::new(host, &self.listeners))
        })
    }
}

fn hosts(capacity: usize) -> Arc<LruStore<String, HostBreaker>> {
    Arc::new(LruStore::new(capacity).keep_if(|breaker: &HostBreaker| breaker.status().is_worth_keeping()))
}

impl Breakers for PerHost {
    type Breaker = Arc<HostBreaker>;

    fn try_acquire(&self, head: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        let breaker = with_host(head, |host| self.breaker(host));
        let permit = breaker.try_acquire_owned();
        self.listeners.telemetry.asked(&permit, || breaker.state());
        permit
    }
}
