//! Durations as whole seconds, which is all that these headers have.

use core::time::Duration;

/// Whole seconds, rounded up: who waits for them has waited long enough.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
