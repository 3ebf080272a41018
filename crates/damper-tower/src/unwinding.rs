//! A permit while the code of a service runs.

use core::mem;
use damper_core::gate::Permit;

/// Ends a permit as one of a call that panicked if it is dropped, which only a panic does.
///
/// So a caller that catches the panic and keeps the future does not keep a slot.
#[derive(Debug)]
#[must_use = "it watches until `over`"]
pub struct Unwinding<'a, P: Permit>(&'a mut Option<P>);

impl<'a, P: Permit> Unwinding<'a, P> {
    /// Watches a permit, if there is one.
    #[inline]
    pub const fn watch(permit: &'a mut Option<P>) -> Self {
        Self(permit)
    }

    /// The permit.
    #[inline]
    pub const fn permit(&mut self) -> &mut Option<P> {
        self.0
    }

    /// Ends the watch: nothing panicked.
    #[inline]
    pub fn over(self) {
        mem::forget(self);
    }
}

impl<P: Permit> Drop for Unwinding<'_, P> {
    #[inline]
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.panicked();
        }
    }
}
