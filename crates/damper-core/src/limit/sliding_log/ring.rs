//! The ring of a sliding log: the words of its head and of its slots.
//!
//! ```text
//! head    63     40 39 24 23   0        slot    63   3 2     2 1   0
//!        | VERSION | LAP | INDEX |             | STAMP | FREED | LAP |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | head: INDEX | 24 | slots | the slot of the next token |
//! | head: LAP | 16 | rounds of the ring | wraps |
//! | head: VERSION | 24 | swaps that take no tokens, such as give-backs | keeps an earlier head from recurring; wraps |
//! | slot: LAP | 2 | rounds of the ring | the lowest bits of the round in which the slot was stamped |
//! | slot: FREED | 1 | | set if the stamp belongs to a token that was given back, and was moved to the lap before |
//! | slot: STAMP | 61 | units of the quota's line | the position at which the token was taken; wraps |
//!
//! A *lap* is one round of the ring. A *stamp* is the time at which a token was taken. **The lap** of a slot shows
//! which token its stamp belongs to:
//!
//! | laps behind the head | meaning | consequence |
//! |---|---|---|
//! | 1 | the slot's last token was stamped | the next token is due a window after the stamp |
//! | 2 | a thread took the slot's last token, and was stopped for a whole round before it stamped the slot | a second thread stamps the slot with the present time on its behalf. The call of the first thread has not returned yet, so this time lies within that call. (If the second thread's clock lags behind the first thread's, the stamp is early by the difference.) |
//! | 0 | the next token was taken before and given back | it is due from its stamp on. A thread that takes it at exactly the moment of the stamp leaves the stamp as it is. A thread that takes it later first moves the stamp to the previous lap. Otherwise the old stamp would pass for that of the new take. |
//!
//! Two bits are enough, because a thread that sees a head sees all slots as they were when the head was written, or
//! newer.

use crate::sync::{AtomicU64, Field, Ordering};
use alloc::boxed::Box;

/// The head of a sliding log: the number of the next token, and a version.
const INDEX: Field = Field::lowest(24);
const LAP: Field = INDEX.then(16);
const VERSION: Field = LAP.then(24);
const _: () = assert!(VERSION.end() == u64::BITS, "fields must tile the word");

/// A slot of a sliding log's ring.
const STAMPED_LAP: Field = Field::lowest(2);
const FREED: Field = STAMPED_LAP.then(1);
const STAMP: Field = FREED.then(61);
const _: () = assert!(STAMP.end() == u64::BITS, "fields must tile the word");

/// The content of a slot before its first token.
///
/// It is a stamp of the lap before the first. The log's positions in time start at one window, and this stamp lies 2^52
/// units before position 0. So the slot's first token is available, even to a thread whose clock lags behind the clock
/// that set the start.
const LONG_AGO: u64 = STAMP.put((1u64 << 52).wrapping_neg()) | STAMPED_LAP.put(u64::MAX);

/// The stamp in a slot, compared with a token of that slot.
///
/// The comparison is by *lap*, the round of the ring.
pub(super) enum Stamp {
    /// The slot was stamped in the lap before the token's.
    LapBefore(u64),
    /// The slot was stamped in the token's own lap, and the token was given back.
    SameLap(u64),
    /// The slot was stamped two laps before: no thread has stamped the token of the previous lap yet.
    Older,
    /// The slot was stamped in a later lap, so the token was taken long ago.
    Newer,
}

impl Stamp {
    pub(super) fn of(word: u64, lap: u64) -> Self {
        let stamp = STAMP.get(word);
        match STAMPED_LAP.get(lap.wrapping_sub(STAMPED_LAP.get(word))) {
            0 => Self::SameLap(stamp),
            1 => Self::LapBefore(stamp),
            2 => Self::Older,
            _ => Self::Newer,
        }
    }
}

/// The number of a token: its slot's index, and the lap (round of the ring) in which it is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenNumber {
    pub(super) lap: u64,
    pub(super) index: usize,
}

impl TokenNumber {
    pub(super) fn of(head: u64) -> Self {
        Self { lap: LAP.get(head), index: INDEX.get(head) as usize }
    }

    /// Returns the head after a take, with this token as the next one and the version of `head`.
    pub(super) fn after(self, head: u64) -> u64 {
        VERSION.put(VERSION.get(head)) | LAP.put(self.lap) | INDEX.put(self.index as u64)
    }

    /// Returns the head after tokens are given back, with this token as the next one and a new version.
    pub(super) fn back(self, head: u64) -> u64 {
        VERSION.put(VERSION.get(head).wrapping_add(1)) | LAP.put(self.lap) | INDEX.put(self.index as u64)
    }
}

