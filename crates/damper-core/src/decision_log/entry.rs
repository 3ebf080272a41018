//! The three words of an entry.
//!
//! ```text
//! time    63   16 15  0       key    63  16 15  0       cost   63  32 31  1    0
//!        | UNITS | LAP |            | HASH | LAP |             | COST | LAP | REFUSED |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | LAP | 16, in the last word 31 | rounds of the log, from 1 | in which the word was written; wraps |
//! | UNITS | 48 | up to 1 µs | the time of the decision on the log's clock; wraps, after four years at least |
//! | HASH | 48 | | the lowest bits of the key's hash; 0 without a key |
//! | REFUSED | 1 | | whether the call was refused |
//! | COST | 32 | tokens | what the call asked for |
//!
//! **Every word carries its lap**, and with its place that is the number of its decision. A writer takes the number by one
//! `fetch_add`, which yields the place and the lap, and then stores the three words. No word is published through another, and no
//! writer waits.
//!
//! A reader takes an entry only if all three words have the lap that it came for. Then they belong to one decision, in whatever
//! order they were written and read. A writer that stops between two of them leaves an entry of two laps, and one that goes on a
//! round later spoils a newer entry. Readers count both as lost.
//!
//! A writer that was stopped while a multiple of 65,536 rounds were written could mix two decisions unnoticed.

use crate::sync::{AtomicU64, Field, Ordering};

/// The time of a logged decision.
const TIME_LAP: Field = Field::lowest(16);
const UNITS: Field = TIME_LAP.then(48);
const _: () = assert!(UNITS.end() == u64::BITS, "fields must tile the word");

/// The key of a logged decision.
const KEY_LAP: Field = Field::lowest(16);
const HASH: Field = KEY_LAP.then(48);
const _: () = assert!(HASH.end() == u64::BITS, "fields must tile the word");

/// The cost and the answer of a logged decision.
const REFUSED: Field = Field::lowest(1);
const COST_LAP: Field = REFUSED.then(31);
const COST: Field = COST_LAP.then(32);
const _: () = assert!(COST.end() == u64::BITS, "fields must tile the word");

/// The words of an entry.
pub(super) const WORDS: usize = 3;

/// Words that were never written. They belong to lap 0, and the first lap is 1.
pub(super) const NEVER_WRITTEN: u64 = 0;

/// The content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The time of the decision, in units of the log's clock.
    pub(super) units: u64,
    pub(super) key: u64,
    pub(super) cost: u32,
    pub(super) is_refused: bool,
}

/// The result of reading an entry.
pub(super) enum Readout<T> {
    /// The whole entry.
    Whole(T),
    /// Words of a later lap.
    Overwritten,
    /// Words of an earlier lap, and none of a later one: its writer has not written all of them.
    Unfinished,
}

impl<T> Readout<T> {
    pub(super) fn map<U>(self, map: impl FnOnce(T) -> U) -> Readout<U> {
        match self {
            Self::Whole(whole) => Readout::Whole(map(whole)),
            Self::Overwritten => Readout::Overwritten,
            Self::Unfinished => Readout::Unfinished,
        }
    }
}

/// Writes an entry of a lap.
#[inline]
pub(super) fn write(words: &[AtomicU64; WORDS], lap: u64, Entry { units, key, cost, is_refused }: Entry) {
    let [time, of_key, of_cost] = words;
    let refused = REFUSED.put(u64::from(is_refused));
    // ORDERING: Relaxed: each word says to which decision it belongs, so nothing is published through another one.
    // loom-tests: decision_log::entry_is_read_whole.
    time.store(TIME_LAP.put(lap) | UNITS.put(units), Ordering::Relaxed);
    of_key.store(KEY_LAP.put(lap) | HASH.put(key), Ordering::Relaxed);
    of_cost.store(COST_LAP.put(lap) | refused | COST.put(cost.into()), Ordering::Relaxed);
}

/// Reads the entry of a lap.
#[inline]
pub(super) fn read(words: &[AtomicU64; WORDS], lap: u64) -> Readout<Entry> {
    // ORDERING: Relaxed, as in `write`.
    let [time, key, cost] = words.each_ref().map(|word| word.load(Ordering::Relaxed));
    let ahead = [
        TIME_LAP.ahead(TIME_LAP.get(time), lap),
        KEY_LAP.ahead(KEY_LAP.get(key), lap),
        COST_LAP.ahead(COST_LAP.get(cost), lap),
    ];
    if ahead == [0; WORDS] {
        return Readout::Whole(Entry {
            units: UNITS.get(time),
            key: HASH.get(key),
            cost: COST.get(cost) as u32,
            is_refused: REFUSED.get(cost) == 1,
        });
    }
    if ahead.iter().any(|laps| *laps > 0) { Readout::Overwritten } else { Readout::Unfinished }
}
