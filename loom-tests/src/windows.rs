//! A small copy of the fixed window and the sliding counter, with bugs.
//!
//! The real ones do not have these bugs.
//!
//! A window is a second of the clock. Of the window before, a sliding counter counts all, and a fixed window nothing.

use damper_core::Clock;
use loom::sync::atomic::{AtomicU64, Ordering};

/// The flaws of this copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing: for the proof that the copy is one.
    None,
    /// A reading from an earlier window than the word's opens that one.
    LateOpens,
    /// The second thread to move on moves on what the first one has moved.
    MovesTwice,
    /// Tokens of one window are given back even if another window is counted by now.
    BackAnywhere,
}

/// The window that is counted, and what was taken in the one before and in this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    number: u64,
    previous: u64,
    current: u64,
}

impl Counts {
    fn of(word: u64) -> Self {
        Self { number: word >> 32, previous: word >> 16 & 0xffff, current: word & 0xffff }
    }

    fn word(self) -> u64 {
        self.number << 32 | self.previous << 16 | self.current
    }

    fn used(self) -> u64 {
        self.previous + self.current
    }
}

#[derive(Debug)]
pub struct Windows {
    bug: Bug,
    limit: u64,
    slides: bool,
    word: AtomicU64,
}

impl Windows {
    /// A fixed window, of which nothing is taken.
    pub fn fixed(bug: Bug, limit: u64) -> Self {
        Self { bug, limit, slides: false, word: AtomicU64::new(0) }
    }

    /// A sliding counter, of which nothing is taken.
    pub fn sliding(bug: Bug, limit: u64) -> Self {
        Self { slides: true, ..Self::fixed(bug, limit) }
    }

    /// The count of the window `here`, if the window `since` was counted.
    fn moved_on(&self, counts: Counts, since: u64, here: u64) -> Counts {
        match here.checked_sub(since) {
            Some(0) => counts,
            None if self.bug != Bug::LateOpens => counts,
            Some(1) if self.slides => Counts { number: here, previous: counts.current, current: 0 },
            _ => Counts { number: here, previous: 0, current: 0 },
        }
    }

    /// Takes `n` if there is room for them; the window in which it did.
    pub fn take(&self, n: u64, clock: &impl Clock) -> Option<u64> {
        let mut first = None;
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let here = clock.now() / 1_000_000_000;
            let counts = Counts::of(word);
            let since = *first.get_or_insert(counts.number);
            let since = if self.bug == Bug::MovesTwice { since } else { counts.number };
            let mut counts = self.moved_on(counts, since, here);
            if counts.used() + n > self.limit {
                return None;
            }
            counts.current += n;
            if self.replace(word, counts) {
                return Some(counts.number);
            }
        }
    }

    /// Gives back `n` that were taken in the window `taken`.
    pub fn roll_back(&self, n: u64, taken: u64) {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let mut counts = Counts::of(word);
            if counts.number != taken && self.bug != Bug::BackAnywhere {
                return;
            }
            counts.current = counts.current.saturating_sub(n);
            if self.replace(word, counts) {
                return;
            }
        }
    }

    /// The count now.
    pub fn used(&self, clock: &impl Clock) -> u64 {
        let counts = Counts::of(self.word.load(Ordering::Relaxed));
        self.moved_on(counts, counts.number, clock.now() / 1_000_000_000).used()
    }

    fn replace(&self, old: u64, new: Counts) -> bool {
        self.word.compare_exchange(old, new.word(), Ordering::Release, Ordering::Relaxed).is_ok()
    }
}
