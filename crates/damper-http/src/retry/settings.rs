//! The policy, budgets, protocol and timer of a layer.

use alloc::sync::Arc;
use damper_core::retry::Retry;

/// The settings that all calls of a layer share.
pub(crate) struct RetrySettings<C, B, P, Z> {
    /// The policy without its budget, which is in `budgets`.
    pub(crate) retry: Retry<C>,
    /// Shared, because budgets need not be `Clone`, and the other settings are replaced one by one.
    pub(crate) budgets: Arc<B>,
    pub(crate) protocol: P,
    pub(crate) sleep: Z,
}
