//! A call that unwinds has failed.

use super::{BreakerRef, Permit};

/// Runs a part of the call that has this permit. If that unwinds, a failure is counted, and the panic goes on.
///
/// A call that is dropped while its caller unwinds runs no part of it, and so is cancelled, as ever.
#[inline]
pub(crate) fn fail_on_unwind<B: BreakerRef, T>(permit: &mut Option<Permit<B>>, part: impl FnOnce() -> T) -> T {
    let guard = Guard(permit);
    let returned = part();
    core::mem::forget(guard);
    returned
}

/// Stands on the stack while the part runs.
struct Guard<'a, B: BreakerRef>(&'a mut Option<Permit<B>>);

impl<B: BreakerRef> Drop for Guard<'_, B> {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.failure();
        }
    }
}
