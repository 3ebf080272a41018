//! The log of decisions, through the public API.

use damper::decision_log::{Decision, DecisionLog, Logged};
use damper::gate::Forecast;
use damper::{KeyedLimiter, Limiter, ManualClock, Quota, RateLimiter};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn result(is_allowed: bool) -> Result<(), ()> {
    if is_allowed { Ok(()) } else { Err(()) }
}

#[derive(Clone, Debug)]
enum Step {
    Write { key: u64, cost: u32, is_allowed: bool },
    Read { most: usize },
    Wait { micros: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..1u64 << 48, any::<u32>(), any::<bool>())
            .prop_map(|(key, cost, is_allowed)| Step::Write { key, cost, is_allowed }),
        1 => (0..20usize).prop_map(|most| Step::Read { most }),
        2 => (0..1u64 << 40).prop_map(|micros| Step::Wait { micros }),
    ]
}

proptest! {
    /// One thread writes and reads a ring of every size, beside a queue that drops its oldest element.
    #[test]
    fn log_is_a_queue_that_drops_its_oldest(entries in 0..40u32, steps in prop::collection::vec(step(), 0..200)) {
        let clock = ManualClock::with_frequency(1_000_000);
        let log = DecisionLog::with_clock(entries, &clock);
        prop_assert_eq!(log.capacity(), entries.max(1).next_power_of_two());
        let (mut reader, mut model, mut lost, mut now) = (log.reader(), VecDeque::new(), 0, 0);
        for step in steps {
            match step {
                Step::Write { key, cost, is_allowed } => {
                    log.record(key, cost, &result(is_allowed));
                    model.push_back(Decision { at: Duration::from_micros(now), key, cost, is_allowed });
                }
                Step::Read { most } => {
                    while model.len() > log.capacity() as usize {
                        model.pop_front();
                        lost += 1;
                    }
                    for _ in 0..most {
                        prop_assert_eq!(reader.next(), model.pop_front());
                        prop_assert_eq!(reader.overwritten(), lost);
                    }
                }
                Step::Wait { micros } => {
                    clock.advance_ticks(micros);
                    now = (now + micros) & ((1 << 48) - 1);
                }
            }
        }
        prop_assert_eq!(reader.unfinished(), 0);
    }

    #[test]
    fn text_of_a_decision_is_read_back(micros: u64, key: u64, cost: u32, is_allowed: bool) {
        let decision = Decision { at: Duration::from_micros(micros), key, cost, is_allowed };
        prop_assert_eq!(decision.to_string().parse(), Ok(decision));
    }

    #[test]
    fn other_texts_are_refused_without_a_panic(text in "[ -~]{0,40}") {
        if let Ok(decision) = text.parse::<Decision>() {
            prop_assert_eq!(decision.to_string().parse(), Ok(decision));
        }
    }
}

#[test]
fn errors_name_the_value_and_what_is_allowed() {
    for (text, error) in [
        ("1 a 1", "the decision is \"1 a 1\", it must be of 4 fields: microseconds, key, cost and answer"),
        ("", "the decision is \"\", it must be of 4 fields: microseconds, key, cost and answer"),
        (
            "1 a 1 allowed 5",
            "the decision is \"1 a 1 allowed 5\", it must be of 4 fields: microseconds, key, cost and answer",
        ),
        ("-1 a 1 allowed", "the time is \"-1\", it must be a number of microseconds from 0 to 18446744073709551615"),
        ("1 xyz 1 allowed", "the key is \"xyz\", it must be 1 to 16 hexadecimal digits"),
        ("1 +a 1 allowed", "the key is \"+a\", it must be 1 to 16 hexadecimal digits"),
        ("1 a 4294967296 allowed", "the cost is \"4294967296\", it must be a number from 0 to 4294967295"),
        ("1 a 1 Allowed", "the answer is \"Allowed\", it must be allowed or refused"),
    ] {
        assert_eq!(text.parse::<Decision>().map_err(|error| error.to_string()), Err(error.to_owned()));
    }
    assert_eq!("1".parse::<Decision>().unwrap_err().value(), "1");
}

#[test]
fn logged_limiters_answer_as_the_limiter_does() {
    let clock = ManualClock::with_frequency(1_000_000);
    let log = DecisionLog::with_clock(64, &clock);
    let (alone, limiter) = (RateLimiter::with_clock(Quota::per_second(3), &clock), Quota::per_second(3));
    let logged = Logged::new(RateLimiter::with_clock(limiter, &clock), &log);
    clock.advance(Duration::from_millis(5));
    assert_eq!(logged.check_n(2), alone.check_n(2));
    assert_eq!(logged.check_n(2), alone.check_n(2));
    assert_eq!(Limiter::try_acquire(&logged, 1), alone.try_acquire(1));
    assert_eq!(logged.usage(), alone.usage());
    assert_eq!(logged.check(), alone.check());
    clock.advance(Duration::from_secs(1));
    assert_eq!(logged.check(), alone.check());
    let lines: Vec<String> = log.reader().map(|decision| decision.to_string()).collect();
    assert_eq!(
        lines,
        ["5000 0 2 allowed", "5000 0 2 refused", "5000 0 1 allowed", "5000 0 1 refused", "1005000 0 1 allowed"]
    );
}

