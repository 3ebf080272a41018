//! The policy, budgets, protocol and timer of a layer.

use alloc::sync::Arc;
use damper_core::retry::Retry;

/// What all calls of a layer share.
pub(super) struct RetrySettings<C, B, P, Z> {
    /// Its budget is apart.
    pub(super) retry: Retry<C>,
    /// Shared, because budgets need not be `Clone`, and the other settings are replaced one by one.
    pub(super) budgets: Arc<B>,
    pub(super) protocol: P,
    pub(super) sleep: Z,
}
