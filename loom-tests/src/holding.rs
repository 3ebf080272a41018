//! A small copy of tokens that are held outside of their bucket, with bugs.
//!
//! The real one does not have these bugs.
//!
//! Plain counts: time passes when the model says so, and fills the bucket.

use loom::sync::atomic::{AtomicU64, Ordering};

/// The flaws of this copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing, to show that the copy is right.
    None,
    /// A lease that ends returns its budget before its tokens.
    BudgetFirst,
    /// A stripe is refilled without claiming the room first.
    NoRoom,
}

#[derive(Debug)]
pub struct Holding {
    bug: Bug,
    level: AtomicU64,
    /// The part of the budget that is not leased, or the room of a stripe that is not claimed.
    free: AtomicU64,
    /// The tokens of the stripe.
    stripe: AtomicU64,
}

/// Of a burst of 3 a lease or a stripe may hold one.
pub const BURST: u64 = 3;
const CAPACITY: u64 = 2;

impl Holding {
    /// A full bucket, and nothing held.
    pub fn new(bug: Bug) -> Self {
        Self { bug, level: AtomicU64::new(CAPACITY), free: AtomicU64::new(1), stripe: AtomicU64::new(0) }
    }

    fn change(word: &AtomicU64, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        // The load is a read-modify-write, because loom visits every interleaving of those.
        let mut old = word.fetch_or(0, Ordering::AcqRel);
        loop {
            match word.compare_exchange(old, change(old)?, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(old),
                Err(newer) => old = newer,
            }
        }
    }

    /// So much time passes that the bucket is full.
    pub fn fill(&self) {
        Self::change(&self.level, |_| Some(CAPACITY));
    }

    /// Takes up to `n` tokens and returns how many it took.
    pub fn take_up_to(&self, n: u64) -> u64 {
        Self::change(&self.level, |level| Some(level - level.min(n))).map_or(0, |level| level.min(n))
    }

    /// Claims the budget, or the room.
    pub fn claim(&self) -> bool {
        Self::change(&self.free, |free| free.checked_sub(1)).is_some()
    }

    /// Ends a lease that holds one token.
    pub fn end_lease(&self) {
        let give_back = || Self::change(&self.level, |level| Some((level + 1).min(CAPACITY)));
        if self.bug == Bug::BudgetFirst {
            self.free.fetch_add(1, Ordering::AcqRel);
            give_back();
        } else {
            give_back();
            self.free.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Spends one token of the stripe, or of the bucket and refills the stripe.
    ///
    /// Returns how many were spent.
    pub fn check(&self) -> u64 {
        if Self::change(&self.stripe, |held| held.checked_sub(1)).is_some() {
            self.free.fetch_add(1, Ordering::AcqRel);
            return 1;
        }
        let room = u64::from(self.bug == Bug::NoRoom || self.claim());
        let taken = self.take_up_to(1 + room);
        if taken == 2 {
            self.stripe.fetch_add(1, Ordering::AcqRel);
        } else if room == 1 && self.bug != Bug::NoRoom {
            self.free.fetch_add(1, Ordering::AcqRel);
        }
        taken.min(1)
    }
}
