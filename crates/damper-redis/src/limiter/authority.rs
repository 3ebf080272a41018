//! The authority over checks: the server, or the policy.

use core::sync::atomic::{AtomicU64, Ordering};

/// The record of who decides: the server, or the policy since when.
///
/// Each shard of servers has a bit, which is set while its server does not answer. The policy is in force while any bit is set.
#[derive(Debug, Default)]
pub(crate) struct Authority {
    /// The bits of the shards that do not answer.
    silent: AtomicU64,
    /// The local time in µs at which the policy last came into force or went out of it.
    since: AtomicU64,
    /// The local time in µs of the policy's last decision; 0 before the first.
    decided: AtomicU64,
}

/// A change of who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The policy decides from now on.
    ToPolicy,
    /// The server decides again, after the policy did for so many µs.
    ToServer(u64),
}

impl Authority {
    /// Notes at the local time `now` that a shard does not answer.
    pub(crate) fn silent(&self, shard: usize, now: u64) -> Option<Change> {
        let bit = bit(shard);
        // ORDERING: Relaxed here and in all methods. Observers read the bits and the times, and no decision depends on them.
        if self.silent.load(Ordering::Relaxed) & bit != 0 || self.silent.fetch_or(bit, Ordering::Relaxed) != 0 {
            return None;
        }
        self.since.store(now, Ordering::Relaxed);
        Some(Change::ToPolicy)
    }

    /// Notes at the local time `now` that a shard answers. Writes nothing if its bit is not set.
    pub(crate) fn answers(&self, shard: usize, now: u64) -> Option<Change> {
        let bit = bit(shard);
        // ORDERING: Relaxed, as in `silent`.
        if self.silent.load(Ordering::Relaxed) & bit == 0 || self.silent.fetch_and(!bit, Ordering::Relaxed) != bit {
            return None;
        }
        Some(Change::ToServer(now.saturating_sub(self.since.swap(now, Ordering::Relaxed))))
    }

    /// Notes that the policy decides a check at the local time `now`.
    pub(crate) fn decides(&self, now: u64) {
        // ORDERING: Relaxed, as in `silent`.
        self.decided.store(now.max(1), Ordering::Relaxed);
    }

    /// Returns the local time in µs of the policy's last decision, if there was one.
    pub(crate) fn last_decision(&self) -> Option<u64> {
        // ORDERING: Relaxed, as in `silent`.
        Some(self.decided.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Returns whether the policy is in force.
    pub(crate) fn is_policy(&self) -> bool {
        // ORDERING: Relaxed, as in `silent`.
        self.silent.load(Ordering::Relaxed) != 0
    }

    /// Returns whether the policy decides for the slots of this shard.
    pub(crate) fn is_silent(&self, shard: usize) -> bool {
        // ORDERING: Relaxed, as in `silent`.
        self.silent.load(Ordering::Relaxed) & bit(shard) != 0
    }

    /// Returns the first shard after this one, in a circle, that does not answer.
    pub(crate) fn next_silent(&self, shard: usize) -> Option<usize> {
        // ORDERING: Relaxed, as in `silent`.
        let silent = self.silent.load(Ordering::Relaxed);
        let first = (shard + 1) % 64;
        // Both numbers are below 64.
        (silent != 0).then(|| (first + silent.rotate_right(first as u32).trailing_zeros() as usize) % 64)
    }

    /// Returns the local time in µs of the last change.
    pub(crate) fn since(&self) -> u64 {
        // ORDERING: Relaxed, as in `silent`.
        self.since.load(Ordering::Relaxed)
    }
}

/// Returns the bit of a shard.
fn bit(shard: usize) -> u64 {
    1 << (shard % 64)
}

#[cfg(test)]
mod tests {
    use super::{Authority, Change};

    #[test]
    fn silent_shards_are_found_in_a_circle() {
        let authority = Authority::default();
        assert_eq!((authority.next_silent(0), authority.is_silent(0)), (None, false));
        for shard in [0, 5, 63] {
            authority.silent(shard, 1);
        }
        assert_eq!((authority.is_silent(5), authority.is_silent(6)), (true, false));
        assert_eq!([0, 4, 5, 62, 63].map(|shard| authority.next_silent(shard)), [5, 5, 63, 63, 0].map(Some));
        authority.answers(0, 2);
        authority.answers(63, 2);
        assert_eq!(authority.next_silent(5), Some(5), "it is the only one");
    }

    #[test]
    fn policy_is_in_force_while_any_shard_is_silent() {
        let authority = Authority::default();
        assert_eq!(authority.answers(3, 1), None);
        assert_eq!(authority.silent(3, 10), Some(Change::ToPolicy));
        assert_eq!((authority.silent(3, 11), authority.silent(4, 12)), (None, None));
        assert_eq!((authority.is_policy(), authority.since()), (true, 10));
        assert_eq!(authority.answers(3, 20), None);
        assert_eq!(authority.answers(4, 25), Some(Change::ToServer(15)));
        assert_eq!((authority.is_policy(), authority.since()), (false, 25));
        assert_eq!(authority.last_decision(), None);
        authority.decides(0);
        assert_eq!(authority.last_decision(), Some(1));
    }
}
