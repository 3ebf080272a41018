//! Checks of many keys, whose slots are fetched together.

use super::KeyedLimiter;
use super::table::Fingerprint;
use crate::limit::{Allowed, Denied, KeyedAlgorithm};
use crate::time::Clock;
use core::hash::{BuildHasher, Hash};

/// The number of keys whose slots are fetched together.
///
/// A processor can have about this many loads in flight at once. Other numbers were not measured.
const AHEAD: usize = 16;

/// The next keys to check, with their fingerprints. The slots of these keys are being loaded.
struct Batch<'a, K: ?Sized> {
    keys: [Option<(&'a K, Fingerprint)>; AHEAD],
    /// The number of these keys that have been checked.
    checked: usize,
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// Takes one token of each of these keys, in their order, and returns the answers.
    ///
    /// The iterator [checks](Self::check) a key when it returns the answer for that key. Keys that the iterator does
    /// not reach take no token.
    ///
    /// In a table that is larger than the processor's caches, a check mostly waits for memory. This method begins to
    /// load the slots of the next 16 keys before it decides about the first of them, so that the loads overlap. In a
    /// small table it gains nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{KeyedLimiter, ManualClock, Quota};
    ///
    /// let limits = KeyedLimiter::<u64>::builder(Quota::per_second(10).burst(2)).clock(ManualClock::new()).build()?;
    /// let messages = [7, 8, 7, 7];
    /// let passed: Vec<_> = limits.check_many(&messages).filter(|(_, answer)| answer.is_ok()).map(|(&key, _)| key).collect();
    /// assert_eq!(passed, [7, 8, 7]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_many<'a>(
        &'a self,
        keys: impl IntoIterator<Item = &'a K, IntoIter: 'a>,
    ) -> impl Iterator<Item = (&'a K, Result<Allowed, Denied>)> + 'a {
        let mut keys = keys.into_iter().fuse();
        let mut batch = Batch { keys: [None; AHEAD], checked: AHEAD };
        core::iter::from_fn(move || {
            if batch.checked == AHEAD {
                batch = Batch { keys: core::array::from_fn(|_| keys.next().map(|key| self.fetch(key))), checked: 0 };
            }
            let (key, fingerprint) = batch.keys[batch.checked]?;
            batch.checked += 1;
            Some((key, self.take_hashed(fingerprint, key, 1).map(|(allowed, _)| allowed)))
        })
    }

    /// Hashes a key, and begins to load the set of slots that it is most likely in.
    #[inline]
    fn fetch<'a>(&self, key: &'a K) -> (&'a K, Fingerprint) {
        let fingerprint = self.fingerprint(key);
        self.table.fetch(fingerprint);
        (key, fingerprint)
    }
}
