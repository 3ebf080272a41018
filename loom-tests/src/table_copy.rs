//! A small copy of the change of owners in the keyed table, with bugs.
//!
//! The real one does not have these bugs.
//!
//! Plain counts: a bucket holds how many tokens are used, and nothing is refilled. There are two slots, and as many
//! versions of an owner as a model says.

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering};

/// The flaws of this copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing: for the proof that the copy is one.
    None,
    /// A refusal does not read the word again.
    NoSecondLook,
    /// A newcomer writes its fingerprint before it has claimed the slot.
    FingerprintFirst,
    /// A newcomer publishes its word before its fingerprint.
    WordFirst,
    /// A newcomer publishes what was owed, and spends afterwards.
    Unspent,
    /// A first sight takes no lock.
    NoLock,
    /// A slot that is being taken from a key hides the slot that the key got since.
    Hidden,
    /// A newcomer inherits the debt of its victim, and not that of the shared bucket.
    FreshFromOverflow,
}

/// The fate of a newcomer if no slot is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyWhenFull {
    Share,
    Evict,
}

const CLAIMED: u64 = u32::MAX as u64;

#[derive(Debug)]
struct SlotCopy {
    /// The owner; 0 in a vacant slot.
    key: AtomicU64,
    /// The version, and below it what is used.
    word: AtomicU64,
}

fn used(word: u64) -> u64 {
    word & CLAIMED
}

#[derive(Debug)]
pub struct TableCopy {
    bug: Bug,
    when_full: CopyWhenFull,
    versions: u64,
    burst: u64,
    slots: [SlotCopy; 2],
    /// The tokens that keys without a slot used.
    shared: AtomicU64,
    locks: [Mutex<()>; 4],
}

impl TableCopy {
    /// TableCopy of which nothing is used.
    pub fn new(bug: Bug, when_full: CopyWhenFull, versions: u64, burst: u64) -> Self {
        let slot = |()| SlotCopy { key: AtomicU64::new(0), word: AtomicU64::new(0) };
        Self {
            bug,
            when_full,
            versions,
            burst,
            slots: [(); 2].map(slot),
            shared: AtomicU64::new(0),
            locks: [(); 4].map(|()| Mutex::new(())),
        }
    }

    fn find(&self, key: u64) -> Option<&SlotCopy> {
        let is_its = |slot: &&SlotCopy| slot.key.load(Ordering::Relaxed) == key;
        let is_free = |slot: &&SlotCopy| used(slot.word.load(Ordering::Acquire)) != CLAIMED;
        if self.bug == Bug::Hidden {
            self.slots.iter().find(is_its).filter(is_free)
        } else {
            self.slots.iter().find(|slot| is_its(slot) && is_free(slot))
        }
    }

    /// Changes what a key used, if it has a slot, until that stands; `None` to change nothing.
    fn change<T>(&self, key: u64, change: impl Fn(u64) -> (Option<u64>, T)) -> Option<T> {
        loop {
            let slot = self.find(key)?;
            let word = slot.word.load(Ordering::Acquire);
            if used(word) == CLAIMED {
                return None;
            }
            if slot.key.load(Ordering::Acquire) != key {
                continue;
            }
            let (after, answer) = change(used(word));
            let stands = match after {
                Some(after) => {
                    let new = word - used(word) + after;
                    slot.word.compare_exchange(word, new, Ordering::Release, Ordering::Relaxed).is_ok()
                }
                None => self.bug == Bug::NoSecondLook || slot.word.load(Ordering::Relaxed) == word,
            };
            if stands {
                return Some(answer);
            }
        }
    }

    fn take(&self, key: u64, n: u64) -> Option<bool> {
        let room = |used: u64| (used + n <= self.burst).then_some(used + n);
        self.change(key, |used| (room(used), room(used).is_some()))
    }

    /// Takes `n` tokens of a key.
    pub fn check(&self, key: u64, n: u64) -> bool {
        for _ in 0..3 {
            if let Some(taken) = self.take(key, n).or_else(|| self.take_first(key, n)) {
                return taken;
            }
        }
        panic!("evicted again and again");
    }

    fn take_first(&self, key: u64, n: u64) -> Option<bool> {
        let _held = (self.bug != Bug::NoLock).then(|| self.locks[key as usize % 4].lock().unwrap());
        loop {
            if self.find(key).is_some() {
                return None;
            }
            let shared = self.shared.load(Ordering::Relaxed);
            let words = self.slots.each_ref().map(|slot| (slot, slot.word.load(Ordering::Acquire)));
            let (slot, word) = words.into_iter().min_by_key(|(_, word)| used(*word))?;
            if used(word) == CLAIMED {
                continue;
            }
            if used(word) > 0 && self.when_full == CopyWhenFull::Share {
                return Some(self.take_shared(n));
            }
            let owed = if self.bug == Bug::FreshFromOverflow { used(word) } else { used(word).max(shared) };
            if owed + n > self.burst {
                return Some(false);
            }
            if self.bug == Bug::FingerprintFirst {
                slot.key.store(key, Ordering::Release);
            }
            let spent = if self.bug == Bug::Unspent { owed } else { owed + n };
            if !self.hand_over(slot, word, key, spent) {
                continue;
            }
            // Back to spending.
            return (self.bug != Bug::Unspent).then_some(true);
        }
    }

    /// Gives a slot to another owner, if its word is still the same.
    fn hand_over(&self, slot: &SlotCopy, word: u64, key: u64, spent: u64) -> bool {
        let version = (((word >> 32) + 1) % self.versions) << 32;
        if slot.word.compare_exchange(word, version | CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        if self.bug == Bug::WordFirst {
            slot.word.store(version | spent, Ordering::Release);
            slot.key.store(key, Ordering::Release);
        } else {
            slot.key.store(key, Ordering::Release);
            slot.word.store(version | spent, Ordering::Release);
        }
        true
    }

    fn take_shared(&self, n: u64) -> bool {
        let mut old = self.shared.load(Ordering::Relaxed);
        while old + n <= self.burst {
            match self.shared.compare_exchange(old, old + n, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(newer) => old = newer,
            }
        }
        false
    }

    /// Makes a key's bucket full again.
    pub fn reset(&self, key: u64) {
        self.change(key, |_| (Some(0), ()));
    }

    /// Forgets all keys.
    pub fn clear(&self) {
        for slot in &self.slots {
            while slot.key.load(Ordering::Acquire) != 0 {
                let word = slot.word.load(Ordering::Acquire);
                if used(word) == CLAIMED || self.hand_over(slot, word, 0, 0) {
                    break;
                }
            }
        }
    }

    /// The tokens that a key used, if it has a slot.
    pub fn used(&self, key: u64) -> Option<u64> {
        self.change(key, |used| (None, used))
    }

    /// The tokens that keys without a slot used.
    pub fn shared(&self) -> u64 {
        self.shared.load(Ordering::Relaxed)
    }

    /// How many slots a key has.
    pub fn slots_of(&self, key: u64) -> usize {
        self.slots.iter().filter(|slot| slot.key.load(Ordering::Acquire) == key).count()
    }
}
