//! A decision of one keyed limiter that is a part of a decision of several: what it took can be given back.

use super::KeyedLimiter;
use super::keyed_limiter::Receipt;
use crate::limit::{Allowed, Denied, KeyedAlgorithm};
use crate::time::Clock;
use core::hash::{BuildHasher, Hash};

/// Where tokens were taken, so that they can be given back.
#[derive(Debug)]
#[must_use]
pub struct Revocable(Receipt);

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// As [`check_n`](Self::check_n); what was taken can be given back.
    pub(crate) fn take_revocably(&self, key: &K, n: u32) -> Result<(Allowed, Revocable), Denied> {
        self.take(key, n).map(|(allowed, receipt)| (allowed, Revocable(receipt)))
    }

    /// Gives back `n` tokens that this key took, less what has been refilled since.
    pub(crate) fn revoke(&self, key: &K, n: u32, Revocable(receipt): Revocable) {
        self.roll_back(self.fingerprint(key), n, receipt);
    }

    /// Returns the refusal that [`check_n`](Self::check_n) would answer by the key's own debt, and takes nothing. `None` where
    /// that would allow it. A key without a slot is judged by what it may have spent from its shared bucket, not by whether
    /// there is a slot for it.
    pub(crate) fn refusal(&self, key: &K, n: u32) -> Option<Denied> {
        let fingerprint = self.fingerprint(key);
        let refusal = |line: &_, word, at| A::take(line, word, at, n, &self.clock).err();
        let seen = self.visit(fingerprint, |line, word, at| (word, refusal(line, word, at)));
        seen.unwrap_or_else(|| {
            self.visit_shared_of(fingerprint, key, |line, at, debt| (None, refusal(line, debt.of_key, at)))
        })
    }
}
