//! A bounded table of buckets: set-associative, like the cache of a processor.
//!
//! A key's hash names the one set it can be in; a set is a few slots behind a lock of its own. A slot is the hash of
//! its key and the word of its bucket, 16 bytes, and the key itself is not kept. A newcomer to a full set takes over the
//! slot that is full soonest, with its word: what the evicted key still owed, the newcomer owes. So an idle victim,
//! whose bucket was full, loses nothing, and nobody gets a fresh burst by pushing others out.

use crate::clock::Clock;
use crate::quota::{Refusal, Timeline};
use alloc::boxed::Box;
use parking_lot::Mutex;

/// The slots of a set: at half load, 2 keys in 100 find theirs full.
const WAYS: usize = 8;

/// Slots per key of capacity.
const SLOTS_PER_KEY: usize = 2;

/// A key's bucket. The hash 0 stands for no key; the word 0 is that of a full bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u64,
    word: u64,
}

#[derive(Debug)]
pub(super) struct Table {
    /// A power of two of them.
    sets: Box<[Mutex<[Slot; WAYS]>]>,
}

/// What came of taking tokens.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The position at which it was decided.
    pub(super) at: u64,
    /// The key's word afterwards.
    pub(super) word: u64,
    pub(super) result: Result<(), Refusal>,
}

impl Table {
    /// A table for `capacity` keys at the least.
    pub(super) fn new(capacity: usize) -> Self {
        let sets = (capacity * SLOTS_PER_KEY).div_ceil(WAYS).next_power_of_two();
        Self { sets: (0..sets).map(|_| Mutex::default()).collect() }
    }

    /// The keys that the table can hold.
    pub(super) fn slots(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// Takes `n` tokens from the bucket of the key with this hash, all or none.
    pub(super) fn take(&self, hash: u64, n: u32, line: &Timeline, clock: &impl Clock) -> Outcome {
        let hash = hash.max(1);
        // The low bits choose the set; the whole hash is compared.
        let mut set = self.sets[hash as usize & (self.sets.len() - 1)].lock();
        // Read under the lock, so that no word of this set comes from a later reading.
        let at = line.position(clock.now());
        let slot = match set.iter().position(|slot| slot.hash == hash) {
            Some(own) => own,
            None => Self::victim(&set, at),
        };
        let slot = &mut set[slot];
        let word = line.heal(slot.word, at, clock).unwrap_or(slot.word);
        match line.take(word, at, n) {
            Ok(taken) if n > 0 => {
                *slot = Slot { hash, word: taken };
                Outcome { at, word: taken, result: Ok(()) }
            }
            // A newcomer that takes nothing, or is refused, evicts nobody: the word stays the owner's.
            Ok(word) => Outcome { at, word, result: Ok(()) },
            Err(refusal) => {
                slot.word = word;
                Outcome { at, word, result: Err(refusal) }
            }
        }
    }

    /// The slot that is full soonest; an empty one is full already.
    fn victim(set: &[Slot; WAYS], at: u64) -> usize {
        let soonest = set.iter().enumerate().min_by_key(|(_, slot)| Timeline::debt(slot.word, at));
        soonest.map_or(0, |(index, _)| index)
    }
}
