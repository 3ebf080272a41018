//! The last changes of a breaker's state, for an operator who looks afterwards.
//!
//! ```text
//!  63 60   59 57 56 54  53        41 40  0
//! | CAUSE |  TO  | FROM | GENERATION |  AT  |
//! ```
//!
//! | field | unit | meaning |
//! |---|---|---|
//! | AT | milliseconds | when the change was made, on the breaker's clock; wraps |
//! | GENERATION | transitions | the generation that began |
//! | FROM, TO, CAUSE | | places in [`STATES`] and [`CAUSES`] |
//!
//! The thread that made a change stores it afterwards, into the place of its generation. No decision reads these words. If the thread is
//! stopped in between for so long that later changes are stored first, it overwrites one of them. A reader finds the wrong generation
//! there, and shows a gap. It never shows a change that was not made.

use super::state_word::Generation;
use super::{Cause, State, StateChange};
use crate::sync::{AtomicU64, Field, Ordering, const_unless_loom};
use core::fmt;
use core::time::Duration;

/// A recent change of a breaker's state.
const AT: Field = Field::lowest(41);
const GENERATION: Field = AT.then(Generation::BITS);
const FROM: Field = GENERATION.then(3);
const TO: Field = FROM.then(3);
const CAUSE: Field = TO.then(4);
const _: () = assert!(CAUSE.end() == u64::BITS, "fields must tile the word");

const STATES: [State; 7] = [
    State::Closed,
    State::Open,
    State::HalfOpen,
    State::Returning,
    State::ForcedOpen,
    State::ForcedClosed,
    State::Disabled,
];

const CAUSES: [Cause; 9] = [
    Cause::ConsecutiveFailures,
    Cause::FailureRate,
    Cause::SlowRate,
    Cause::CooldownOver,
    Cause::ProbesSucceeded,
    Cause::ReturnOver,
    Cause::ProbeFailed,
    Cause::HalfOpenTooLong,
    Cause::Control,
];

/// The word of no change. No state has the number in its fields.
const NONE: u64 = u64::MAX;

/// How many of the last changes are kept.
const LAST: usize = 4;

/// The last changes of a breaker, in words that any thread may store and read.
#[derive(Debug)]
pub(super) struct ChangeRecord {
    last: [AtomicU64; LAST],
    /// The last change that left the closed state: the beginning of the trouble.
    left_closed: AtomicU64,
}

impl ChangeRecord {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self {
                last: [AtomicU64::new(NONE), AtomicU64::new(NONE), AtomicU64::new(NONE), AtomicU64::new(NONE)],
                left_closed: AtomicU64::new(NONE),
            }
        }
    }

    /// Records a change that was made at `micros`.
    #[cold]
    #[inline(never)]
    pub(super) fn record(&self, change: StateChange, micros: u64) {
        let word = packed(change, micros);
        // ORDERING: Relaxed here and in `read`. A word says all of its change. A reader that sees an older generation leaves newer ones
        // out, as one that read before they were made.
        self.last[change.generation as usize % LAST].store(word, Ordering::Relaxed);
        if change.from == State::Closed && change.to != State::Closed {
            // ORDERING: Release pairs with the Acquire load in `read`: a reader of this change finds it among the last ones too, or
            // newer ones in its place.
            self.left_closed.store(word, Ordering::Release);
        }
    }

    /// Reads the changes, of which the last one began the generation that `generation` returns afterwards.
    pub(super) fn read(
        &self,
        openings: u32,
        generation: impl FnOnce() -> Generation,
        micros: impl FnOnce() -> u64,
    ) -> RecentChanges {
        // ORDERING: Acquire pairs with the Release store in `record`.
        let left_closed = self.left_closed.load(Ordering::Acquire);
        let last = self.last.each_ref().map(|word| word.load(Ordering::Relaxed));
        let generation = u64::from(generation().to_bits());
        let now = AT.get(micros() / 1_000);
        let mut changes = [None; LAST + 1];
        if !last.contains(&left_closed) {
            changes[0] = unpacked(left_closed, now);
        }
        for (age, place) in (0..LAST as u64).rev().zip(&mut changes[1..]) {
            let of_age =
                |word: &&u64| **word != NONE && GENERATION.ahead(generation, GENERATION.get(**word)) == age as i64;
            *place = last.iter().find(of_age).and_then(|word| unpacked(*word, now));
        }
        RecentChanges { changes, openings }
    }
}

