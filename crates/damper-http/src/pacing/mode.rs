//! The mode of a layer: whether rejected calls are retried.

use crate::retry::RetrySettings;
use crate::{ClassifyResponse, ResponseHead};
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use damper_core::retry::Failure;
use damper_core::time::DefaultClock;

/// Retries a rejected call until it succeeds or is given up.
///
/// It is the mode of a [`PacingLayer`](super::PacingLayer) that is used alone.
pub struct Repeating<B, K, Z> {
    /// The settings that all calls of a layer share.
    pub(super) settings: Arc<RetrySettings<DefaultClock, B, K, Z>>,
    /// The longest time of a call, which no sleep outlasts.
    pub(super) longest: Duration,
}

/// Clones share the policy.
impl<B, K, Z> Clone for Repeating<B, K, Z> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings), longest: self.longest }
    }
}

impl<B: fmt::Debug, K, Z> fmt::Debug for Repeating<B, K, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Repeating").field(&self.settings).finish()
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

/// Judges no outcome, because the pacer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Unjudged;

impl<E> ClassifyResponse<E, Option<Failure>> for Unjudged {
    fn classify(&self, _: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
        None
    }
}
