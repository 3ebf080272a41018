//! Writing and reading the log of decisions.
//!
//! Writers that stop for good in the middle of an entry are in `crates/damper-core/src/decision_log/tests.rs`.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::Clock;
use damper_core::decision_log::{Decision, DecisionLog, DecisionReader};
use damper_loom_tests::check;
use loom::sync::Arc;
use loom::thread;
use std::cell::Cell;

loom::thread_local! {
    /// The number of the writer that this thread is.
    static WRITER: Cell<u32> = Cell::new(0);
}

/// Shows the number of the writer, in microseconds.
#[derive(Debug)]
struct Writers;

impl Clock for Writers {
    fn now(&self) -> u64 {
        WRITER.with(Cell::get).into()
    }

    fn frequency(&self) -> u64 {
        1_000_000
    }
}

/// Writes a decision each part of which says which writer made it.
fn write(log: &DecisionLog<Writers>, writer: u32) {
    WRITER.with(|this| this.set(writer));
    let answer = if writer % 2 == 1 { Err(()) } else { Ok(()) };
    log.record(writer.into(), writer, &answer);
}

/// Reads what is there, and asserts that each decision is that of one writer. Returns how many.
fn read(reader: &mut DecisionReader<'_, Writers>) -> u64 {
    let mut read = 0;
    for Decision { at, key, cost, is_allowed } in reader {
        let writer = u128::from(cost);
        assert!(at.as_micros() == writer && u128::from(key) == writer, "of two writers: {at:?}, {key}, {cost}");
        assert_eq!(is_allowed, writer % 2 == 0, "of two writers");
        read += 1;
    }
    read
}

/// A decision is read whole while the next one is written into its place, or counted as lost.
///
/// [A word whose lap no reader compares: that of the time, of the key or of the cost.]
// WORD: The time of a logged decision
// WORD: The key of a logged decision
// WORD: The cost and the answer of a logged decision
#[test]
fn entry_is_read_whole() {
    check(|| {
        let log = Arc::new(DecisionLog::with_clock(1, Writers));
        write(&log, 2);
        let writer = {
            let log = Arc::clone(&log);
            thread::spawn(move || write(&log, 3))
        };
        let mut reader = log.reader();
        let mut all = read(&mut reader);
        writer.join().unwrap();
        all += read(&mut reader);
        assert_eq!(all + reader.lost(), 2, "each decision is read once or lost");
    });
}

/// Two writers, one a round ahead of the other, whose words may be mixed: the entry is whole or lost.
///
/// [A word whose lap no reader compares; numbers that two writers may have.]
#[test]
fn mixed_entry_is_lost() {
    check(|| {
        let log = Arc::new(DecisionLog::with_clock(1, Writers));
        let writer = {
            let log = Arc::clone(&log);
            thread::spawn(move || write(&log, 2))
        };
        write(&log, 3);
        writer.join().unwrap();
        let mut reader = log.reader();
        assert_eq!((log.written(), read(&mut reader) + reader.lost()), (2, 2));
    });
}

/// Two writers of different places write whole entries, and a reader that comes after them finds both.
///
/// [Numbers that two writers may have.]
#[test]
fn entries_of_one_round_are_all_read() {
    check(|| {
        let log = Arc::new(DecisionLog::with_clock(2, Writers));
        let writer = {
            let log = Arc::clone(&log);
            thread::spawn(move || write(&log, 2))
        };
        write(&log, 3);
        writer.join().unwrap();
        let mut reader = log.reader();
        assert_eq!(read(&mut reader), 2, "both are there");
        assert_eq!(reader.lost(), 0);
    });
}