fn packed(StateChange { from, to, cause, generation }: StateChange, micros: u64) -> u64 {
    // Every state and every cause is in its list. A place outside would be read as no change.
    let place = |found: Option<usize>| found.map_or(NONE, |place| place as u64);
    AT.put(micros / 1_000)
        | GENERATION.put(generation.into())
        | FROM.put(place(STATES.iter().position(|state| *state == from)))
        | TO.put(place(STATES.iter().position(|state| *state == to)))
        | CAUSE.put(place(CAUSES.iter().position(|known| *known == cause)))
}

/// Returns the change, and how long ago it was made.
fn unpacked(word: u64, now: u64) -> Option<(StateChange, Duration)> {
    let state = |field: Field| STATES.get(field.get(word) as usize).copied();
    let change = StateChange {
        from: state(FROM)?,
        to: state(TO)?,
        cause: *CAUSES.get(CAUSE.get(word) as usize)?,
        generation: GENERATION.get(word) as u32,
    };
    // After the clock stepped back, a change may lie in the future. It counts as made now.
    let ago = u64::try_from(AT.ahead(now, AT.get(word))).unwrap_or(0);
    Some((change, Duration::from_millis(ago)))
}

/// The last changes of a breaker's state, and how often it has opened.
///
/// [`CircuitBreaker::recent_changes`](super::CircuitBreaker::recent_changes) returns them. Displayed as lines for a log, one for each change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct RecentChanges {
    /// The changes, the oldest first.
    changes: [Option<(StateChange, Duration)>; LAST + 1],
    openings: u32,
}

impl RecentChanges {
    /// Returns the changes, the oldest first, each with the time since it was made, in whole milliseconds.
    ///
    /// They are the last four. If the last one that left the closed state is older, it comes before them, because it says when the trouble of
    /// a breaker that is not closed began, and why. Changes between it and the others are missing; their
    /// [generations](StateChange::generation) tell how many.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (StateChange, Duration)> + '_ {
        self.changes.iter().flatten().copied()
    }

    /// Returns how often the breaker has become open or forced open since it was created. It wraps.
    #[must_use]
    pub fn openings(&self) -> u32 {
        self.openings
    }
}

impl fmt::Display for RecentChanges {
    /// Writes a line for each change: `circuit closed -> open: consecutive failures, 12 s ago`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (change, ago)) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{change}, {} ago", crate::time::Human(ago))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_survives_packing() {
        for (at, from) in STATES.into_iter().enumerate() {
            for (to, cause) in STATES.into_iter().cycle().skip(at).zip(CAUSES) {
                for generation in [0, 1, 8_191] {
                    let change = StateChange { from, to, cause, generation };
                    let word = packed(change, 7_654_321);
                    assert_ne!(word, NONE);
                    assert_eq!(unpacked(word, 7_655), Some((change, Duration::from_millis(1))));
                }
            }
        }
        assert_eq!(unpacked(NONE, 0), None);
    }

    #[test]
    fn overwritten_change_is_missing_and_not_taken_for_another() {
        let record = ChangeRecord::new();
        let change =
            |generation| StateChange { from: State::Open, to: State::HalfOpen, cause: Cause::CooldownOver, generation };
        for generation in [8_190, 8_191, 0, 1, 2] {
            record.record(change(generation), 0);
        }
        // A thread was stopped after the change that began 8,189, and records it only now.
        record.record(change(8_189), 0);
        let found = record.read(0, || Generation::from_bits(2), || 0);
        let generations: [Option<u32>; 5] = found.changes.map(|past| past.map(|(change, _)| change.generation));
        assert_eq!(generations, [None, Some(8_191), Some(0), None, Some(2)]);
    }
}
