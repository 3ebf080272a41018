//! What all calls of a layer share.

use damper_core::retry::Retry;

/// What all calls of a layer share.
pub(super) struct RetrySettings<C, B, V, Z> {
    /// Its budget is apart.
    pub(super) retry: Retry<C>,
    pub(super) budgets: B,
    pub(super) failures: V,
    pub(super) sleep: Z,
}
