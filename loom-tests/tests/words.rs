//! Limits on words that the program owns.
//!
//! Each thread is a process: it makes its own limit on the shared words. A kill is a thread that stops before one of its accesses, whichever. In brackets: the weakening of the code under which each model was
//! seen to fail.
#![cfg(loom)]

use damper_core::breaker::State;
use damper_core::sync::killed_after;
use damper_core::time::Seed;
use damper_core::words::{
    AtomicU64, Contents, Header, HeaderError, Seat, WordBreaker, WordBulkhead, WordLimiter, WordTable,
};
use damper_core::{BreakerConfig, Clock, Plan, Quota};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

const NOW: Stopped = Stopped(7_000_000_000);
const SEED: Seed = Seed::new(1, 2);

fn words<const N: usize>() -> Arc<[AtomicU64; N]> {
    Arc::new(std::array::from_fn(|_| AtomicU64::new(0)))
}

fn plan(burst: u32) -> Plan {
    Plan::new(Quota::per_second(1).burst(burst)).unwrap()
}

fn limiter(word: &AtomicU64, burst: u32) -> WordLimiter<'_, Stopped> {
    WordLimiter::new(word, plan(burst), NOW)
}

fn seat(number: u8) -> Seat {
    Seat::new(number).unwrap()
}

/// Two processes race for a burst of two, with three calls.
fn burst_model() {
    let words = words::<1>();
    let rival = {
        let words = Arc::clone(&words);
        thread::spawn(move || {
            let limiter = limiter(&words[0], 2);
            u32::from(limiter.check().is_ok()) + u32::from(limiter.check().is_ok())
        })
    };
    let mine = u32::from(limiter(&words[0], 2).check().is_ok());
    assert_eq!(mine + rival.join().unwrap(), 2, "two tokens, two winners");
}

// WORD: The word of a limiter
// CLAIM: WordLimiter
#[test]
fn limiter_never_exceeds_its_burst() {
    check(burst_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "two tokens, two winners")]
fn limiter_never_exceeds_its_burst_unless_flawed() {
    check_flawed(Flaw::BlindExchange, burst_model);
}

/// A process that is killed at any step took its token or did not.
// CLAIM: WordLimiter
#[test]
fn limiter_survives_kills() {
    for steps in 0..3 {
        check(move || {
            let words = words::<1>();
            let killed = {
                let words = Arc::clone(&words);
                thread::spawn(move || killed_after(steps, || limiter(&words[0], 2).check().is_ok()))
            };
            let mine = u32::from(limiter(&words[0], 2).check().is_ok());
            let killed = killed.join().unwrap();
            let left = limiter(&words[0], 2).peek().remaining();
            match killed {
                Some(taken) => assert_eq!(left, 2 - mine - u32::from(taken), "each token has one taker"),
                None => assert!(left + mine == 2 || left + mine == 1, "at most the token of the dead is lost"),
            }
        });
    }
}

/// A process is killed in a call, the supervisor reclaims its slot, and another goes on.
// CLAIM: WordBulkhead
#[test]
fn bulkhead_reclaims_the_slots_of_the_dead() {
    for steps in 0..3 {
        check(move || {
            let words = words::<1>();
            let killed = {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    killed_after(steps, || {
                        WordBulkhead::new(&words[0], 2, seat(1)).enter().map(core::mem::forget).is_ok()
                    })
                })
            };
            let other = {
                let words = Arc::clone(&words);
                thread::spawn(move || drop(WordBulkhead::new(&words[0], 2, seat(2)).enter().expect("two slots")))
            };
            killed.join().unwrap();
            WordBulkhead::reclaim(&words[0], seat(1));
            other.join().unwrap();
            let next = WordBulkhead::new(&words[0], 2, seat(1));
            assert_eq!(next.in_flight(), 0, "no slot is lost");
            let permits = [next.enter(), next.enter()];
            assert!(permits.iter().all(Result::is_ok) && next.enter().is_err(), "as many slots as before");
        });
    }
}

/// The bulkhead that broke: its count and the count of each process are words of their own.
#[test]
#[should_panic(expected = "no slot is lost")]
fn bulkhead_with_a_count_beside_it_loses_slots() {
    check_preemptions(2, || {
        let words: Arc<[AtomicU32; 2]> = Arc::new(std::array::from_fn(|_| AtomicU32::new(0)));
        let killed = {
            let words = Arc::clone(&words);
            // It is killed between the two.
            thread::spawn(move || _ = words[0].fetch_add(1, Ordering::AcqRel))
        };
        killed.join().unwrap();
        let owned = words[1].swap(0, Ordering::AcqRel);
        words[0].fetch_sub(owned, Ordering::AcqRel);
        assert_eq!(words[0].load(Ordering::Acquire), 0, "no slot is lost");
    });
}

