//! A small copy of the healing of a bucket after its clock stepped back, with bugs.
//!
//! The real one does not have these bugs.
//!
//! Plain integers: a second brings a token, a word is the position at which the bucket is full.

use crate::Time;
use damper_core::Clock;
use loom::sync::atomic::{AtomicU64, Ordering};

/// The flaws of this copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing: for the proof that the copy is one.
    None,
    /// A word beyond the deepest debt is brought to a full bucket.
    ToFull,
    /// The clock is read before the word.
    EarlyReading,
}

#[derive(Debug)]
pub struct Healing {
    bug: Bug,
    clock: Time,
    burst: u64,
    deepest: u64,
    word: AtomicU64,
}

impl Healing {
    /// A full bucket of `burst` tokens, of which `deepest` may be owed.
    pub fn new(bug: Bug, clock: Time, burst: u64, deepest: u64) -> Self {
        Self { bug, clock, burst, deepest, word: AtomicU64::new(0) }
    }

    fn seconds(&self) -> u64 {
        self.clock.now() / 1_000_000_000
    }

    /// Takes `n` tokens if they are there; a refusal is what heals.
    pub fn take(&self, n: u64) -> bool {
        loop {
            let early = if self.bug == Bug::EarlyReading { Some(self.seconds()) } else { None };
            // A load that loom tries against every interleaving, as in the second setting of `check`.
            let word = self.word.fetch_or(0, Ordering::Relaxed);
            let at = early.unwrap_or_else(|| self.seconds());
            let next = word.max(at) + n;
            let (next, taken) = if next <= at + self.burst {
                (next, true)
            } else if word > at + self.deepest {
                (if self.bug == Bug::ToFull { at } else { at + self.deepest }, false)
            } else {
                return false;
            };
            if self.word.compare_exchange(word, next, Ordering::Release, Ordering::Relaxed).is_ok() && taken {
                return true;
            }
        }
    }

    /// How far the word is ahead of now.
    pub fn owed(&self) -> u64 {
        self.word.load(Ordering::Relaxed).saturating_sub(self.seconds())
    }
}
