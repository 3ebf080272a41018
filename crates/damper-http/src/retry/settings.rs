//! What all calls of a layer share.

use damper_core::retry::Retry;

/// What all calls of a layer share.
pub(super) struct RetrySettings<C, B, P, Z> {
    pub(super) retry: Retry<C, B>,
    pub(super) protocol: P,
    pub(super) sleep: Z,
}
