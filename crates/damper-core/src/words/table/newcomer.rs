//! How a key gets a slot: a state machine that makes one access at a time.
//!
//! A key has a few candidate slots, and at most one of them may be its own. No process waits for another, and each of them may stop for ever
//! at any step. So the slot is taken in three swaps:
//!
//! 1. **Search** all candidates. If the key has a slot, that is the end. Otherwise choose one to take: a vacant slot, one whose bucket
//!    is full, or one with a provisional word, in this order.
//! 2. **Insert** a provisional word of the key, with a nonce that no other provisional word has.
//! 3. **Check** the other candidates. Remove every provisional word of the same key. If the key has a slot there, **withdraw**.
//! 4. **Confirm**: swap the provisional word for a confirmed one, of a full bucket. If another process removed the word, start again.
//!
//! Only then does a call take tokens from the slot, by another swap.
//!
//! **At most one slot is confirmed for a key.** Of two newcomers at least one finds the other's word when it checks, because both inserted
//! before they checked. A newcomer that finds a provisional word removes it, so that the other cannot confirm. One that finds a confirmed
//! word withdraws. A slot is lost by its key only when its bucket is full, and then the key owes nothing.
//!
//! **Nothing is stuck.** A provisional word of a dead process stands in no one's way: the next newcomer of its key removes it, and a
//! newcomer of another key takes its slot if there is no better one. Two newcomers may remove each other's words for a while, so they back off.
//!
//! The rules were found by an exhaustive search, which is a test beside this file. It also refutes those that do not hold: a newcomer that
//! is admitted by the swap that inserts it, and provisional words that may be equal.

use super::slot::Slot;

/// An access to one of a key's candidate slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Access {
    /// Loads the word of a candidate.
    Load(usize),
    /// Swaps the word of a candidate, if it is still the first of these.
    Swap(usize, Slot, Slot),
}

impl Access {
    /// Returns the candidate.
    pub(super) const fn candidate(self) -> usize {
        match self {
            Self::Load(candidate) | Self::Swap(candidate, ..) => candidate,
        }
    }
}

/// The end of a newcomer's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Arrival {
    /// The key has this candidate, with this word.
    InSlot(usize, Slot),
    /// All candidates belong to other keys whose buckets are not full.
    NoSlot,
    /// Another process was in the way.
    Disturbed,
}

/// A call whose key has no slot yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Newcomer {
    fingerprint: u64,
    /// The level of a full bucket.
    full: u64,
    candidates: usize,
    /// This process' provisional word.
    own: Slot,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Looks at the next candidate, with the best one to take so far.
    Search { next: usize, best: Option<(Rank, usize, Slot)> },
    /// Takes a candidate that has this word.
    Insert { at: usize, old: Slot },
    /// Looks at the next of the other candidates.
    Check { at: usize, next: usize },
    /// Removes another newcomer's word.
    Remove { at: usize, next: usize, word: Slot },
    /// Removes the own word, because the key has a slot.
    Withdraw { at: usize },
    /// Makes the slot the key's own.
    Confirm { at: usize },
}

/// How good a candidate is to take: the greater, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Rank {
    Provisional,
    Full,
    Vacant,
}

impl Newcomer {
    /// Starts the way of a key with this many candidates. `full` is the level of a full bucket.
    pub(super) const fn new(fingerprint: u64, full: u64, candidates: usize, nonce: u64) -> Self {
        let own = Slot::provisional(fingerprint, nonce);
        Self { fingerprint, full, candidates, own, step: Step::Search { next: 0, best: None } }
    }

    /// Returns the next access.
    pub(super) const fn access(&self) -> Access {
        match self.step {
            Step::Search { next, .. } | Step::Check { next, .. } => Access::Load(next),
            Step::Insert { at, old } => Access::Swap(at, old, self.own),
            Step::Remove { next, word, .. } => Access::Swap(next, word, Slot::VACANT),
            Step::Withdraw { at } => Access::Swap(at, self.own, Slot::VACANT),
            Step::Confirm { at } => Access::Swap(at, self.own, self.confirmed()),
        }
    }

    /// Goes on after the access, which found this word.
    ///
    /// A swap has succeeded if it found the word that it expected. `is_full` says whether the bucket of a level is full.
    #[must_use]
    pub(super) fn found(&mut self, word: Slot, is_full: impl Fn(u64) -> bool) -> Option<Arrival> {
        let has_swapped = matches!(self.access(), Access::Swap(_, old, _) if old == word);
        self.step = match self.step {
            Step::Search { next, .. } if word.is_of(self.fingerprint) => return Some(Arrival::InSlot(next, word)),
            Step::Search { next, best } => {
                let rank = if word.is_vacant() {
                    Some(Rank::Vacant)
                } else if word.is_provisional() {
                    Some(Rank::Provisional)
                } else {
                    is_full(word.level()).then_some(Rank::Full)
                };
                let better = rank.filter(|&rank| best.is_none_or(|(best, ..)| rank > best));
                let best = better.map(|rank| (rank, next, word)).or(best);
                match best {
                    _ if next + 1 < self.candidates => Step::Search { next: next + 1, best },
                    Some((_, at, old)) => Step::Insert { at, old },
                    None => return Some(Arrival::NoSlot),
                }
            }
            Step::Insert { at, .. } if has_swapped => self.check(at, 0),
            Step::Check { at, next } if word.names(self.fingerprint) => {
                if word.is_provisional() {
                    Step::Remove { at, next, word }
                } else {
                    Step::Withdraw { at }
                }
            }
            // After a failed swap the same candidate is looked at again: it may have been confirmed.
            Step::Remove { at, next, .. } if !has_swapped => Step::Check { at, next },
            Step::Check { at, next } | Step::Remove { at, next, .. } => self.check(at, next + 1),
            Step::Confirm { at } if has_swapped => return Some(Arrival::InSlot(at, self.confirmed())),
            Step::Insert { .. } | Step::Withdraw { .. } | Step::Confirm { .. } => return Some(Arrival::Disturbed),
        };
        None
    }

    /// Returns the step that looks at `next` or the candidate after it, which is not the own one.
    const fn check(&self, at: usize, next: usize) -> Step {
        let next = if next == at { next + 1 } else { next };
        if next < self.candidates { Step::Check { at, next } } else { Step::Confirm { at } }
    }

    const fn confirmed(&self) -> Slot {
        Slot::confirmed(self.fingerprint, self.full)
    }
}
