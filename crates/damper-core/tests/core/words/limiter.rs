//! The limiter on a word against a bucket in exact rationals.

use super::Ticking;
use crate::models::bucket::ExactBucket;
use crate::models::cases::cases;
use crate::models::skewed::Skewed;
use damper::words::{AtomicU64, WordLimiter};
use damper::{Clock, Limiter, ManualClock, Plan, Quota};
use proptest::prelude::*;
use std::sync::atomic::Ordering;
use std::time::Duration;

const HERTZ: u64 = 1_000_000_000;

/// The most that a token may come early.
///
/// It is four units of 64 ns, one by which a take from a full bucket is dated back, and a tick.
const EARLY: i128 = 5 * 64 + 1;

/// The most that a token may come late: the clock's reading is rounded down to 64 ns.
const LATE: i128 = 64;

fn plan(quota: Quota) -> Plan {
    Plan::new(quota).unwrap()
}

#[test]
fn a_word_of_zero_is_a_full_bucket() {
    let (word, clock) = (AtomicU64::new(0), ManualClock::new());
    let limiter = WordLimiter::new(&word, plan(Quota::per_second(10).burst(3)), &clock);
    assert_eq!(limiter.check_n(3).unwrap().remaining(), 0);
    assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_millis(100)));
}

#[test]
fn processes_take_from_one_bucket() {
    let (word, clock) = (AtomicU64::new(0), ManualClock::new());
    let workers = [(); 4].map(|()| WordLimiter::new(&word, plan(Quota::per_second(10)), &clock));
    let taken: usize =
        workers.iter().cycle().take(40).map(|worker| usize::from(Limiter::try_acquire(worker, 1).is_ok())).sum();
    assert_eq!(taken, 10);
    assert_eq!(workers[3].usage().remaining(), 0);
}

#[test]
fn refusals_and_peeks_write_nothing() {
    let (word, clock) = (AtomicU64::new(0), ManualClock::new());
    let limiter = WordLimiter::new(&word, plan(Quota::per_second(10)), &clock);
    limiter.check_n(10).unwrap();
    let before = word.load(Ordering::Relaxed);
    clock.advance(Duration::from_millis(50));
    assert!(limiter.check().is_err() && limiter.check_n(u32::MAX).is_err());
    assert_eq!((limiter.take_up_to(1), limiter.refund(0), limiter.charge(0)), (0, 0, 0));
    assert_eq!(limiter.peek().remaining(), 0);
    assert_eq!(word.load(Ordering::Relaxed), before);
}

/// Another plan's debt is no sign of a clock that stepped back.
#[test]
fn a_shorter_plan_keeps_the_debt_of_a_longer_one() {
    let (word, clock) = (AtomicU64::new(0), ManualClock::new());
    let (daily, fast) = (plan(Quota::every(Duration::from_secs(86_400)).unwrap()), plan(Quota::per_second(10)));
    WordLimiter::new(&word, daily, &clock).check().unwrap();
    let fast = WordLimiter::new(&word, fast, &clock);
    assert!(fast.check().is_err());
    assert_eq!(fast.refund(1), 0, "its tokens are those of the other plan");
    clock.advance(Duration::from_secs(86_400));
    assert!(fast.check_n(10).is_ok());
}

/// A step back of the clock locks nobody out.
#[test]
fn a_word_from_before_a_step_back_is_an_idle_bucket() {
    let word = AtomicU64::new(0);
    let clock = Skewed(ManualClock::new(), Duration::from_millis(1));
    clock.0.set_ticks(100 * 86_400 * HERTZ);
    let limiter = WordLimiter::new(&word, plan(Quota::per_second(10)), &clock);
    limiter.check_n(10).unwrap();
    clock.0.set_ticks(0);
    assert!(limiter.check_n(10).is_ok());
    assert!(limiter.check().is_err());
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Check,
    TakeUpTo,
    Refund,
    Charge,
}

fn quotas() -> impl Strategy<Value = Quota> {
    prop_oneof![
        Just(Quota::per_second(7_000_000).burst(100)),
        Just(Quota::per_second(10)),
        Just(Quota::per_minute(600).burst(37)),
        Just(Quota::per_hour(1)),
        (1..5_000_000u32, 1..200u32, 0..100u32)
            .prop_map(|(limit, burst, debt)| Quota::per_second(limit).burst(burst).max_debt(debt)),
    ]
}

fn calls() -> impl Strategy<Value = Vec<(Call, u32, i64, u8)>> {
    let call = prop_oneof![6 => Just(Call::Check), 2 => Just(Call::TakeUpTo), 1 => Just(Call::Refund), 1 => Just(Call::Charge)];
    proptest::collection::vec((call, 0..60u32, -300..300i64, any::<u8>()), 1..200)
}

/// Runs calls of three processes on one word, beside the exact bucket.
fn compare(quota: Quota, start: u64, clock: &impl Clock, moved: &ManualClock, calls: Vec<(Call, u32, i64, u8)>) {
    moved.set_ticks(start);
    let word = AtomicU64::new(0);
    let processes = [(); 3].map(|()| WordLimiter::new(&word, Plan::new(quota).unwrap(), clock));
    let mut model = ExactBucket::new(quota, HERTZ);
    let mut last = start;
    for (call, n, off, choice) in calls {
        // Near the moment at which the tokens are there, or at once.
        let wait = if choice & 4 == 0 { model.wait(n).unwrap_or(0).min(1 << 50) as i64 + off } else { off };
        moved.advance_ticks(u64::try_from(wait).unwrap_or(0));
        let reading = moved.now();
        model.pass(reading - last);
        last = reading;
        let process = &processes[usize::from(choice) % 3];
        match call {
            Call::Check => match process.check_n(n) {
                Ok(allowed) => {
                    let is_there = n <= quota.burst_size() && model.will_have(n, EARLY);
                    assert!(n == 0 || is_there, "{n} of {model:?}: too early");
                    model.take(n);
                    assert!(allowed.remaining() == 0 || model.will_have(allowed.remaining(), EARLY));
                }
                Err(_) => assert!(n > quota.burst_size() || !model.will_have(n, -LATE), "{n} of {model:?}: late"),
            },
            Call::TakeUpTo => {
                let taken = process.take_up_to(n);
                assert!(taken <= n && (taken == 0 || model.will_have(taken, EARLY)), "{taken} of {model:?}");
                assert!(taken == n || !model.will_have(taken + 1, -LATE), "{taken} of {n}, {model:?}");
                model.take(taken);
            }
            Call::Refund => {
                let given = process.refund(n);
                let missing = i128::from(quota.burst_size()) - model.tokens();
                assert!(i128::from(given) <= i128::from(n).min(missing + 1), "{given} of {n}, {model:?}");
                model.give_back(given);
            }
            Call::Charge => {
                let booked = process.charge(n);
                assert!(booked <= n);
                model.take(booked);
            }
        }
        let left = process.peek().remaining();
        assert!(left == 0 || model.will_have(left, EARLY), "{left} left of {model:?}");
        assert!(i128::from(left) >= model.tokens_after(-LATE), "{left} left of {model:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(200) })]

    // CLAIM: WordLimiter
    #[test]
    fn limiter_matches_an_exact_bucket(quota in quotas(), start in 0..1u64 << 60, calls in calls()) {
        let clock = ManualClock::new();
        compare(quota, start, &clock, &clock, calls.clone());
        let clock = Ticking(ManualClock::new());
        compare(quota, start, &clock, &clock.0, calls);
    }
}