/// A forecast is no decision, so nothing is logged.
#[test]
fn logged_limiter_forecasts_as_the_limiter_does() {
    let clock = ManualClock::new();
    let log = DecisionLog::with_clock(4, &clock);
    let logged = Logged::new(RateLimiter::with_clock(Quota::per_second(3), &clock), &log);
    for n in [2, 4] {
        assert_eq!(logged.forecast(n), logged.limiter().forecast(n));
        assert!(!matches!(logged.forecast(n), Forecast::Unknown));
    }
    assert_eq!(log.written(), 0);
}

#[test]
fn reader_after_some_decisions_begins_with_the_next() {
    let log = DecisionLog::with_clock(8, ManualClock::new());
    for cost in 0..20 {
        log.record(0, cost, &Ok::<_, ()>(()));
    }
    for written in 0..=20 {
        let mut reader = log.reader_after(written);
        let costs: Vec<u32> = reader.by_ref().map(|decision| decision.cost).collect();
        let first = written.max(12);
        assert_eq!(costs, (first as u32..20).collect::<Vec<_>>());
        assert_eq!(reader.lost(), first - written);
    }
}

#[test]
fn keys_are_told_apart_by_their_hashes() {
    let clock = ManualClock::new();
    let log = Arc::new(DecisionLog::with_clock(64, &clock));
    let limits = KeyedLimiter::<str>::builder(Quota::per_second(1)).clock(&clock).build().unwrap();
    let limits = Logged::new(limits, Arc::clone(&log));
    for key in ["alice", "bob", "alice"] {
        _ = limits.check(key);
    }
    let decisions: Vec<Decision> = log.reader().collect();
    assert_eq!(decisions[0].key, decisions[2].key);
    assert_ne!(decisions[0].key, decisions[1].key);
    let answers: Vec<bool> = decisions.iter().map(|decision| decision.is_allowed).collect();
    assert_eq!(answers, [true, true, false]);
}

/// A count from another log, or from before a restart, is no reason to skip decisions.
#[test]
fn reader_after_more_decisions_than_there_are_reads_the_next_one() {
    let log = DecisionLog::with_clock(8, ManualClock::new());
    log.record(0, 1, &Ok::<_, ()>(()));
    let mut reader = log.reader_after(100);
    assert_eq!(reader.next(), None);
    log.record(0, 2, &Ok::<_, ()>(()));
    assert_eq!(reader.next().map(|decision| decision.cost), Some(2));
    assert_eq!(reader.lost(), 0);
}

#[test]
fn file_has_a_line_for_the_lost_decisions() {
    let log = DecisionLog::with_clock(2, ManualClock::new());
    let mut reader = log.reader();
    let mut file = Vec::new();
    for cost in 1..=3 {
        log.record(10, cost, &Err::<(), _>(()));
    }
    assert_eq!(reader.write_to(&mut file).unwrap(), 2);
    log.record(11, 4, &Ok::<_, ()>(()));
    assert_eq!(reader.write_to(&mut file).unwrap(), 1);
    assert_eq!(String::from_utf8(file).unwrap(), "0 a 2 refused\n0 a 3 refused\nlost 1\n0 b 4 allowed\n");
}

/// Threads write decisions whose fields say of one another what they must be, while another one reads.
#[test]
fn decisions_are_read_whole_while_threads_write() {
    const EACH: u64 = 200_000;
    const WRITERS: u64 = 3;
    let log = DecisionLog::with_clock(256, ManualClock::new());
    let are_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let (mut reader, mut read) = (log.reader(), 0);
            loop {
                let is_last = are_done.load(Ordering::Acquire);
                for Decision { key, cost, is_allowed, .. } in reader.by_ref() {
                    assert_eq!(u64::from(cost), key.wrapping_mul(0x9E37_79B9) & 0xFFFF_FFFF);
                    assert_eq!(is_allowed, !key.is_multiple_of(3));
                    read += 1;
                }
                if is_last {
                    return (read, reader.lost());
                }
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let log = &log;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let key = number * WRITERS + writer;
                        let cost = (key.wrapping_mul(0x9E37_79B9) & 0xFFFF_FFFF) as u32;
                        log.record(key, cost, &if key.is_multiple_of(3) { Err(()) } else { Ok(()) });
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        are_done.store(true, Ordering::Release);
        let (read, lost) = reading.join().unwrap();
        assert_eq!(read + lost, WRITERS * EACH);
        assert!(read >= 256, "the last ones at least");
    });
}
