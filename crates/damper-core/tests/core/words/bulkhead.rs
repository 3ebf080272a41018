//! The bulkhead on a word against a count for each seat.

use crate::models::cases::cases;
use damper::words::{AtomicU64, Seat, WordBulkhead};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Enter(u8),
    /// Ends the oldest call of the process in this seat.
    Leave(u8),
    /// Kills the process in this seat, and reclaims its slots.
    Kill(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let seats = || 0..Seat::COUNT;
    let step = prop_oneof![
        6 => seats().prop_map(Step::Enter),
        3 => seats().prop_map(Step::Leave),
        1 => seats().prop_map(Step::Kill),
    ];
    proptest::collection::vec(step, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(200) })]

    // CLAIM: WordBulkhead
    #[test]
    fn bulkhead_matches_a_count_for_each_seat(limit: u8, steps in steps()) {
        let word = AtomicU64::new(0);
        let bulkhead = |seat: u8| WordBulkhead::new(&word, limit, Seat::new(seat).unwrap());
        let mut permits: Vec<Vec<_>> = Seat::all().map(|_| Vec::new()).collect();
        for step in steps {
            let in_flight: usize = permits.iter().map(Vec::len).sum();
            match step {
                Step::Enter(seat) => match bulkhead(seat).enter() {
                    Ok(permit) => {
                        prop_assert!(in_flight < usize::from(limit), "more than the limit");
                        permits[usize::from(seat)].push(permit);
                    }
                    Err(full) => {
                        prop_assert!(in_flight >= usize::from(limit), "fewer than the limit");
                        prop_assert_eq!(full.limit(), u32::from(limit));
                    }
                },
                Step::Leave(seat) => drop(permits[usize::from(seat)].pop()),
                Step::Kill(seat) => {
                    let dead = core::mem::take(&mut permits[usize::from(seat)]);
                    let freed = WordBulkhead::reclaim(&word, Seat::new(seat).unwrap());
                    prop_assert_eq!(freed as usize, dead.len());
                    dead.into_iter().for_each(core::mem::forget);
                }
            }
            for (seat, permits) in Seat::all().zip(&permits) {
                prop_assert_eq!(bulkhead(0).in_flight_of(seat) as usize, permits.len());
            }
            prop_assert_eq!(bulkhead(0).in_flight() as usize, permits.iter().map(Vec::len).sum::<usize>());
        }
    }
}

/// A permit of a process that was reclaimed alive takes nothing from another seat.
#[test]
fn a_reclaimed_permit_frees_no_other_seat() {
    let word = AtomicU64::new(0);
    let [first, second] = [0, 1].map(|seat| WordBulkhead::new(&word, 9, Seat::new(seat).unwrap()));
    let permit = first.enter().unwrap();
    let _other = second.enter().unwrap();
    assert_eq!(WordBulkhead::reclaim(&word, first.seat()), 1);
    drop(permit);
    assert_eq!((first.in_flight(), second.in_flight_of(second.seat())), (1, 1));
    assert_eq!(WordBulkhead::reclaim(&word, first.seat()), 0);
}
