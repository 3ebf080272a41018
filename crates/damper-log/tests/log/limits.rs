//! `LogLimit`: exact counts, alone, under threads and beside a model.

use damper::logs::{LogLimit, SuppressedCount};
use damper::{Clock, KeyedLimiter, ManualClock, Quota, RateLimiter, RateLimiter32, TokenBucket};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

fn limit<C: Clock>(quota: Quota, clock: C) -> LogLimit<RateLimiter<TokenBucket, C>> {
    LogLimit::with_limiter(RateLimiter::with_clock(quota, clock))
}

/// Returns how many events are passing, and how many they say were suppressed.
fn counts(answers: impl IntoIterator<Item = Option<SuppressedCount>>) -> (u64, u64) {
    answers
        .into_iter()
        .flatten()
        .fold((0, 0), |(passed, suppressed), count| (passed + 1, suppressed + count.get().unwrap_or(0)))
}

#[test]
fn next_event_that_passes_has_the_count() {
    let clock = ManualClock::new();
    let limit = limit(Quota::per_second(1), &clock);
    assert_eq!(limit.check().map(SuppressedCount::get), Some(None));
    assert!((0..1_204).all(|_| limit.check().is_none()));
    clock.advance(Duration::from_secs(1));
    assert_eq!(limit.check().map(SuppressedCount::get), Some(Some(1_204)));
    clock.advance(Duration::from_secs(1));
    assert_eq!(limit.check().map(SuppressedCount::get), Some(None), "a count is reported once");
}

#[test]
fn count_is_a_suffix_of_a_message() {
    let clock = ManualClock::new();
    let limit = limit(Quota::per_second(1), &clock);
    assert_eq!(limit.check().map(|count| format!("full{count}")), Some("full".into()));
    limit.check();
    limit.check();
    assert_eq!(format!("full{}", limit.take_suppressed()), "full (2 suppressed)");
    assert_eq!(limit.take_suppressed(), SuppressedCount::default());
    assert!(format!("{limit:?}").contains("suppressed: 0"), "{limit:?}");
}

#[test]
fn words_of_32_bits_count_too() {
    #[derive(Clone, Copy, Debug)]
    struct Still;
    impl Clock for Still {
        fn now(&self) -> u64 {
            0
        }
        fn frequency(&self) -> u64 {
            1_000_000
        }
    }
    impl damper::time::FixedFrequency for Still {
        const HERTZ: u64 = 1_000_000;
    }
    let limit = LogLimit::with_limiter(RateLimiter32::new(Quota::per_second(2), Still).expect("the burst fits"));
    assert_eq!(counts((0..10).map(|_| limit.check())), (2, 0));
    assert_eq!(limit.take_suppressed().get(), Some(8));
}

#[test]
fn decision_of_the_caller_is_counted() {
    let clock = ManualClock::new();
    let limit = limit(Quota::per_second(10), &clock);
    let peers = KeyedLimiter::<str>::builder(Quota::per_minute(1)).clock(&clock).build().expect("the default capacity");
    let check = |peer: &str| limit.check_with(|all| peers.check_n_with(peer, 1, all).is_ok());
    assert_eq!(counts((0..100).map(|_| check("a"))), (1, 0));
    assert_eq!(check("b").and_then(SuppressedCount::get), Some(99));
    assert_eq!(limit.limiter().peek().used(), 2, "a suppressed event takes no token of the limit");
}

/// Four threads, with a clock that moves on.
///
/// Each event passes, is in the count of one that does, or is left in the limit.
// CLAIM: logs::LogLimit
#[test]
fn no_count_is_lost_between_threads() {
    const THREADS: u64 = 4;
    const EVENTS: u64 = 20_000;
    let clock = Arc::new(ManualClock::new());
    let limit = limit(Quota::per_second(1_000), Arc::clone(&clock));
    let (passed, suppressed) = thread::scope(|scope| {
        let flood = || {
            counts((0..EVENTS).map(|_| {
                clock.advance(MILLI / 10);
                limit.check()
            }))
        };
        let threads = [(); THREADS as usize].map(|()| scope.spawn(flood));
        threads
            .map(|thread| thread.join().expect("no thread fails"))
            .into_iter()
            .fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
    });
    assert!(passed > 1_000, "{passed} of them pass");
    assert_eq!(passed + suppressed + limit.take_suppressed().get().unwrap_or(0), THREADS * EVENTS);
}

/// A clock that counts each reading as some ticks.
#[derive(Debug)]
struct Moving {
    ticks: AtomicU64,
    step: u64,
}

impl Clock for Moving {
    fn now(&self) -> u64 {
        self.ticks.fetch_add(self.step, Ordering::Relaxed) + self.step
    }

    fn frequency(&self) -> u64 {
        1_000
    }
}

/// A bucket and a count, in numbers without a limit.
struct Model {
    /// Thousandths of a token.
    level: i64,
    rate: i64,
    burst: i64,
    at: u64,
    suppressed: u64,
}

impl Model {
    /// Notes the answer at `now`, in milliseconds.
    ///
    /// A token may come early by what the rate brings in a tick, never late.
    fn note(&mut self, now: u64, answer: Option<u64>) {
        let refilled = i64::try_from(now - self.at).expect("a test is short") * self.rate;
        self.level = (self.level + refilled).min(self.burst * 1_000);
        self.at = now;
        let expected = match answer {
            _ if self.level >= 1_000 => Some(self.suppressed),
            Some(_) if self.level + self.rate >= 1_000 => Some(self.suppressed),
            _ => None,
        };
        assert_eq!(answer, expected, "at {now}, with {} thousandths of a token", self.level);
        if answer.is_some() {
            self.level -= 1_000;
            self.suppressed = 0;
        } else {
            self.suppressed += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Each answer is that of the model, also on a clock that moves at every reading.
    #[test]
    fn answers_are_those_of_a_model(
        rate in 1_u32..50,
        burst in 1_u32..10,
        step in 0_u64..3,
        pauses in prop::collection::vec(prop_oneof![4 => Just(0_u64), 2 => 0_u64..40, 1 => 0_u64..4_000], 1..300),
    ) {
        let clock = Moving { ticks: AtomicU64::new(0), step };
        let limit = limit(Quota::per_second(rate).burst(burst), &clock);
        // The first decision starts the line of tokens, and may read the clock more than once.
        prop_assert_eq!(limit.check().map(SuppressedCount::get), Some(None));
        let start = clock.ticks.load(Ordering::Relaxed);
        let (rate, burst) = (i64::from(rate), i64::from(burst));
        let mut model = Model { level: (burst - 1) * 1_000, rate, burst, at: start, suppressed: 0 };
        for pause in pauses {
            clock.ticks.fetch_add(pause, Ordering::Relaxed);
            let answer = limit.check().map(|count| count.get().unwrap_or(0));
            model.note(clock.ticks.load(Ordering::Relaxed), answer);
        }
        prop_assert_eq!(limit.take_suppressed().get().unwrap_or(0), model.suppressed);
    }
}