/// One slot: a holder sees what was done under the permit before, so a plain increment loses nothing.
fn permit_model() {
    let words = words::<1>();
    let count = Arc::new(AtomicU32::new(0));
    let call = |words: &[AtomicU64; 1], count: &AtomicU32, number| match WordBulkhead::new(&words[0], 1, seat(number))
        .enter()
    {
        Ok(permit) => {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            drop(permit);
            1
        }
        Err(_) => 0,
    };
    let rival = {
        let (words, count) = (Arc::clone(&words), Arc::clone(&count));
        thread::spawn(move || call(&words, &count, 0) + call(&words, &count, 0))
    };
    let mine = call(&words, &count, 1);
    let permits = mine + rival.join().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), permits, "one holder at a time");
}

#[test]
fn bulkhead_permit_sees_what_was_done_under_the_one_before() {
    check(permit_model);
}

/// [Relaxed swaps.]
#[test]
#[should_panic(expected = "one holder at a time")]
fn bulkhead_permit_sees_what_was_done_under_the_one_before_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, permit_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "one holder at a time")]
fn bulkhead_permit_sees_what_was_done_under_the_one_before_unless_stored() {
    check_flawed(Flaw::BlindExchange, permit_model);
}

// CLAIM: WordBulkhead
#[test]
fn bulkhead_never_exceeds_its_limit() {
    check(|| {
        let words = words::<1>();
        let in_flight = Arc::new(AtomicU32::new(0));
        let call = |words: &[AtomicU64; 1], in_flight: &AtomicU32, number| {
            if let Ok(permit) = WordBulkhead::new(&words[0], 1, seat(number)).enter() {
                assert_eq!(in_flight.fetch_add(1, Ordering::Relaxed), 0, "one call in flight");
                in_flight.fetch_sub(1, Ordering::Relaxed);
                drop(permit);
            }
        };
        let rival = {
            let (words, in_flight) = (Arc::clone(&words), Arc::clone(&in_flight));
            thread::spawn(move || call(&words, &in_flight, 3))
        };
        call(&words, &in_flight, 5);
        rival.join().unwrap();
        assert_eq!(WordBulkhead::new(&words[0], 1, seat(0)).in_flight(), 0);
    });
}

fn contents() -> Contents {
    Contents::version(1).number(5)
}

/// A process that creates a header is killed at a step, another creates it too, and a third attaches.
fn header_model(steps: u32) {
    let words = words::<8>();
    let create = |words: &[AtomicU64; 8], seed| Header::create(words, &contents(), seed, &NOW).unwrap().seed();
    let killed = {
        let words = Arc::clone(&words);
        thread::spawn(move || _ = killed_after(steps, || create(&words, Seed::new(8, 16))))
    };
    let seed = match Header::attach(&words[..], &contents(), &NOW) {
        Ok(header) => Some(header.seed().hash_one(5)),
        Err(error) => {
            assert!(error == HeaderError::NotCreated, "a header is whole or absent");
            None
        }
    };
    let mine = create(&words, SEED).hash_one(5);
    killed.join().unwrap();
    let last = Header::attach(&words[..], &contents(), &NOW).unwrap().seed().hash_one(5);
    assert!(mine == last && seed.is_none_or(|seed| seed == last), "all processes have one seed");
}

#[test]
fn header_is_whole_or_absent() {
    for steps in [2, 5, 7, 20] {
        check_preemptions(1, move || header_model(steps));
    }
}

/// [A first word that is written with Relaxed.]
#[test]
#[should_panic(expected = "the plans or settings of the words differ")]
fn header_is_whole_or_absent_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, || header_model(20));
}

/// A table of two slots, which are the candidates of every key.
type Words = [AtomicU64; 10];

fn is_admitted(words: &Words, clock: &impl Clock, key: u64) -> bool {
    WordTable::<u64, _>::new(words, plan(1), clock, SEED).unwrap().check(&key).is_ok()
}

/// Two processes see a key for the first time, with a burst of one.
///
/// The key's first slot belongs to a key that is full again only for the second process, so they take different slots.
fn newcomers_model(key: u64) {
    let words = words::<10>();
    let time = Time::at(7_000_000_000);
    assert!(is_admitted(&words, &time, 5), "an empty table");
    time.advance(Duration::from_millis(600));
    assert!(is_admitted(&words, &time, 6), "a slot is left");
    time.advance(Duration::from_millis(600));
    let rival = {
        let (words, time) = (Arc::clone(&words), time.clone());
        thread::spawn(move || {
            time.advance(Duration::from_millis(500));
            is_admitted(&words, &time, key)
        })
    };
    let mine = is_admitted(&words, &time, key);
    assert!(mine ^ rival.join().unwrap(), "a burst of one, one winner");
}

