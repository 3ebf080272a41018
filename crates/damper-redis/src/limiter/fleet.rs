//! The server of the limits of one name, and who decides on them.

use super::authority::{Authority, Change};
use super::builder::Listener;
use super::counters::Counters;
use super::{RedisCounts, RedisEvent, RedisStatus, Unavailable, WhenDown};
use crate::script::SlotTags;
use crate::server::{Heartbeat, Server};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use tokio::sync::Notify;

/// The wait, in µs, of a check that [`WhenDown::Closed`] denies or that has no share.
///
/// It equals the longest pause between attempts to reach the server.
pub(crate) const CLOSED_WAIT: u64 = 200_000;

/// The server of the limits of one name, the other processes that share them, and who decides.
pub(crate) struct Fleet {
    pub(crate) server: Server,
    pub(crate) name: String,
    pub(crate) tags: SlotTags,
    pub(crate) when_down: WhenDown,
    pub(crate) heartbeat: Heartbeat,
    /// The number of processes that share the limit; 0 while it is unknown.
    pub(crate) processes: AtomicU32,
    pub(crate) authority: Authority,
    pub(crate) counters: Counters,
    pub(crate) listener: Option<Listener>,
    /// The number of evicted keys with a charge, read when the policy last decided a new key.
    pub(crate) evictions: AtomicU64,
    /// The local time in µs at which a thread last found that this number had grown.
    pub(crate) evicted_at: AtomicU64,
    /// Wakes the tasks that have commands for the server, when it answers again.
    pub(crate) back: Notify,
}

impl Fleet {
    /// Notes after a call whether the server or the policy decides.
    pub(crate) fn note(&self, slot: usize, error: Option<&Unavailable>) {
        let (index, shard) = self.server.shard(slot);
        let now = self.server.now();
        let has_no_runtime = matches!(error, Some(Unavailable::NoRuntime));
        let is_silent = has_no_runtime || !self.server.is_connected() || !shard.is_closed();
        let change = match error {
            Some(_) if is_silent => self.authority.silent(index, now),
            None if !is_silent => self.authority.answers(index, now),
            _ => None,
        };
        match (change, error) {
            (Some(Change::ToPolicy), Some(error)) => {
                let why = self.server.last_error().map_or_else(|| error.to_string(), |last| last.message);
                self.tell(&RedisEvent::PolicyInForce { policy: self.when_down, why });
            }
            (Some(Change::ToServer(micros)), _) => {
                self.tell(&RedisEvent::ServerBack { after: Duration::from_micros(micros) });
                self.back.notify_waiters();
            }
            _ => {}
        }
    }

    /// Notifies the listener.
    pub(crate) fn tell(&self, event: &RedisEvent) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }

    /// Returns the local time in µs before which the shares of a new key have nothing.
    ///
    /// `evictions` returns the number of evicted keys with a charge. A key that was evicted while the policy decides may come back, but
    /// what it spent is forgotten. So after such an eviction new keys start empty. Otherwise each eviction would give them a share of
    /// the burst again.
    pub(crate) fn shares_from(&self, evictions: impl FnOnce() -> u64) -> u64 {
        if !self.authority.is_policy() {
            return 0;
        }
        let evictions = evictions();
        // ORDERING: Relaxed for all. The values only set the start of the caller's new share. A thread that reads the new count and
        // the old time creates one share that starts earlier.
        if self.evictions.swap(evictions, Ordering::Relaxed) != evictions {
            self.evicted_at.store(self.server.now(), Ordering::Relaxed);
        }
        self.evicted_at.load(Ordering::Relaxed)
    }

    /// Returns the number of processes that share the limit; 0 until the server or a setting provides it.
    pub(crate) fn processes(&self) -> u32 {
        // ORDERING: Relaxed. The number publishes nothing.
        self.processes.load(Ordering::Relaxed)
    }

    /// Returns the status of a limiter whose leases hold `leased` tokens.
    pub(crate) fn status(&self, leased: u64) -> RedisStatus {
        let now = self.server.now();
        RedisStatus {
            policy: self.authority.is_policy().then_some(self.when_down),
            since: Duration::from_micros(now.saturating_sub(self.authority.since())),
            decided_by_policy: self.counters.allowed_by_policy.get() + self.counters.denied_by_policy.get(),
            last_decided_by_policy: self
                .authority
                .last_decision()
                .map(|at| Duration::from_micros(now.saturating_sub(at))),
            breaker: self.server.breaker_state(),
            connected: self.server.is_connected(),
            processes: self.processes(),
            last_error: self.server.last_error(),
            leased,
        }
    }

    /// Returns the counts of a limiter whose leases spent `uncounted` tokens since they were last reported.
    pub(crate) fn counts(&self, uncounted: u64) -> RedisCounts {
        let counters = &self.counters;
        let [commands, failures, connections] = self.server.counts();
        RedisCounts {
            commands,
            failures,
            tokens_by_lease: counters.tokens_by_lease.get() + uncounted,
            denied_locally: counters.denied_locally.get(),
            allowed_by_server: counters.allowed_by_server.get(),
            denied_by_server: counters.denied_by_server.get(),
            allowed_by_policy: counters.allowed_by_policy.get(),
            denied_by_policy: counters.denied_by_policy.get(),
            grants: counters.grants.get(),
            tokens_granted: counters.tokens_granted.get(),
            losses: counters.losses.get(),
            connections,
        }
    }
}
