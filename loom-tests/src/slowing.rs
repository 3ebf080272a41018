//! A small copy of a quota that is slowed while others check, with bugs.
//!
//! The real one does not have these bugs.
//!
//! Plain integers: a line brings `rate` tokens a millisecond, a word is the position at which the bucket is full.

use crate::Time;
use damper_core::Clock;
use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// The flaws of this copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing: for the proof that the copy is one.
    None,
    /// The clock is read after the epoch was looked at again.
    LateReading,
    /// The slower line starts once, where the old one was before it was published.
    OneBend,
    /// A word that lies far ahead is healed between the bends, too.
    HealingBetween,
}

/// The tick and the position of a line's start, its rate, and the deepest debt.
///
/// They are in force while the epoch says so.
type Record = [AtomicU64; 4];

#[derive(Debug)]
pub struct Slowing {
    bug: Bug,
    clock: Time,
    epoch: AtomicU64,
    records: [Record; 2],
    word: AtomicU64,
}

/// The fast line brings so many tokens a millisecond, the slow one none to speak of.
pub const FAST: u64 = 1;
const SLOW: u64 = 0;
const DEEPEST: u64 = 5;
const NO_HEALING: u64 = 1 << 40;

impl Slowing {
    /// A full bucket on the fast line.
    pub fn new(bug: Bug, clock: Time) -> Self {
        let record = |rate| [0, 0, rate, DEEPEST].map(AtomicU64::new);
        Self { bug, clock, epoch: AtomicU64::new(0), records: [record(FAST), record(FAST)], word: AtomicU64::new(0) }
    }

    fn millis(&self) -> u64 {
        self.clock.now() / 1_000_000
    }

    fn load(&self, epoch: u64) -> [u64; 4] {
        self.records[(epoch & 1) as usize].each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    fn publish(&self, epoch: u64, record: [u64; 4]) {
        fence(Ordering::Release);
        for (word, value) in self.records[(epoch & 1) as usize].iter().zip(record) {
            word.store(value, Ordering::Relaxed);
        }
        self.epoch.store(epoch, Ordering::Release);
    }

    fn position([start, position, rate, _]: [u64; 4], now: u64) -> u64 {
        position + (now - start) * rate
    }

    /// Slows the line.
    pub fn slow(&self) {
        let old = self.load(0);
        let now = self.millis();
        let healing = if self.bug == Bug::HealingBetween { DEEPEST } else { NO_HEALING };
        self.publish(1, [now, Self::position(old, now), SLOW, healing]);
        if self.bug != Bug::OneBend {
            let now = self.millis();
            self.publish(2, [now, Self::position(old, now), SLOW, DEEPEST]);
        }
    }

    /// Takes `n` tokens if the word is then at most `most` ahead; the rate of the line on which it did.
    pub fn take(&self, n: u64, most: u64) -> Option<u64> {
        loop {
            let epoch = self.epoch.load(Ordering::Acquire);
            let line = self.load(epoch);
            let word = self.word.load(Ordering::Relaxed);
            let early = if self.bug == Bug::LateReading { None } else { Some(self.millis()) };
            fence(Ordering::Acquire);
            if self.epoch.load(Ordering::Relaxed) != epoch {
                continue;
            }
            let at = Self::position(line, early.unwrap_or_else(|| self.millis()));
            let next = word.max(at) + n;
            let (next, answer) = match next <= at + most {
                true => (next, Some(line[2])),
                false if word > at + line[3] => (at + line[3], None),
                false => return None,
            };
            if self.word.compare_exchange(word, next, Ordering::Release, Ordering::Relaxed).is_ok()
                && let Some(answer) = answer
            {
                return Some(answer);
            }
        }
    }

    /// How far the word is ahead of now.
    pub fn owed(&self) -> u64 {
        let line = self.load(self.epoch.load(Ordering::Acquire));
        self.word.load(Ordering::Relaxed).saturating_sub(Self::position(line, self.millis()))
    }
}
