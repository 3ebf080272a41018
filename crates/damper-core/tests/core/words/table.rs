//! The table on words against a limiter for each key.

use super::Ticking;
use crate::models::cases::cases;
use damper::time::Seed;
use damper::words::{AtomicU64, WordLimiter, WordTable};
use damper::{Clock, ManualClock, Plan, Quota};
use proptest::prelude::*;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

const SEED: Seed = Seed::new(1, 2);

fn words(slots: usize) -> Vec<AtomicU64> {
    (0..8 + slots).map(|_| AtomicU64::new(0)).collect()
}

fn plan(quota: Quota) -> Plan {
    Plan::new(quota).unwrap()
}

#[test]
fn each_key_has_a_bucket_that_processes_share() {
    let (words, clock) = (words(1_024), ManualClock::new());
    let table = || WordTable::<u64, _>::new(&words, plan(Quota::per_second(10)), &clock, SEED).unwrap();
    let workers = [table(), table(), table()];
    for key in 0..200 {
        let taken = workers.iter().cycle().take(30).filter(|worker| worker.check(&key).is_ok()).count();
        assert_eq!(taken, 10, "{key}");
    }
    assert_eq!((workers[0].in_use(), workers[0].capacity()), (200, 1_024));
    clock.advance(Duration::from_secs(1));
    assert_eq!(workers[0].in_use(), 0);
    assert!(workers[1].check_n(&7, 10).is_ok());
}

#[test]
fn refusals_write_nothing() {
    let (words, clock) = (words(16), ManualClock::new());
    let table = WordTable::<str, _>::new(&words, plan(Quota::per_second(10)), &clock, SEED).unwrap();
    let all = || words.iter().map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let empty = all();
    assert!(table.check_n("a", 11).unwrap_err().exceeds_burst() && table.check_n("a", 0).is_ok());
    assert_eq!((table.refund("a", 5), table.peek("a").remaining()), (0, 10));
    assert_eq!(all(), empty);
    table.check_n("a", 10).unwrap();
    let before = all();
    assert_eq!(table.check("a").unwrap_err().retry_after(), Some(Duration::from_millis(100)));
    assert_eq!((table.charge("a", 0), table.peek("a").remaining()), (0, 0));
    assert_eq!(all(), before);
}

/// With one set of four slots, the fifth key waits for the first that is full.
#[test]
fn a_full_table_refuses_new_keys() {
    let (words, clock) = (words(4), ManualClock::new());
    let table = WordTable::<u64, _>::new(&words, plan(Quota::per_second(1)), &clock, SEED).unwrap();
    for key in 0..4 {
        table.check(&key).unwrap();
        clock.advance(Duration::from_millis(100));
    }
    let wait = table.check(&4).unwrap_err().retry_after().unwrap();
    assert!((Duration::from_millis(600)..Duration::from_millis(601)).contains(&wait), "{wait:?}");
    assert_eq!(table.charge(&4, 1), 0);
    clock.advance(wait);
    assert!(table.check(&4).is_ok() && table.check(&0).is_err());
}

/// Keys without a slot share a bucket, and no more than a burst comes from it.
#[test]
fn keys_without_a_slot_share_a_bucket() {
    let (words, shared, clock) = (words(4), [AtomicU64::new(0)], ManualClock::new());
    let quota = Quota::per_second(2).max_debt(3);
    let table = || WordTable::<u64, _>::new(&words, plan(quota), &clock, SEED).unwrap().sharing(&shared);
    let workers = [table(), table()];
    for key in 0..4 {
        workers[0].check(&key).unwrap();
    }
    assert_eq!((workers[1].peek(&4).remaining(), workers[1].refund(&4, 1)), (2, 0));
    assert!(workers[0].check(&4).is_ok() && workers[1].check(&5).is_ok());
    let denied = workers[0].check(&6).unwrap_err();
    assert_eq!((denied.retry_after(), workers[1].peek(&7).remaining()), (Some(Duration::from_millis(500)), 0));
    assert_eq!((workers[0].refund(&5, 2), workers[1].charge(&4, 9), workers[0].peek(&6).debt()), (2, 5, 3));
    assert!(workers[0].check(&0).is_ok(), "keys with a slot have a bucket of their own");
    clock.advance(Duration::from_secs(4));
    assert_eq!(workers[0].peek(&6).remaining(), 2);
    assert!(workers[0].check_n(&6, 2).is_ok() && workers[1].check(&6).is_err(), "it has a slot now");
}

