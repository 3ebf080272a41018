//! A breaker's permit learns how its call ended.

use crate::completion::CallObserver;
use damper_core::breaker::{BreakerRef, Permit, Verdict};

/// Judges a probe by the first data of a body, so that no long stream keeps the breaker half-open.
///
/// The first data make the probe a success. If that closes the breaker, the end of the body counts as that of any other
/// call of the closed state; if more probes are needed, the end counts for nothing.
impl<B: BreakerRef> CallObserver for Permit<B> {
    #[inline]
    fn ended(self, verdict: Verdict) {
        self.record(verdict);
    }

    #[inline]
    fn first_data(&mut self) {
        self.probe_answered();
    }
}
