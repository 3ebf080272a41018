//! The three words of an entry.
//!
//! ```text
//! time    63 48 47    0       key    63 48 47    0       cost   63 33    32   31  0
//!        | LAP | MICROS |           | LAP | HASH |             | LAP | REFUSED | COST |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | LAP | 16, in the last word 31 | rounds of the log, plus one | in which the word was written; wraps |
//! | MICROS | 48 | µs | the time of the decision on the log's clock; wraps after 8.9 years |
//! | HASH | 48 | | the lowest bits of the key's hash; 0 without a key |
//! | REFUSED | 1 | | whether the call was refused |
//! | COST | 32 | tokens | what the call asked for |
//!
//! **Every word carries its lap**, and with its place that is the number of its decision. So a reader that finds one lap in all three has
//! the words of one decision, in whatever order they were written and read. A writer that stops between two of them
//! leaves an entry of two laps, and one that goes on a round later spoils a newer entry. Readers pass over both.
//!
//! A writer that was stopped while a multiple of 65,536 rounds were written could mix two decisions unnoticed.

use super::{Decision, DecisionAnswer};
use crate::sync::{AtomicU64, Field, Ordering};
use core::time::Duration;

const MICROS: Field = Field::lowest(48);
const TIME_LAP: Field = MICROS.then(16);
const _: () = assert!(TIME_LAP.end() == u64::BITS, "fields must tile the word");

const HASH: Field = Field::lowest(48);
const KEY_LAP: Field = HASH.then(16);
const _: () = assert!(KEY_LAP.end() == u64::BITS, "fields must tile the word");

const COST: Field = Field::lowest(32);
const REFUSED: Field = COST.then(1);
const COST_LAP: Field = REFUSED.then(31);
const _: () = assert!(COST_LAP.end() == u64::BITS, "fields must tile the word");

/// The words of an entry.
pub(super) const WORDS: usize = 3;

/// Words that were never written. They belong to the lap before the first.
pub(super) const NEVER_WRITTEN: u64 = 0;

/// What a reader finds in the words of an entry.
pub(super) enum Found {
    /// The whole decision.
    Decision(Decision),
    /// Words of a later lap.
    Overwritten,
    /// Words of an earlier lap, and none of a later one: its writer has not written all of them.
    Unfinished,
}

/// Writes a decision of a lap.
#[inline]
pub(super) fn write(words: &[AtomicU64; WORDS], lap: u64, micros: u64, key: u64, cost: u32, answer: DecisionAnswer) {
    let lap = lap.wrapping_add(1);
    let [time, of_key, of_cost] = words;
    let refused = REFUSED.put(u64::from(answer == DecisionAnswer::Refused));
    // ORDERING: Relaxed: each word says to which decision it belongs, so nothing is published through another one.
    // loom-tests: decision_log::entry_is_read_whole.
    time.store(TIME_LAP.put(lap) | MICROS.put(micros), Ordering::Relaxed);
    of_key.store(KEY_LAP.put(lap) | HASH.put(key), Ordering::Relaxed);
    of_cost.store(COST_LAP.put(lap) | refused | COST.put(cost.into()), Ordering::Relaxed);
}

/// Reads the decision of a lap.
#[inline]
pub(super) fn read(words: &[AtomicU64; WORDS], lap: u64) -> Found {
    let lap = lap.wrapping_add(1);
    // ORDERING: Relaxed, as in `write`.
    let [time, key, cost] = words.each_ref().map(|word| word.load(Ordering::Relaxed));
    let ahead = [
        TIME_LAP.ahead(TIME_LAP.get(time), lap),
        KEY_LAP.ahead(KEY_LAP.get(key), lap),
        COST_LAP.ahead(COST_LAP.get(cost), lap),
    ];
    if ahead == [0; WORDS] {
        let is_refused = REFUSED.get(cost) == 1;
        return Found::Decision(Decision {
            at: Duration::from_micros(MICROS.get(time)),
            key: HASH.get(key),
            cost: COST.get(cost) as u32,
            answer: if is_refused { DecisionAnswer::Refused } else { DecisionAnswer::Allowed },
        });
    }
    if ahead.iter().any(|laps| *laps > 0) { Found::Overwritten } else { Found::Unfinished }
}
