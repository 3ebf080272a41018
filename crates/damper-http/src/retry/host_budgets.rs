//! A retry budget per host.

use super::Budgets;
use crate::Head;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use damper_core::OutOfRange;
use damper_core::retry::{RetryBudget, RetryBudgetConfig};
use damper_core::store::BoundedStore;
use damper_core::time::{Clock, DefaultClock, Monotonic};

/// A [`RetryBudget`] per host and port, for the most recently called hosts. Clones share them.
///
/// Retries to a failing host take nothing from the other hosts. The host is found as [breakers per
/// host](crate::CircuitBreakerLayer::per_host) find it. Requests without a host share a budget. A host that was evicted and comes back
/// starts with its whole reserve, so let the capacity exceed the number of hosts in use.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::Retry;
/// use damper::http::{HostBudgets, RetryLayer};
/// use damper::retry::RetryBudgetConfig;
///
/// # async fn sleep(_: std::time::Duration) {}
/// let budgets = HostBudgets::new(RetryBudgetConfig::builder().reserve(20).build()?, 64)?;
/// let layer = RetryLayer::sleeping_by(Retry::new(3), sleep).budgets(budgets);
/// # let _ = layer;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HostBudgets<C = DefaultClock>(Arc<HostBudgetsInner<C>>);

/// One `Arc` holds all fields, because layers are cloned.
struct HostBudgetsInner<C> {
    hosts: BoundedStore<String, RetryBudget<C>>,
    config: RetryBudgetConfig,
    clock: C,
}

impl HostBudgets {
    /// Creates budgets of this configuration for this many hosts.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the capacity is not 1 to 2^28.
    pub fn new(config: RetryBudgetConfig, capacity: usize) -> Result<Self, OutOfRange> {
        Self::with_clock(config, capacity, Monotonic)
    }

    /// Creates budgets for the 1024 most recently called hosts.
    pub(crate) fn with_default_capacity(config: RetryBudgetConfig) -> Self {
        Self(Arc::new(HostBudgetsInner { hosts: BoundedStore::default(), config, clock: Monotonic }))
    }
}

impl<C: Clock + Clone> HostBudgets<C> {
    /// Creates budgets on a clock of your own.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the capacity is not 1 to 2^28.
    pub fn with_clock(config: RetryBudgetConfig, capacity: usize, clock: C) -> Result<Self, OutOfRange> {
        Ok(Self(Arc::new(HostBudgetsInner { hosts: BoundedStore::new(capacity)?, config, clock })))
    }
}

impl<C: Clock + Clone> Budgets for HostBudgets<C> {
    type Budget = RetryBudget<C>;
    type Choice = Arc<RetryBudget<C>>;

    fn choose(&self, head: &Head<'_>) -> Arc<RetryBudget<C>> {
        let HostBudgetsInner { hosts, config, clock } = &*self.0;
        head.with_host(|host| hosts.get_or_insert_with(host, || RetryBudget::with_clock(*config, clock.clone())))
    }

    fn budget<'a>(&'a self, choice: &'a Arc<RetryBudget<C>>) -> &'a RetryBudget<C> {
        choice
    }
}

/// Clones share the budgets.
impl<C> Clone for HostBudgets<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> fmt::Debug for HostBudgets<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBudgets").field("config", &self.0.config).finish_non_exhaustive()
    }
}
