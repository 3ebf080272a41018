//! The wait after a refusal.

use super::scope_pacer::drawn;
use std::time::Duration;

/// The wait after a refusal: the server's `retry_after`, doubled with each further attempt.
///
/// It is at least 1 ms, and at most the longest wait.
///
/// Jitter spreads clients that received the same wait. It lengthens waits up to the longest one, and shortens waits at
/// the longest one. No wait is shorter than a `retry_after` that is within the longest wait.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// use core::time::Duration;
/// use damper::mesh::MeshBackoff;
///
/// let exact = MeshBackoff::default().jitter(0);
/// let retry_after = Duration::from_secs(45);
/// let waits = [0, 1, 2, 3].map(|attempt| exact.wait(retry_after, attempt, 0).as_secs());
/// assert_eq!(waits, [45, 90, 180, 300]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MeshBackoff {
    max_wait: Duration,
    jitter: u32,
}

const SHORTEST: Duration = Duration::from_millis(1);

impl Default for MeshBackoff {
    fn default() -> Self {
        Self { max_wait: Duration::from_secs(5 * 60), jitter: 10 }
    }
}

impl MeshBackoff {
    /// Sets the longest wait after a refusal. Default: 5 minutes.
    #[must_use]
    pub const fn max_wait(self, max_wait: Duration) -> Self {
        Self { max_wait, ..self }
    }

    /// Sets the largest jitter, in percent of a wait. Default: 10. With 0 the formula is exact.
    #[must_use]
    pub const fn jitter(self, percent: u32) -> Self {
        Self { jitter: if percent > 100 { 100 } else { percent }, ..self }
    }

    /// Returns the longest wait.
    #[must_use]
    pub const fn longest(&self) -> Duration {
        if self.max_wait.as_nanos() < SHORTEST.as_nanos() { SHORTEST } else { self.max_wait }
    }

    /// Returns the wait before the next attempt.
    ///
    /// `attempt` counts earlier refusals from 0. `random` is any uniformly random number.
    #[must_use]
    pub fn wait(&self, retry_after: Duration, attempt: u32, random: u64) -> Duration {
        self.wait_within(retry_after, attempt, random, Duration::MAX)
    }

    /// Returns the wait with as much of its jitter as fits into `left`.
    ///
    /// The wait without jitter may be longer than `left`. Half of the room beyond the shortest wait is kept for a timer that is late.
    pub(super) fn wait_within(&self, retry_after: Duration, attempt: u32, random: u64, left: Duration) -> Duration {
        let (shortest, longest) = self.bounds(retry_after, attempt);
        let room = left.saturating_sub(shortest) / 2;
        shortest.saturating_add(drawn(longest.saturating_sub(shortest).min(room), random))
    }

    /// Returns the shortest and the longest wait that jitter may draw.
    pub(super) fn bounds(&self, retry_after: Duration, attempt: u32) -> (Duration, Duration) {
        let most = self.longest();
        let exact = retry_after.saturating_mul(1u32.checked_shl(attempt).unwrap_or(u32::MAX)).max(SHORTEST);
        if exact < most {
            return (exact, exact.saturating_add(self.part_of(exact)).min(most));
        }
        let least = if retry_after <= most { retry_after } else { Duration::ZERO };
        (most.saturating_sub(self.part_of(most)).max(least).max(SHORTEST), most)
    }

    /// Returns the largest jitter of a wait.
    pub(super) fn part_of(&self, wait: Duration) -> Duration {
        (wait / 100).saturating_mul(self.jitter)
    }
}
