//! The servers that answer for a part of the slots.

use super::server_clock::ServerClock;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use damper_core::breaker::State;
use damper_core::{BreakerConfig, CircuitBreaker};

/// The number of slots of a cluster.
const SLOTS: usize = 16_384;

/// The number of shards of a cluster.
///
/// Each server has a range of slots, so few shards have two servers.
const SHARDS: usize = 64;

/// The state of the servers that answer for a part of the slots.
///
/// A single server is one shard. The servers of a cluster fail one by one, so every 256 slots have a breaker and a clock of their own.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) breaker: CircuitBreaker,
    pub(crate) clock: ServerClock,
    /// The local time in µs of the last reply.
    replied_at: AtomicU64,
}

impl Shard {
    /// Creates the shard of a single server.
    pub(crate) fn of_server(now: u64) -> Vec<Self> {
        vec![Self::new(now)]
    }

    /// Creates the shards of a cluster.
    pub(crate) fn of_cluster(now: u64) -> Vec<Self> {
        (0..SHARDS).map(|_| Self::new(now)).collect()
    }

    /// Returns the index of a slot's shard, of `shards`.
    pub(crate) fn index(slot: usize, shards: usize) -> usize {
        slot * shards / SLOTS
    }

    /// Returns the first slot of the shard with this index, of `shards`.
    pub(crate) fn first_slot(index: usize, shards: usize) -> usize {
        index * SLOTS / shards
    }

    fn new(now: u64) -> Self {
        Self { breaker: CircuitBreaker::new(CONFIG), clock: ServerClock::default(), replied_at: AtomicU64::new(now) }
    }

    /// Returns whether the breaker lets all calls pass.
    pub(crate) fn is_closed(&self) -> bool {
        self.breaker.state() == State::Closed
    }

    /// Returns the local time in µs of the last reply, or of the start.
    pub(crate) fn replied_at(&self) -> u64 {
        // ORDERING: Relaxed. The time publishes nothing.
        self.replied_at.load(Ordering::Relaxed)
    }

    /// Notes a reply that arrived at the local time `at`.
    pub(crate) fn replied(&self, at: u64) {
        // ORDERING: Relaxed, as in `replied_at`. The latest of concurrent replies wins.
        self.replied_at.fetch_max(at, Ordering::Relaxed);
    }
}

/// The settings of the breakers.
///
/// Five consecutive failures open a breaker, for 50 ms at first and 200 ms at most. The jitter shortens each cooldown by up to half.
const CONFIG: BreakerConfig = match BreakerConfig::builder()
    .failure_threshold(5)
    .cooldown(Duration::from_millis(50))
    .cooldown_factor(2.0)
    .max_cooldown(Duration::from_millis(200))
    .cooldown_jitter(50)
    .build()
{
    Ok(config) => config,
    Err(_) => BreakerConfig::DEFAULT,
};

#[cfg(test)]
mod tests {
    use super::{CONFIG, SLOTS, Shard};
    use core::time::Duration;

    #[test]
    fn breaker_recovers_within_a_second() {
        assert_eq!(CONFIG.max_cooldown(), Duration::from_millis(200));
    }

    #[test]
    fn every_slot_has_a_shard() {
        assert_eq!(Shard::index(SLOTS - 1, 1), 0);
        assert_eq!((Shard::index(0, 64), Shard::index(255, 64), Shard::index(256, 64)), (0, 0, 1));
        assert_eq!(Shard::index(SLOTS - 1, 64), 63);
        assert!((0..64).all(|index| Shard::index(Shard::first_slot(index, 64), 64) == index));
    }
}
