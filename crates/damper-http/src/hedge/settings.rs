//! The settings that all calls of a layer share.

use alloc::sync::Arc;
use damper_core::retry::Hedge;

/// The settings that all calls of a layer share.
pub(super) struct HedgeSettings<C, B, P, Z, N> {
    pub(super) hedge: Arc<Hedge<C, B>>,
    /// Shared, because budgets need not be `Clone`, and the protocol is replaced alone.
    pub(super) budgets: Arc<N>,
    pub(super) protocol: P,
    pub(super) sleep: Z,
    /// Whether a retry around the layer repeats failures.
    pub(super) inside_of_retries: bool,
}
