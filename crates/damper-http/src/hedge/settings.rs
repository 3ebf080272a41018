//! What all calls of a layer share.

use alloc::sync::Arc;
use damper_core::retry::Hedge;

/// What all calls of a layer share.
pub(super) struct HedgeSettings<C, B, P, Z> {
    pub(super) hedge: Arc<Hedge<C, B>>,
    pub(super) protocol: P,
    pub(super) sleep: Z,
}
