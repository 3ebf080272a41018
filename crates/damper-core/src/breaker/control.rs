//! What somebody asks for, whatever the state is.

use super::word::Phase;
use super::{Cause, CircuitBreaker, OnStateChange};
use crate::sync::{Backoff, Ordering};
use crate::time::Clock;

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    /// Opens the breaker until somebody [resets](Self::reset) it: every call is refused, and none is a probe.
    pub fn force_open(&self) {
        self.force(Phase::ForcedOpen);
    }

    /// Closes the breaker until somebody [resets](Self::reset) it: every call passes, and none is counted.
    pub fn force_closed(&self) {
        self.force(Phase::ForcedClosed);
    }

    /// Stops the breaker from tripping until somebody [resets](Self::reset) it: every call passes, and all are
    /// counted, as [`status`](Self::status) tells.
    pub fn disable(&self) {
        self.force(Phase::Disabled { failures: 0 });
    }

    /// Lets the breaker work as ever, except that calls which it would refuse pass uncounted: to see what it would
    /// do before it does. Until somebody [resets](Self::reset) it.
    pub fn metrics_only(&self) {
        self.set_metrics_only(1);
    }

    /// Closes the breaker, with nothing counted, and ends whatever it was forced to, and
    /// [`metrics_only`](Self::metrics_only) as the other controls do. Calls that are under way tell it nothing any
    /// more. Of one that was closed it is [told](super::OnStateChange) too.
    pub fn reset(&self) {
        self.force(Phase::Closed { failures: 0 });
    }

    /// Brings the breaker to a state, whatever the one before, and ends metrics only.
    fn force(&self, phase: Phase) {
        self.set_metrics_only(0);
        let backoff = Backoff::new();
        loop {
            let current = self.word.load();
            if self.replace(current, current.start_over(phase), Some(Cause::Control)) {
                return;
            }
            backoff.spin();
        }
    }

    fn set_metrics_only(&self, flag: u64) {
        // ORDERING: Relaxed: a flag that publishes nothing, and nothing is published with it.
        self.metrics_only.store(flag, Ordering::Relaxed);
    }

    /// Whether what would be refused passes.
    pub(super) fn is_metrics_only(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.metrics_only.load(Ordering::Relaxed) != 0
    }
}
