//! The right to do what one thread at a time may do.

use super::{AtomicBool, Ordering};

/// A right that one thread at a time holds.
///
/// It is the right to change a quota or the settings of a breaker, or to end the window of an adaptive limit. No thread
/// waits for it. Dropping it releases it, also when a panic unwinds.
#[must_use]
#[derive(Debug)]
pub(crate) struct Claim<'a>(&'a AtomicBool);

impl<'a> Claim<'a> {
    /// Claims the right, unless another thread has it.
    pub(crate) fn of(is_claimed: &'a AtomicBool) -> Option<Self> {
        // ORDERING: Acquire pairs with the Release in `drop`: the thread that claims sees all changes of the previous holder.
        // loom-tests: live_quota::changers_exclude_one_another, breaker_settings::changers_exclude_one_another,
        // adaptive::no_window_ends_before_its_time, adaptive::no_window_ends_twice.
        is_claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok().then(|| Self(is_claimed))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // ORDERING: Release, as in `of`.
        self.0.store(false, Ordering::Release);
    }
}
