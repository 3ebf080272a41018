//! A decision of one keyed limiter that is a part of a decision of several: what it took can be given back.

use super::KeyedLimiter;
use super::keyed_limiter::Receipt;
use crate::clock::Clock;
use crate::limit::{Allowed, Denied, KeyedAlgorithm};
use core::hash::{BuildHasher, Hash};

/// Where tokens were taken, so that they can be given back.
#[derive(Debug)]
#[must_use]
pub(crate) struct Revocable(Receipt);

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// As [`check_n`](Self::check_n); what was taken can be given back.
    pub(crate) fn take_revocably(&self, key: &K, n: u32) -> Result<(Allowed, Revocable), Denied> {
        self.take(key, n).map(|(allowed, receipt)| (allowed, Revocable(receipt)))
    }

    /// Gives back `n` tokens that this key took, less what has been refilled since.
    pub(crate) fn revoke(&self, key: &K, n: u32, Revocable(receipt): Revocable) {
        self.roll_back(self.fingerprint(key), n, receipt);
    }

    /// Returns the refusal that [`check_n`](Self::check_n) would answer, and takes nothing. `None` where it would be
    /// allowed, and of a key without a slot, of which nothing is known.
    pub(crate) fn refusal(&self, key: &K, n: u32) -> Option<Denied> {
        let refusal = |line: &_, word, at| (word, A::take(line, word, at, n, &self.clock).err());
        self.visit(self.fingerprint(key), refusal).flatten()
    }
}
