//! A call that unwinds has failed.

use super::{BreakerRef, Permit};

/// Runs a part of the call that has this permit. If it unwinds, the call has failed, and the panic goes on.
///
/// The permit is told so by a guard on the stack. A call that is dropped while its caller unwinds has no guard, and is
/// told apart as cancelled.
#[inline]
pub(crate) fn fail_on_unwind<B: BreakerRef, T>(permit: &mut Option<Permit<B>>, part: impl FnOnce() -> T) -> T {
    let guard = FailOnUnwind(permit);
    let result = part();
    core::mem::forget(guard);
    result
}

/// Tells a failure when it is dropped; else it is forgotten.
struct FailOnUnwind<'a, B: BreakerRef>(&'a mut Option<Permit<B>>);

impl<B: BreakerRef> Drop for FailOnUnwind<'_, B> {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.failure();
        }
    }
}
