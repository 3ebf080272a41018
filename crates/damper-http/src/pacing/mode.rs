//! The mode of a layer: whether rejected calls are retried.

use super::PacedRetries;
use crate::retry::RetrySettings;
use alloc::sync::Arc;
use core::fmt;
use damper_core::time::DefaultClock;

/// Retries a rejected call until it succeeds or is given up.
///
/// It is the mode of a [`PacingLayer`](super::PacingLayer) that is used alone.
pub struct Repeating<B, K, Z>(pub(super) Arc<RepeatingSettings<B, K, Z>>);

/// The settings that all calls of a layer share.
pub(super) type RepeatingSettings<B, K, Z> = RetrySettings<DefaultClock, B, PacedRetries<K>, Z>;

/// Clones share the policy.
impl<B, K, Z> Clone for Repeating<B, K, Z> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: fmt::Debug, K, Z> fmt::Debug for Repeating<B, K, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Repeating").field(&self.0).finish()
    }
}

/// Only paces calls. The mode of a [`PacingLayer`](super::PacingLayer) inside of retries.
#[derive(Clone, Copy)]
pub struct PaceOnly<Z> {
    pub(super) sleep: Z,
}

impl<Z> fmt::Debug for PaceOnly<Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaceOnly").finish_non_exhaustive()
    }
}