/// Keys whose first slots differ.
const NEWCOMERS: [u64; 4] = [7, 8, 9, 10];

// CLAIM: WordTable
#[test]
fn newcomers_get_one_slot() {
    for key in NEWCOMERS {
        check_preemptions(2, move || newcomers_model(key));
    }
}

/// [No fence between the insertion and the looks.]
#[test]
#[should_panic(expected = "a burst of one, one winner")]
fn newcomers_get_one_slot_unless_flawed() {
    for key in NEWCOMERS {
        check_flawed(Flaw::NoFences, move || newcomers_model(key));
    }
}

/// A newcomer is killed at a step; the key and another one get slots, and no second burst.
// CLAIM: WordTable
#[test]
fn table_survives_kills() {
    for steps in [2, 4, 5, 6, 7, 8, 9, 10] {
        check_preemptions(1, move || {
            let words = words::<10>();
            let killed = {
                let words = Arc::clone(&words);
                thread::spawn(move || killed_after(steps, || is_admitted(&words, &NOW, 5)))
            };
            let mine = is_admitted(&words, &NOW, 5);
            let killed = killed.join().unwrap();
            assert!(!mine || killed != Some(true), "a burst of one, one winner");
            assert!(!is_admitted(&words, &NOW, 5) || !mine && killed.is_none(), "a burst of one, one winner");
            assert!(is_admitted(&words, &NOW, 6), "nothing is stuck");
        });
    }
}

/// A bucket becomes full while two processes take its slot, for its own key and for another.
// CLAIM: WordTable
#[test]
fn table_never_exceeds_a_burst() {
    check_preemptions(2, || {
        let words = words::<10>();
        let time = Time::at(7_000_000_000);
        assert!(is_admitted(&words, &time, 5) && is_admitted(&words, &time, 6), "an empty table");
        time.advance(Duration::from_millis(500));
        let rival = {
            let (words, time) = (Arc::clone(&words), time.clone());
            thread::spawn(move || {
                time.advance(Duration::from_millis(500));
                is_admitted(&words, &time, 7);
                is_admitted(&words, &time, 5)
            })
        };
        let mine = is_admitted(&words, &time, 5);
        assert!(!(mine & rival.join().unwrap()), "a burst of one, one winner");
    });
}

fn breaker(word: &AtomicU64, now: Stopped) -> WordBreaker<'_, Stopped> {
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_secs(1));
    let config = config.max_half_open(Duration::from_secs(1)).build().unwrap();
    WordBreaker::new(word, &config, now).unwrap()
}

/// The cooldown is over: of two processes one is the probe.
fn probes_model() {
    let words = words::<1>();
    breaker(&words[0], NOW).try_acquire().unwrap().failure();
    const LATER: Stopped = Stopped(NOW.0 + 2_000_000_000);
    let rival = {
        let words = Arc::clone(&words);
        thread::spawn(move || breaker(&words[0], LATER).try_acquire().map(core::mem::forget).is_ok())
    };
    let mine = breaker(&words[0], LATER).try_acquire().map(core::mem::forget).is_ok();
    assert!(mine ^ rival.join().unwrap(), "one probe");
}

// WORD: The word of a breaker that the program places
// CLAIM: WordBreaker
#[test]
fn breaker_limits_its_probes() {
    check(probes_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "one probe")]
fn breaker_limits_its_probes_unless_flawed() {
    check_flawed(Flaw::BlindExchange, probes_model);
}

/// A process is killed as a probe: its place comes back when the half-open state is over.
// CLAIM: WordBreaker
#[test]
fn breaker_frees_the_probes_of_the_dead() {
    for steps in 0..3 {
        check(move || {
            let at = |seconds: u64| Stopped(NOW.0 + seconds * 1_000_000_000);
            let words = words::<1>();
            breaker(&words[0], NOW).try_acquire().unwrap().failure();
            let killed = {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    killed_after(steps, || breaker(&words[0], at(2)).try_acquire().map(core::mem::forget).is_ok())
                })
            };
            let mine = breaker(&words[0], at(2)).try_acquire().map(core::mem::forget).is_ok();
            let killed = killed.join().unwrap();
            assert!(!mine || killed != Some(true), "one probe");
            // Half-open for too long, then open for a cooldown.
            _ = breaker(&words[0], at(4)).try_acquire().map(core::mem::forget);
            breaker(&words[0], at(6)).try_acquire().expect("a probe passes").success();
            assert_eq!(breaker(&words[0], at(6)).state(), State::Closed);
        });
    }
}
