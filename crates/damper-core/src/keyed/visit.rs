//! What is decided about the bucket of a key that has a slot.

use super::keyed_limiter::{KeyedLimiter, Place, Receipt, Taken};
use super::slot::{Slot, Word};
use super::table::{Fingerprint, Set};
use crate::limit::KeyedAlgorithm;
use crate::quota::Line;
use crate::sync::Backoff;
use crate::time::Clock;

impl<K: ?Sized, C: Clock, S, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// Takes tokens from a slot that has this word, of a key that is not below empty and a quota with a limit, if nobody
    /// comes between.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    pub(super) fn take_straight(&self, slot: &Slot, word: Word, n: u32) -> Option<Taken> {
        let (index, quota) = self.tiers.at(|| word.tier());
        let (epoch, line) = quota.read_for_fast_path::<A::Line>()?;
        if n == 0 {
            return None;
        }
        // A token bucket that is below empty is the loop's business anyway.
        let mut line = if A::BY_WINDOWS { self.expecting_moved(index, line) } else { line };
        // After the word; which is before the epoch, as `look` says.
        let at = line.reading(self.clock.now());
        let full = A::word_straight(&line, word.level(), at, &self.clock)?;
        if !quota.is_current(epoch) {
            return None;
        }
        // No closures here: a call that is given the line makes all the others keep it in memory.
        match A::take(&line, full, at, n, &self.clock) {
            Ok((after, allowed)) if slot.replace(word, word.at_level(after)) => {
                Some(Ok((allowed, Receipt { at: A::receipt(after, at), tier: index as u8, place: Place::Slot })))
            }
            Err(denied) if slot.still_has(word) => Some(Err(denied)),
            _ => None,
        }
    }

    /// The slot of a key, if it has one that nobody is taking from it, and its word.
    pub(super) fn slot_of<'a>(&'a self, fingerprint: Fingerprint) -> Option<(&'a Slot, Word)> {
        let with_word = |slot: &'a Slot| Some((slot, slot.word_of(fingerprint)?));
        // One that is being taken from the key may stand before the one that it got since.
        let or_another = || self.table.candidates(fingerprint).into_iter().flat_map(Set::slots).find_map(with_word);
        with_word(self.table.find(fingerprint)?).or_else(or_another)
    }

    /// The line, the position of now and the bucket's word, of what a slot was seen to have; `None` if the quota is
    /// just changing.
    ///
    /// The word comes before the epoch, because it tells the tier. It may be of an earlier one: a decision stands only if
    /// the slot still has that word afterwards, and so it is as if it had been read last.
    #[inline]
    pub(super) fn look(&self, word: Word) -> Option<(A::Line, u64, u64)> {
        let (quota, (epoch, mut line)) = self.read_tier(word.tier());
        // After the word, as in `OneWord::look`.
        let at = line.reading(self.clock.now());
        let full = A::word(&line, word.level(), at, &self.clock);
        quota.is_current(epoch).then_some((line, at, full))
    }

    /// Decides about the bucket of a key, until a decision stands; `None` if the key has no slot. A decision that
    /// leaves the word as it is writes nothing.
    #[inline]
    pub(super) fn visit<T>(
        &self,
        fingerprint: Fingerprint,
        decide: impl Fn(&A::Line, u64, u64) -> (u64, T),
    ) -> Option<T> {
        self.visit_in_tier(fingerprint, |_, line, word, at| decide(line, word, at))
    }

    /// As [`visit`](Self::visit), told which tier it is.
    #[inline]
    pub(super) fn visit_in_tier<T>(
        &self,
        fingerprint: Fingerprint,
        decide: impl Fn(usize, &A::Line, u64, u64) -> (u64, T),
    ) -> Option<T> {
        let backoff = Backoff::new();
        loop {
            let (slot, word) = self.slot_of(fingerprint)?;
            if let Some((line, at, full)) = self.look(word) {
                let (after, answer) = decide(word.tier(), &line, full, at);
                let stands =
                    if after == full { slot.still_has(word) } else { slot.replace(word, word.at_level(after)) };
                if stands {
                    return Some(answer);
                }
            }
            backoff.spin();
        }
    }

    /// Gives back what was taken, less what has been refilled since.
    pub(super) fn roll_back(&self, fingerprint: Fingerprint, n: u32, receipt: Receipt) {
        match receipt.place {
            Place::Nowhere => {}
            Place::Shared { .. } => self.roll_back_shared(fingerprint, n, receipt),
            Place::Slot => {
                self.visit_in_tier(fingerprint, |tier, line, word, at| {
                    // The receipt's position is on the line of its tier, and means nothing on another.
                    let is_same = tier == usize::from(receipt.tier);
                    (if is_same { A::roll_back(line, word, at, n, receipt.at) } else { word }, ())
                });
            }
        }
    }
}
