//! What all calls of a layer share.

use damper_core::retry::Retry;

/// What all calls of a layer share.
pub(super) struct RetrySettings<C, B, V, Z> {
    pub(super) retry: Retry<C, B>,
    pub(super) failures: V,
    pub(super) sleep: Z,
}
