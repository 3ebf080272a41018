//! A timer that wraps, extended: against every interleaving of readers, the timer and its interrupt.
//!
//! Seen to fail: with nothing ordered, where a half goes with a count from before it (`11` was read at 3); without the
//! fence, where the second look at the half comes before the count (`4` at 12); with an exchange that does not compare,
//! which puts back a half that others have left long ago (`4` at 12, for good). At most five preemptions; without a
//! bound it passes too, in a minute.
#![cfg(loom)]

use damper::Clock;
use damper::clock::{ExtendedTimer, Timer};
use damper_loom_tests::{Flaw, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// Three bits of the true time: it wraps at 8, and a half begins at every 4.
#[derive(Debug)]
struct Narrow(Arc<AtomicU32>);

impl Timer for Narrow {
    const HERTZ: u64 = 1_000;
    const BITS: u32 = 3;

    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One in every half, as the clock asks for; at 8 the timer starts over, and a count of 12 looks like one of 4.
const MOMENTS: [u32; 4] = [3, 6, 8, 12];

/// Time passes, with an interrupt that reads the clock in every half; another reads it meanwhile.
fn read_while_time_passes() {
    let time = Arc::new(AtomicU32::new(MOMENTS[0]));
    let clock = Arc::new(ExtendedTimer::new(Narrow(Arc::clone(&time))));
    let reader = {
        let (time, clock) = (Arc::clone(&time), Arc::clone(&clock));
        thread::spawn(move || {
            let at_least = u64::from(time.load(Ordering::Acquire));
            let read = clock.now();
            assert!(MOMENTS.contains(&(read as u32)), "{read} was never");
            assert!(read >= at_least, "{read} at {at_least} or later");
        })
    };
    for moment in &MOMENTS[1..] {
        // Release: the half before was read, and what that left behind is there when the next begins.
        time.store(*moment, Ordering::Release);
        let read = clock.now();
        assert_eq!(read, u64::from(*moment), "the interrupt knows the time");
    }
    reader.join().unwrap();
    assert_eq!(clock.now(), u64::from(MOMENTS[3]), "nothing is left behind by who was late");
}

#[test]
fn every_reading_is_exact() {
    check_preemptions(5, read_while_time_passes);
}

#[test]
#[should_panic]
fn every_reading_is_exact_only_if_it_is_ordered() {
    check_flawed(Flaw::NothingOrdered, read_while_time_passes);
}

#[test]
#[should_panic = "was never"]
fn every_reading_is_exact_only_with_the_fence() {
    check_flawed(Flaw::NoFences, read_while_time_passes);
}

#[test]
#[should_panic = "nothing is left behind"]
fn every_reading_is_exact_only_if_the_half_is_compared() {
    check_flawed(Flaw::BlindExchange, read_while_time_passes);
}