/// Half as many clients again as slots are hardly refused, and each shared word stays within its burst.
#[test]
fn shared_buckets_serve_nearly_all_of_a_crowd() {
    let clock = ManualClock::new();
    let (words, shared) = (words(1_024), (0..1_024).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    let table = WordTable::<u64, _>::new(&words, plan(Quota::per_hour(20)), &clock, SEED).unwrap().sharing(&shared);
    let refused = (0..1_536).flat_map(|key| [key; 5]).filter(|key| table.check(key).is_err()).count();
    assert!(refused < 1_536 * 5 / 500, "{refused} calls of 7,680 were refused");
    let flooded = (10_000..60_000).filter(|key| table.check_n(key, 20).is_ok()).count();
    assert!(flooded <= 1_024, "{flooded} bursts of 1,024 shared words");
}

/// A provisional word of a process that died is no obstacle, neither to its key nor to others.
#[test]
fn words_of_the_dead_are_taken_over() {
    let (words, clock) = (words(4), ManualClock::new());
    let table = WordTable::<u64, _>::new(&words, plan(Quota::per_second(1)), &clock, SEED).unwrap();
    for (dead, slot) in words[8..].iter().enumerate() {
        slot.store((dead as u64 + 5) << 42 | 1 << 41 | dead as u64, Ordering::Relaxed);
    }
    assert_eq!(table.in_use(), 0);
    assert!((0..4).all(|key| table.check(&key).is_ok()) && table.check(&9).is_err());
}

#[test]
fn ranges_are_named() {
    let clock = ManualClock::new();
    let message = |slots, quota| {
        WordTable::<u64, _>::new(&words(slots), plan(quota), &clock, SEED).map(|_| ()).unwrap_err().to_string()
    };
    let second = Quota::per_second;
    assert_eq!(message(3, second(1)), "words is 11, it must be 12 to 4294967295");
    assert_eq!(
        message(4, second(2_000_000)),
        "limit is 2000000, it must be 1 to 1953125 (in a table of words a token takes 512 ns or more)"
    );
    assert_eq!(
        message(4, Quota::per_hour(1).burst(40)),
        "burst is 40, it must be at most 39 (in a table of words a refill takes 39 hours or less)"
    );
}

#[test]
fn charges_and_refunds() {
    let (words, clock) = (words(16), ManualClock::new());
    let quota = Quota::per_second(10).max_debt(20);
    let table = WordTable::<str, _>::new(&words, plan(quota), &clock, SEED).unwrap();
    assert_eq!(table.charge("a", 50), 30);
    assert_eq!((table.peek("a").debt(), table.refund("a", 25), table.peek("a").remaining()), (20, 25, 5));
    assert_eq!((table.refund("a", 25), table.peek("a").remaining()), (5, 10));
}

/// Runs calls of two processes on a table with room for all keys, beside a limiter for each key.
fn compare(clock: &impl Clock, moved: &ManualClock, calls: &[(u64, u32, u32, u8)]) {
    moved.set_ticks(1 << 50);
    let (words, single) = (words(64), words(8));
    let plan = plan(Quota::per_second(1_000).burst(20));
    let tables = [(); 2].map(|()| WordTable::<u64, _>::new(&words, plan, clock, SEED).unwrap());
    for &(key, n, pass, choice) in calls {
        moved.advance(Duration::from_micros(pass.into()));
        let table = &tables[usize::from(choice) % 2];
        let limiter = WordLimiter::new(&single[key as usize], plan, clock);
        match choice >> 1 & 7 {
            0 => assert!(table.refund(&key, n).abs_diff(limiter.refund(n)) <= 1),
            1 => assert!(table.charge(&key, n).abs_diff(limiter.charge(n)) <= 1),
            _ => {
                // Near the moment at which the last token is there either answer is right.
                let left = limiter.peek().remaining();
                if left != n && left + 1 != n {
                    assert_eq!(table.check_n(&key, n).is_ok(), limiter.check_n(n).is_ok(), "{n} of {left}");
                }
            }
        }
        let (in_table, alone) = (table.peek(&key), limiter.peek());
        assert!(in_table.remaining().abs_diff(alone.remaining()) <= 1, "{in_table:?}, {alone:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(200) })]

    // CLAIM: WordTable
    #[test]
    fn table_matches_a_limiter_for_each_key(
        calls in proptest::collection::vec((0..8u64, 0..25u32, 0..5_000u32, any::<u8>()), 1..200),
    ) {
        let clock = ManualClock::new();
        compare(&clock, &clock, &calls);
        let clock = Ticking(ManualClock::new());
        compare(&clock, &clock.0, &calls);
    }
}

/// A process may stop between its reading of the clock and its look at the slots.
///
/// Others take all slots meanwhile. They owe a burst then, however long that was.
#[test]
fn newcomer_that_was_stopped_takes_no_slot_that_owes() {
    struct Stopping<'a, F> {
        clock: &'a ManualClock,
        meanwhile: Cell<Option<F>>,
    }
    impl<F: FnOnce()> Clock for Stopping<'_, F> {
        fn now(&self) -> u64 {
            let now = self.clock.now();
            if let Some(meanwhile) = self.meanwhile.take() {
                meanwhile();
            }
            now
        }
        fn frequency(&self) -> u64 {
            self.clock.frequency()
        }
    }
    let (words, clock) = (words(4), ManualClock::new());
    let plan = plan(Quota::per_second(1).burst(5));
    let others = WordTable::<u64, _>::new(&words, plan, &clock, SEED).unwrap();
    let meanwhile = || {
        clock.advance(Duration::from_secs(3_600));
        (0..4).for_each(|key| _ = others.check_n(&key, 5).unwrap());
    };
    let stopping = Stopping { clock: &clock, meanwhile: Cell::new(Some(meanwhile)) };
    let table = WordTable::<u64, _>::new(&words, plan, &stopping, SEED).unwrap();
    assert!(table.check(&4).is_err());
    assert!((0..4).all(|key| others.check(&key).is_err()), "no key has a second burst");
}
