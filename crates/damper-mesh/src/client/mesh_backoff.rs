//! How long to wait after a refusal.

use std::time::Duration;

/// The wait after a refusal: the server's `retry_after`, doubled with each further attempt.
///
/// A wait is at least 1 ms, and at most the longest wait.
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
        Self { max_wait: Duration::from_mins(5), jitter: 10 }
    }
}

impl MeshBackoff {
    /// Sets the longest wait, also before a call that is slowed down. Default: 5 minutes.
    #[must_use]
    pub const fn max_wait(self, max_wait: Duration) -> Self {
        Self { max_wait, ..self }
    }

    /// Sets by how many percent at most a wait is shortened by chance. Default: 10.
    ///
    /// It never becomes shorter than `retry_after`, where that is below the longest wait. 0 is the exact formula.
    #[must_use]
    pub const fn jitter(self, percent: u32) -> Self {
        Self { jitter: if percent > 100 { 100 } else { percent }, ..self }
    }

    /// Returns the longest wait.
    #[must_use]
    pub const fn longest(&self) -> Duration {
        if self.max_wait.as_nanos() < SHORTEST.as_nanos() { SHORTEST } else { self.max_wait }
    }

    /// Returns the wait before the next attempt, after so many refused ones before this one.
    ///
    /// Any random number does for `random`.
    #[must_use]
    pub fn wait(&self, retry_after: Duration, attempt: u32, random: u64) -> Duration {
        let doubled = retry_after.saturating_mul(1u32.checked_shl(attempt).unwrap_or(u32::MAX));
        let wait = doubled.clamp(SHORTEST, self.longest());
        let shortest = wait.saturating_sub(wait / 100 * self.jitter).max(retry_after.min(wait));
        let room = u64::try_from(wait.saturating_sub(shortest).as_nanos()).unwrap_or(u64::MAX);
        // The upper half of the product is uniform up to `room`.
        let drawn = (u128::from(random) * (u128::from(room) + 1)) >> 64;
        wait.saturating_sub(Duration::from_nanos(drawn as u64))
    }
}
