//! Tallies: counts of suppressed events, which are taken as a whole.
//!
//! In brackets: the weakening of the code under which the model was seen to fail.
#![cfg(loom)]

use damper_core::internal::Tally;
use damper_loom_tests::check;
use loom::sync::Arc;
use loom::thread;

/// Two threads count events, and both take the count. [A count that is stored and not swapped.]
// CLAIM: logs::LogLimit
#[test]
fn every_event_is_taken_once() {
    check(|| {
        let tally = Arc::new(Tally::new());
        let rival = {
            let tally = Arc::clone(&tally);
            thread::spawn(move || {
                tally.add();
                tally.add();
                tally.take()
            })
        };
        tally.add();
        let taken = tally.take() + rival.join().unwrap();
        assert_eq!(taken + tally.take(), 3, "each event is taken once");
    });
}
