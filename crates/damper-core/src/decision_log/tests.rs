//! Writers that stop in the middle of an entry.

use super::DecisionLog;
use super::entry::{self, Entry, Readout, WORDS};
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, ManualClock};
use proptest::prelude::*;
use std::vec::Vec;

/// The words that a writer of this decision would write.
fn words(lap: u64, value: u32) -> [u64; WORDS] {
    let written = [const { AtomicU64::new(entry::NEVER_WRITTEN) }; WORDS];
    entry::write(&written, lap, entry(value));
    written.map(AtomicU64::into_inner)
}

fn entry(value: u32) -> Entry {
    Entry { units: value.into(), key: value.into(), cost: value, is_refused: !value.is_multiple_of(2) }
}

proptest! {
    /// Writers of one entry store their words in any interleaving, and stop anywhere.
    ///
    /// A reader finds the whole decision of its lap, or none.
    #[test]
    fn entry_is_whole_or_not_found(
        // The lap of a writer, and which of its words are not yet stored.
        stores in prop::collection::vec((0..4u64, 0..WORDS), 0..16),
        first_lap in prop::sample::select(std::vec![1, 2, 0xFFFE, 0xFFFF, 0x1_0000, 0x7FFF_FFFE, u64::MAX / 2]),
    ) {
        let slot = [const { AtomicU64::new(entry::NEVER_WRITTEN) }; WORDS];
        // A place that was written before, unless this is the first lap.
        if first_lap > 1 {
            entry::write(&slot, first_lap - 1, entry(9));
        }
        let mut owners = [None; WORDS];
        for (lap, place) in stores {
            slot[place].store(words(first_lap + lap, lap as u32)[place], Ordering::Relaxed);
            owners[place] = Some(lap);
        }
        for lap in 0..4 {
            let is_whole = owners == [Some(lap); WORDS];
            match entry::read(&slot, first_lap + lap) {
                Readout::Whole(found) => {
                    prop_assert!(is_whole);
                    prop_assert_eq!(found, entry(lap as u32));
                }
                Readout::Overwritten => prop_assert!(owners.iter().any(|owner| *owner > Some(lap))),
                Readout::Unfinished => prop_assert!(!is_whole && owners.iter().all(|owner| *owner <= Some(lap))),
            }
        }
    }

    #[test]
    fn every_value_comes_back(units in 0..1u64 << 48, key in 0..1u64 << 48, cost: u32, is_refused: bool, lap: u64) {
        let slot = [const { AtomicU64::new(entry::NEVER_WRITTEN) }; WORDS];
        let written = Entry { units, key, cost, is_refused };
        entry::write(&slot, lap, written);
        let Readout::Whole(found) = entry::read(&slot, lap) else { panic!("it is whole") };
        prop_assert_eq!(found, written);
    }
}

proptest! {
    #[test]
    fn time_is_early_by_less_than_two_microseconds(
        frequency in prop_oneof![1..5_000_000_000u64, 1..1_000_000u64, Just(1_000_000_000)],
        seconds in 0..100_000_000u64,
        part in 0..1_000_000u64,
    ) {
        let clock = ManualClock::with_frequency(frequency);
        // In 100 years a clock of 5 GHz does not wrap; the log does after 4 years.
        clock.set_ticks(seconds * frequency + part * frequency / 1_000_000);
        let log = DecisionLog::with_clock(1, &clock);
        log.record(0, 1, &Ok::<_, ()>(()));
        let at = log.reader().next().unwrap().at.as_micros();
        let exact = u128::from(clock.now()) * 1_000_000 / u128::from(frequency);
        prop_assert!(at <= exact && exact - at < 2, "{} for {}", at, exact);
    }
}

/// A writer takes a number and stops before its first word, between two words, or before its last.
#[test]
fn reader_passes_over_the_entry_of_a_stopped_writer() {
    for stored in 0..WORDS {
        let log = DecisionLog::with_clock(4, ManualClock::new());
        log.record(0, 0, &Ok::<_, ()>(()));
        let number = log.take_number();
        for (word, value) in log.words_at_first_use(number).unwrap().iter().zip(words(1, 1)).take(stored) {
            word.store(value, Ordering::Relaxed);
        }
        log.record(2, 2, &Ok::<_, ()>(()));
        let mut reader = log.reader();
        let costs: Vec<u32> = reader.by_ref().map(|decision| decision.cost).collect();
        assert_eq!(costs, [0, 2]);
        assert_eq!((reader.unfinished(), reader.overwritten()), (1, 0));

        // A round later the writer goes on, and spoils the entry in its place.
        (3..=6).for_each(|cost| log.record(0, cost, &Ok::<_, ()>(())));
        for (word, value) in log.words_at_first_use(number).unwrap().iter().zip(words(1, 1)).skip(stored) {
            word.store(value, Ordering::Relaxed);
        }
        let costs: Vec<u32> = reader.by_ref().map(|decision| decision.cost).collect();
        assert_eq!(costs, [3, 4, 6], "the fifth has the place of the stopped writer");
        assert_eq!(reader.lost(), 2);
    }
}
