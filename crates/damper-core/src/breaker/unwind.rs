//! A call that unwinds has failed.

use super::{BreakerRef, Permit};
use core::fmt;

/// Counts a failure if a part of the call that has this permit unwinds; the panic goes on.
///
/// Stands on the stack while that part runs, and is [over](Self::over) after it. A call that is dropped while its caller
/// unwinds has no guard, and is told apart as cancelled.
#[must_use = "it guards while it is in scope"]
pub struct FailOnUnwind<'a, B: BreakerRef>(&'a mut Option<Permit<B>>);

impl<'a, B: BreakerRef> FailOnUnwind<'a, B> {
    /// Guards the call that has this permit.
    #[inline]
    pub fn new(permit: &'a mut Option<Permit<B>>) -> Self {
        Self(permit)
    }

    /// The part has returned.
    #[inline]
    pub fn over(self) {
        core::mem::forget(self);
    }
}

impl<B: BreakerRef> fmt::Debug for FailOnUnwind<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FailOnUnwind").field(self.0).finish()
    }
}

impl<B: BreakerRef> Drop for FailOnUnwind<'_, B> {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.failure();
        }
    }
}
