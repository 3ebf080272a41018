//! A permit while the code of a service or a caller runs.

use super::HeldPermit;
use core::mem;
use damper_core::gate::Permit;

/// Ends a permit as one of a call that panicked if it is dropped, which only a panic does.
///
/// A call that is dropped while its caller unwinds has no such watch, because it has not panicked itself.
#[must_use = "it watches until `over`"]
pub(super) struct Unwinding<'a, P: Permit, T>(&'a mut Option<(HeldPermit<P>, T)>);

impl<'a, P: Permit, T> Unwinding<'a, P, T> {
    #[inline]
    pub(super) const fn watch(pending: &'a mut Option<(HeldPermit<P>, T)>) -> Self {
        Self(pending)
    }

    /// The permit and its companion.
    #[inline]
    pub(super) const fn pending(&mut self) -> &mut Option<(HeldPermit<P>, T)> {
        self.0
    }

    /// Ends the watch: nothing panicked.
    #[inline]
    pub(super) fn over(self) {
        mem::forget(self);
    }
}

impl<P: Permit, T> Drop for Unwinding<'_, P, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some((permit, _)) = self.0.take() {
            permit.panicked();
        }
    }
}
