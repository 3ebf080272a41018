//! What all calls of a layer share.

use damper_core::retry::Retry;

/// What all calls of a layer share.
pub(super) struct RetrySettings<C, B, P, Z> {
    /// Its budget is apart.
    pub(super) retry: Retry<C>,
    pub(super) budgets: B,
    pub(super) protocol: P,
    pub(super) sleep: Z,
}
