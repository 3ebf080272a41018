//! Reports a panic.

use super::CallObserver;
use core::mem;

/// Reports a panic of the code in its scope to the observer, if it is still pending. The panic goes on.
///
/// It lives on the stack while that code runs, and is [ended](Self::over) after it. A call that is dropped while its caller unwinds has no
/// such guard, because it has not panicked itself.
#[must_use = "it guards while it is in scope"]
pub(super) struct PanicGuard<'a, O: CallObserver, T>(&'a mut Option<(O, T)>);

impl<'a, O: CallObserver, T> PanicGuard<'a, O, T> {
    #[inline]
    pub(super) fn new(pending: &'a mut Option<(O, T)>) -> Self {
        Self(pending)
    }

    /// Returns the observer and its companion value, if they are still pending.
    #[inline]
    pub(super) fn pending(&self) -> Option<&(O, T)> {
        self.0.as_ref()
    }

    /// Ends the guard after the code has returned.
    #[inline]
    pub(super) fn over(self) {
        mem::forget(self);
    }
}

impl<O: CallObserver, T> Drop for PanicGuard<'_, O, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some((observer, _)) = self.0.take() {
            observer.panicked();
        }
    }
}