/// Returns how far `at` is past `stamp`, as a signed number of units.
pub(super) fn age(at: u64, stamp: u64) -> i64 {
    STAMP.ahead(at, stamp)
}

/// Returns how far `at` is past the stamp in a slot.
pub(super) fn age_of(at: u64, word: u64) -> i64 {
    age(at, STAMP.get(word))
}

/// Returns the word of a slot with this stamp and lap.
pub(super) fn stamped(at: u64, lap: u64) -> u64 {
    STAMP.put(at) | STAMPED_LAP.put(lap)
}

/// Returns the word of a slot whose token was given back. `lap` is the lap before the token's.
pub(super) fn freed(at: u64, lap: u64) -> u64 {
    stamped(at, lap) | FREED.put(1)
}

/// Returns `word`, the word of a slot, with `at` as its stamp.
pub(super) fn restamped(word: u64, at: u64) -> u64 {
    word & !STAMP.put(u64::MAX) | STAMP.put(at)
}

pub(super) struct StampRing(Box<[AtomicU64]>);

impl StampRing {
    pub(super) fn new(limit: u32) -> Self {
        Self((0..limit).map(|_| AtomicU64::new(LONG_AGO)).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn slots(&self) -> &[AtomicU64] {
        &self.0
    }

    pub(super) fn slot(&self, place: TokenNumber) -> &AtomicU64 {
        &self.0[place.index]
    }

    /// Returns the place `n` tokens after `place`. `n` is at most the limit.
    pub(super) fn after(&self, place: TokenNumber, n: usize) -> TokenNumber {
        match place.index + n {
            index if index < self.len() => TokenNumber { index, ..place },
            index => TokenNumber { lap: place.lap.wrapping_add(1), index: index - self.len() },
        }
    }

    /// Returns the place `n` tokens before `place`. `n` is at most the limit.
    pub(super) fn before(&self, place: TokenNumber, n: usize) -> TokenNumber {
        match place.index.checked_sub(n) {
            Some(index) => TokenNumber { index, ..place },
            None => TokenNumber { lap: place.lap.wrapping_sub(1), index: place.index + self.len() - n },
        }
    }

    /// Stamps the caller's own slot, unless another thread did so on its behalf.
    pub(super) fn stamp(&self, mine: TokenNumber, at: u64, window: i64) {
        let slot = self.slot(mine);
        // ORDERING: Relaxed load: a stamp that is a window old at `at` can only be the one that the decision saw. The
        // Release of the swap below pairs with the Acquire fence in `is_current`: a thread that sees the stamp also
        // sees the head that took the token, and the epoch of the quota. Otherwise it could judge the stamp by an older
        // head or quota. loom-tests: sliding_log::stamp_on_behalf_of_another_publishes_the_head.
        let mut word = slot.load(Ordering::Relaxed);
        loop {
            let is_missing = match Stamp::of(word, mine.lap) {
                Stamp::LapBefore(stamp) => age(at, stamp) >= window,
                Stamp::SameLap(stamp) => age(at, stamp) > 0,
                Stamp::Older | Stamp::Newer => false,
            };
            if !is_missing {
                return;
            }
            match slot.compare_exchange(word, stamped(at, mine.lap), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => word = newer,
            }
        }
    }

    /// Returns whether the slot holds a stamp of this token.
    pub(super) fn is_stamped(&self, mine: TokenNumber) -> bool {
        // ORDERING: Relaxed: the caller's Acquire load of the head makes the slots visible as the head's writer saw
        // them.
        matches!(Stamp::of(self.slot(mine).load(Ordering::Relaxed), mine.lap), Stamp::SameLap(_))
    }

    /// Returns how many of the next `most` tokens are available.
    ///
    /// A binary search finds them, because tokens come back in the order in which they were taken.
    pub(super) fn free(&self, window: u64, at: u64, place: TokenNumber, most: usize) -> u32 {
        let (mut free, mut end) = (0, most);
        while free < end {
            let middle = usize::midpoint(free, end);
            let next = self.after(place, middle);
            // ORDERING: Relaxed: the result is a snapshot, and other threads may take tokens at once.
            let is_due = match Stamp::of(self.slot(next).load(Ordering::Relaxed), next.lap) {
                Stamp::LapBefore(stamp) => age(at, stamp) >= window as i64,
                Stamp::SameLap(_) => true,
                Stamp::Older | Stamp::Newer => false,
            };
            if is_due {
                free = middle + 1;
            } else {
                end = middle;
            }
        }
        // The count is at most the limit.
        free as u32
    }
}
