//! The right to change the settings.

use crate::sync::{AtomicBool, Ordering};

/// The right to change settings, held by one thread at a time.
///
/// Dropping it releases it, also when a panic unwinds.
#[must_use]
#[derive(Debug)]
pub(super) struct Claim<'a>(&'a AtomicBool);

impl<'a> Claim<'a> {
    /// Claims the right, unless another thread has it.
    pub(super) fn of(is_claimed: &'a AtomicBool) -> Option<Self> {
        // ORDERING: Acquire pairs with the Release in `drop`: the thread that claims sees all changes of the previous holder.
        // loom-tests: breaker_settings::changers_exclude_one_another.
        is_claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok().then(|| Self(is_claimed))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // ORDERING: Release, as in `of`.
        self.0.store(false, Ordering::Release);
    }
}
