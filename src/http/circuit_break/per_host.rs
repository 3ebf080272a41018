//! A breaker per host that a layer makes itself.

use super::Breakers;
use super::host::with_host;
use super::told::{Hook, Told};
use crate::breaker::{BreakerConfig, CircuitBreaker, CircuitOpen, Permit};
use crate::clock::{DefaultClock, Monotonic};
use crate::http::Head;
use crate::keyed::LruStore;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// The hosts that are known unless told otherwise.
const DEFAULT_CAPACITY: usize = 1024;

type HostBreaker = CircuitBreaker<DefaultClock, Told>;

/// A breaker per host, of the hosts that were called last. Made by [`CircuitBreakerLayer::per_host`](super::CircuitBreakerLayer::per_host).
#[derive(Clone)]
pub struct PerHost {
    hosts: Arc<LruStore<String, HostBreaker>>,
    config: BreakerConfig,
    hook: Option<Hook>,
}

impl PerHost {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self { hosts: hosts(DEFAULT_CAPACITY), config, hook: None }
    }

    pub(super) fn told_by(&self, hook: Hook) -> Self {
        Self { hosts: hosts(self.hosts.capacity()), config: self.config, hook: Some(hook) }
    }

    pub(super) fn of_at_most(&self, capacity: usize) -> Self {
        Self { hosts: hosts(capacity), config: self.config, hook: self.hook.clone() }
    }
}

fn hosts(capacity: usize) -> Arc<LruStore<String, HostBreaker>> {
    Arc::new(LruStore::new(capacity).keep_if(|breaker: &HostBreaker| breaker.status().is_worth_keeping()))
}

impl Breakers for PerHost {
    type Breaker = Arc<HostBreaker>;

    fn try_acquire(&self, head: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        with_host(head, |host| {
            let closed = || {
                let told = Told::new(host, self.hook.clone());
                CircuitBreaker::with_clock(self.config, Monotonic).listened_to_by(told)
            };
            self.hosts.get_or_insert_with(host, closed)
        })
        .try_acquire_owned()
    }
}

impl fmt::Debug for PerHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerHost").field("hosts", &self.hosts).field("config", &self.config).finish_non_exhaustive()
    }
}
