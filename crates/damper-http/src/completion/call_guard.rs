//! A call that is about to be made.

use super::{CallObserver, ObservedCall};
use core::fmt;
use core::marker::PhantomData;
use core::mem;

/// Guards a service's `call`, and reports a panic in it to the observer. The panic reaches the caller.
///
/// Create it before the call, and pass it the future: `CallGuard::new(observer, completion).observe(service.call(request))`. If it is
/// dropped without a call, it drops the observer, which gets no verdict. [`ObservedCall`] has an example.
#[must_use = "it makes no call by itself"]
pub struct CallGuard<O: CallObserver, W> {
    // `Some` until the service has returned its future.
    pending: Option<(O, W)>,
}

impl<O: CallObserver, W> CallGuard<O, W> {
    /// Creates a guard for a call whose end is reported to this observer.
    #[inline]
    pub fn new(observer: O, completion: W) -> Self {
        Self { pending: Some((observer, completion)) }
    }

    /// Returns the call of this future, which reports its end.
    #[inline]
    pub fn observe<F, N>(self, future: F) -> ObservedCall<F, O, W, N> {
        ObservedCall { future, pending: self.finish(), refusal: PhantomData }
    }

    /// Ends the guard after the service has returned its future.
    #[inline]
    pub(crate) fn finish(mut self) -> Option<(O, W)> {
        let pending = self.pending.take();
        // Nothing is left to drop.
        mem::forget(self);
        pending
    }
}

impl<O: CallObserver, W> Drop for CallGuard<O, W> {
    #[inline]
    fn drop(&mut self) {
        if let Some((observer, _)) = self.pending.take()
            && std::thread::panicking()
        {
            observer.panicked();
        }
    }
}

impl<O: CallObserver, W> fmt::Debug for CallGuard<O, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallGuard").finish_non_exhaustive()
    }
}
