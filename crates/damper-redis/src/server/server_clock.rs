//! An estimate of the server's clock from its replies.

use core::sync::atomic::{AtomicU64, Ordering};

/// An upper bound, in µs, for the difference between the server's clock and this process's.
///
/// The server makes a reply between the sending of the command and the arrival of the reply. So the server's time in each reply bounds
/// the difference from both sides. The estimate is the tightest upper bound so far. A reply contradicts it after the server's clock has
/// stepped or the clocks have drifted apart, and then the estimate becomes that reply's own bound.
///
/// An upper bound is safe. A `not_after` that is too late lets a late command have an effect, which is harmless. One that is too early
/// would make the command ineffective.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    /// The bound; 0 before the first reply.
    ahead: AtomicU64,
}

impl ServerClock {
    /// Returns the server's time at the local time `at`; `None` before the first reply.
    pub(crate) fn at(&self, at: u64) -> Option<u64> {
        match self.load() {
            0 => None,
            ahead => Some(at.wrapping_add(ahead)),
        }
    }

    /// Learns from a reply that the server made at `now`, between the local times `sent` and `received`.
    pub(crate) fn observe(&self, now: u64, sent: u64, received: u64) {
        let (most, least) = (now.wrapping_sub(sent), now.wrapping_sub(received));
        let ahead = self.load();
        if ahead == 0 || most < ahead || ahead < least {
            // ORDERING: Relaxed. The bound is one number, and any of the replies in flight may set it last.
            self.ahead.store(most, Ordering::Relaxed);
        }
    }

    /// Reads the bound.
    fn load(&self) -> u64 {
        // ORDERING: Relaxed. The bound publishes nothing.
        self.ahead.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::ServerClock;

    #[test]
    fn estimate_is_the_tightest_bound_from_above() {
        let clock = ServerClock::default();
        assert_eq!(clock.at(5), None);
        clock.observe(1_000_050, 0, 100);
        assert_eq!(clock.at(200), Some(1_000_250));
        clock.observe(1_000_310, 300, 320); // 10 µs after it was sent
        assert_eq!(clock.at(400), Some(1_000_410));
        clock.observe(1_000_590, 500, 600); // slower, and no news
        assert_eq!(clock.at(600), Some(1_000_610));
    }

    #[test]
    fn steps_of_the_servers_clock_are_followed_at_once() {
        let clock = ServerClock::default();
        clock.observe(1_000_000, 0, 10);
        clock.observe(9_000_020, 15, 25);
        assert_eq!(clock.at(30), Some(9_000_035));
        clock.observe(500_040, 35, 45);
        assert_eq!(clock.at(50), Some(500_055));
    }
}
