//! The rate limiter through its public API.
//!
//! Examples of behaviour, and properties against an exact model.

use crate::models::bucket::{self, ExactBucket, Step};
use crate::models::cases::cases;
use damper::{Clock, ManualClock, Quota, RateLimiter};
use proptest::prelude::*;
use std::time::Duration;

/// `Denied` is an error that is `Send` and `'static`.
const _: () = {
    const fn is_an_error<E: std::error::Error + Send + Sync + 'static>() {}
    is_an_error::<damper::Denied>();
};

#[test]
fn burst_is_admitted_first_and_then_the_rate() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(3), &clock);
    for left in [2, 1, 0] {
        assert_eq!(limiter.check().unwrap().remaining(), left);
    }
    for _ in 0..100 {
        let denied = limiter.check().unwrap_err();
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
        assert_eq!(denied.resets_in(), Some(Duration::from_millis(300)));
        clock.advance(Duration::from_millis(100) - Duration::from_nanos(1));
        assert!(limiter.check().is_err(), "a nanosecond early");
        clock.advance(Duration::from_nanos(1));
        assert!(limiter.check().is_ok(), "not a nanosecond late");
    }
}

#[test]
fn two_a_second_lets_two_of_five_through() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(2).burst(2), &clock);
    let allowed = (0..5).filter(|_| limiter.check().is_ok()).count();
    assert_eq!(allowed, 2);
    assert_eq!(limiter.check().unwrap_err().to_string(), "rate limit exceeded, retry in 500 ms");
}

#[test]
fn zero_tokens_are_always_allowed() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(1), &clock);
    limiter.check().unwrap();
    assert!(limiter.check_n(0).is_ok());
    assert!(limiter.check().is_err());
    assert_eq!(limiter.peek().remaining(), 0);
}

#[test]
fn refusal_reports_a_cost_above_the_burst() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(100).burst(2), &clock);
    for n in [3, 16_777_217, 1 << 28, (1 << 28) + 1, u32::MAX] {
        let denied = limiter.check_n(n).unwrap_err();
        assert!(denied.exceeds_burst());
        assert_eq!(denied.retry_after(), None);
        assert_eq!(denied.remaining(), 2);
        assert_eq!(denied.to_string(), "rate limit exceeded: more tokens asked for than the burst");
    }
    assert!(limiter.check_n(2).is_ok(), "the refusals took nothing");
}

#[test]
fn burst_of_zero_allows_only_zero_tokens() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(0), &clock);
    assert!(limiter.check_n(0).is_ok());
    let denied = limiter.check().unwrap_err();
    assert!(denied.exceeds_burst());
    for denied in [denied, RateLimiter::with_clock(Quota::per_second(0), &clock).check().unwrap_err()] {
        assert_eq!(denied.to_string(), "rate limit exceeded: the burst is 0");
    }
    let spent = RateLimiter::with_clock(Quota::per_second(0).burst(1), &clock);
    spent.check().unwrap();
    let text = spent.check_n(2).unwrap_err().to_string();
    assert_eq!(text, "rate limit exceeded: more tokens asked for than the burst");
}

#[test]
fn rate_of_zero_admits_the_burst_once() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(0).burst(2), &clock);
    limiter.check_n(2).unwrap();
    clock.advance(Duration::from_hours(24 * 365));
    let denied = limiter.check().unwrap_err();
    assert_eq!((denied.retry_after(), denied.resets_in(), denied.exceeds_burst()), (None, None, false));
    assert_eq!(denied.to_string(), "rate limit exceeded, and the quota refills nothing");
    assert_eq!((limiter.peek().window(), limiter.peek().resets_in()), (None, None));
}

#[test]
fn largest_burst_without_a_rate_allows_ten_bursts_of_debt() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(0).burst(u32::MAX), &clock);
    assert_eq!(limiter.check_n(u32::MAX).unwrap().remaining(), 0);
    for _ in 0..9 {
        assert_eq!(limiter.charge(u32::MAX), u32::MAX);
    }
    clock.advance(Duration::from_secs(1));
    assert_eq!(limiter.check().unwrap_err().retry_after(), None);
    assert_eq!(limiter.charge(1), 1);
}

#[test]
fn stopped_clock_refills_nothing() {
    let clock = ManualClock::with_frequency(0);
    let limiter = RateLimiter::with_clock(Quota::per_second(5), &clock);
    limiter.check_n(5).unwrap();
    clock.advance_ticks(u64::MAX / 2);
    assert_eq!(limiter.check().unwrap_err().retry_after(), None);
}

#[test]
fn largest_quotas_fit() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(u32::MAX), &clock);
    limiter.check_n(u32::MAX).unwrap();
    assert!(limiter.check().is_err());
    clock.advance(Duration::from_nanos(1));
    assert_eq!(limiter.peek().remaining(), 4, "4.29 tokens refill in a nanosecond");

    let slow = Quota::per(u32::MAX, Duration::from_nanos(u64::MAX)).unwrap().max_debt(u32::MAX);
    let limiter = RateLimiter::with_clock(slow, &clock);
    limiter.check_n(u32::MAX).unwrap();
    let wait = limiter.check().unwrap_err().retry_after().unwrap();
    // A token every 4,294,967,297 ns. Here a unit exceeds a tick.
    assert!((4_294_967_297..4_294_967_400).contains(&wait.as_nanos()), "{wait:?}");
    clock.advance(wait);
    assert!(limiter.check().is_ok());
}

#[test]
fn clock_may_start_anywhere_and_wrap() {
    for start in [1, u64::MAX / 2, u64::MAX - 5, u64::MAX] {
        let clock = ManualClock::new();
        clock.set_ticks(start);
        let limiter = RateLimiter::with_clock(Quota::per_second(1).burst(2), &clock);
        limiter.check_n(2).unwrap();
        clock.advance(Duration::from_nanos(999_999_999));
        assert!(limiter.check().is_err());
        clock.advance(Duration::from_nanos(1));
        assert!(limiter.check().is_ok());
    }
}

#[test]
fn usage_adds_up() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(50).burst(100), &clock);
    limiter.check_n(30).unwrap();
    let usage = limiter.peek();
    assert_eq!((usage.limit(), usage.used(), usage.remaining()), (100, 30, 70));
    assert_eq!(usage.window(), Some(Duration::from_secs(2)));
    assert_eq!(usage.resets_in(), Some(Duration::from_millis(600)));
    assert_eq!(limiter.peek(), usage, "peeking takes nothing");
    assert_eq!(limiter.quota().to_string(), "50/s burst 100");
}

#[cfg(feature = "std")]
#[test]
fn limiter_can_be_a_static() {
    static LIMITER: RateLimiter = RateLimiter::new(Quota::per_hour(60).burst(2));
    assert!(LIMITER.check().is_ok());
    assert!(LIMITER.check().is_ok());
    let wait = LIMITER.check().unwrap_err().retry_after().unwrap();
    assert!(wait > Duration::from_secs(50) && wait <= Duration::from_mins(1), "{wait:?}");
}

#[test]
fn zero_and_overlong_windows_are_refused() {
    let longest = Duration::from_nanos(u64::MAX);
    for length in [Duration::ZERO, longest + Duration::from_nanos(1), Duration::MAX] {
        for (name, quota) in [("window", Quota::per(1, length)), ("interval", Quota::every(length))] {
            let error = quota.unwrap_err();
            assert_eq!(error.setting(), name);
            assert_eq!(error.allowed().to_string(), "1 ns to 18446744073.709551615 s (584 years)");
        }
    }
    assert_eq!(Quota::per(1, longest).unwrap(), Quota::every(longest).unwrap());
}

/// Racing threads on a moving clock take exactly the available tokens.
#[test]
fn racing_threads_take_every_token_once() {
    const THREADS: u32 = 4;
    const STEPS: u32 = 20_000;
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(1_000).burst(50), &clock);
    let allowed: u32 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut allowed = 0;
                    for step in 0..STEPS {
                        allowed += u32::from(limiter.check().is_ok());
                        if step % 4 == 0 {
                            clock.advance(Duration::from_micros(100));
                        }
                    }
                    allowed
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    // Includes the remaining tokens, so that no token is lost or created.
    //
    // Only tokens refilled into a full bucket are gone.
    let produced = THREADS * STEPS / 4 / 10;
    assert!(allowed <= 50 + produced, "{allowed} of 50 + {produced}");
    assert!(allowed + limiter.peek().remaining() >= produced, "{allowed} of {produced}");
}

/// A limiter built for a million a second counts at one a second in steps of half a millisecond.
#[test]
fn waits_stay_exact_after_a_change_to_a_much_slower_quota() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(1_000_000).burst(1), &clock);
    let second = Duration::from_secs(1);
    for n in 1..2_000 {
        limiter.set_quota(Quota::per_second(1_000_000).burst(1)).unwrap();
        clock.advance(Duration::from_micros(5) + Duration::from_nanos(n));
        limiter.check().unwrap();
        limiter.set_quota(Quota::per_second(1).burst(1)).unwrap();
        clock.advance(Duration::from_nanos(n * n));
        let wait = limiter.check().unwrap_err().retry_after().unwrap() + Duration::from_nanos(n * n);
        assert!(wait <= second + Duration::from_nanos(1), "late: {wait:?} after {n}");
        assert!(wait + Duration::from_millis(1) >= second, "early: {wait:?} after {n}");
        clock.advance(wait.checked_sub(Duration::from_nanos(n * n + 1)).unwrap());
        assert!(limiter.check().is_err(), "before the stated wait, after {n}");
        clock.advance(Duration::from_nanos(1));
        assert!(limiter.check().is_ok(), "after the stated wait, after {n}");
    }
}

fn quotas() -> impl Strategy<Value = Quota> {
    let limit = prop_oneof![Just(0), 1..20u32, 1..u32::MAX];
    let window = prop_oneof![
        Just(1_000_000_000),
        Just(60_000_000_000),
        Just(3_600_000_000_000),
        Just(30 * 86_400_000_000_000),
        1..10_000_000_000_000u64
    ];
    let burst = prop_oneof![Just(None), (0..5u32).prop_map(Some), (0..u32::MAX).prop_map(Some)];
    (limit, window, burst).prop_map(|(limit, window, burst)| {
        let quota = Quota::per(limit, Duration::from_nanos(window)).unwrap();
        burst.map_or(quota, |burst| quota.burst(burst))
    })
}

fn frequencies() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(1_000_000_000),
        1 => Just(1_000_000),
        1 => Just(1_000),
        1 => Just(32_768),
        2 => Just(2_496_000_123),
        1 => 1..4_000_000_000u64
    ]
}

fn steps() -> impl Strategy<Value = Vec<(Step, u32)>> {
    let step = prop_oneof![
        2 => (0..100u64).prop_map(Step::Pass),
        4 => (0..10_000_000_000u64).prop_map(Step::Pass),
        // Long enough for positions to complete a cycle within a history.
        1 => (0..1u64 << 59).prop_map(Step::Pass),
        4 => (-2..=2i8).prop_map(Step::Nearly),
        4 => Just(Step::Wait)
    ];
    let cost = prop_oneof![5 => Just(1), 2 => 0..5u32, 1 => any::<u32>()];
    proptest::collection::vec((step, cost), 1..200)
}

/// From one an hour to 10^9 a second. The windows have a small common multiple, which the model needs.
fn rates() -> impl Strategy<Value = Quota> {
    let window = prop_oneof![Just(1_000_000), Just(1_000_000_000), Just(3_600_000_000_000), Just(7_777_777_777u64)];
    let limit = prop_oneof![1..10u32, 1..1_000u32, 1..1_000_000u32];
    (limit, window, 1..100u32)
        .prop_map(|(limit, window, burst)| Quota::per(limit, Duration::from_nanos(window)).unwrap().burst(burst))
}

/// Prepares a call: the clock moves, and the quota may change.
fn changes() -> impl Strategy<Value = Vec<(Step, Option<usize>, u32)>> {
    let step = prop_oneof![
        1 => (0..100u64).prop_map(Step::Pass),
        1 => (0..10_000_000_000u64).prop_map(Step::Pass),
        2 => (-2..=2i8).prop_map(Step::Nearly),
        1 => Just(Step::Wait)
    ];
    proptest::collection::vec((step, proptest::option::weighted(0.3, 0..4usize), 1..20u32), 1..100)
}

/// At 10 ticks a second: seven tenths of a token are there when the quota becomes 3 a second.
///
/// The rest is due a tick later. The new line starts a whole number of its ticks before the change, so it comes two ticks later.
// CLAIM: a new quota
#[test]
fn token_after_a_change_is_late_by_less_than_two_ticks() {
    let clock = ManualClock::with_frequency(10);
    let limiter = RateLimiter::with_clock(Quota::per_second(7).burst(1), &clock);
    limiter.check().unwrap();
    clock.advance_ticks(1);
    limiter.set_quota(Quota::per_second(3).burst(1)).unwrap();
    clock.advance_ticks(1);
    assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_millis(100)));
    clock.advance_ticks(1);
    assert!(limiter.check().is_ok());
}

proptest! {
    #![proptest_config(cases(200))]

    /// After any changes of the quota a token comes at the tick in which it is due, or at the next one.
    ///
    /// It is early by at most the tokens of a tick, under the quota in force or the one that the limiter was built
    /// with. Waits are exact.
    // CLAIM: a new quota
    #[test]
    fn tokens_stay_on_time_across_quota_changes(quotas in proptest::array::uniform4(rates()), steps in changes()) {
        let clock = ManualClock::new();
        let [built, ..] = quotas;
        let limiter = RateLimiter::with_clock(built, &clock);
        let (mut model, built) = (ExactBucket::new(built, clock.frequency()), ExactBucket::new(built, clock.frequency()));
        for (step, change, n) in steps {
            if let Some(quota) = change.map(|index| quotas[index])
                && limiter.set_quota(quota).is_ok()
            {
                model.change(quota, clock.frequency());
            }
            let n = n.min(limiter.quota().burst_size());
            let wait = |off: i128| u64::try_from((model.wait(n).unwrap_or(0) + off).max(0)).unwrap();
            let ticks = match step {
                Step::Pass(ticks) => ticks,
                Step::Nearly(off) => wait(off.into()),
                Step::Wait => wait(0),
            };
            clock.advance_ticks(ticks);
            model.pass(ticks);
            if let Err(denied) = limiter.check_n(n) {
                prop_assert!(!model.will_have(n, -1), "{} of {:?}: late", n, model);
                let ticks = u64::try_from(denied.retry_after().unwrap().as_nanos()).unwrap();
                clock.advance_ticks(ticks - 1);
                prop_assert!(limiter.check_n(n).is_err(), "{} of {:?}: before the stated wait", n, model);
                clock.advance_ticks(1);
                prop_assert!(limiter.check_n(n).is_ok(), "{} of {:?}: after the stated wait", n, model);
                model.pass(ticks);
            }
            let early = model.will_have(n, 1) || model.will_have_by_ticks_of(n, 1, &built);
            prop_assert!(early, "{} of {:?}: too early", n, model);
            model.take(n);
        }
    }

    // CLAIM: RateLimiter
    #[test]
    fn bucket_matches_exact_arithmetic(quota in quotas(), frequency in frequencies(), start: u64, steps in steps()) {
        bucket::compare(quota, frequency, start, steps);
    }

    /// `retry_after` is the shortest wait after which the same call succeeds, at every rate.
    #[test]
    fn retry_after_is_the_shortest_wait(quota in quotas(), frequency in frequencies(), idle in 0..1u64 << 50, drip: u64, n in 1..u32::MAX) {
        prop_assume!(quota.limit() > 0);
        let quota = quota.burst(quota.burst_size().max(1));
        let n = n % quota.burst_size() + 1;
        let model = ExactBucket::new(quota, frequency);
        // Excludes quotas whose deepest debt takes decades to refill, where a unit exceeds a tick.
        prop_assume!(model.ticks_for_bursts(11) < 1 << 57);
        let idle = idle.min((1 << 61) / model.tokens_in_a_tick().max(4));
        // A part of the token's time has passed already.
        let mut empty = ExactBucket::new(quota, frequency);
        empty.take(quota.burst_size());
        let drip = drip % u64::try_from(empty.wait(n).unwrap()).unwrap();
        let after = |ticks: u64| {
            let clock = ManualClock::with_frequency(frequency);
            let limiter = RateLimiter::with_clock(quota, &clock);
            limiter.check_n(0).unwrap();
            clock.advance_ticks(idle);
            limiter.check_n(quota.burst_size()).unwrap();
            clock.advance_ticks(drip + ticks);
            limiter.check_n(n)
        };
        // If a token may be a tick early, it may be available already.
        let Err(refusal) = after(0) else { return Err(TestCaseError::reject("there already")) };
        // Converts the duration back to ticks, rounding down, which undoes the rounding up.
        let ticks = refusal.retry_after().unwrap().as_nanos() * u128::from(frequency) / 1_000_000_000;
        let ticks = u64::try_from(ticks).unwrap();
        // A frequency is passed on with 26 significant bits, rounded down, and the wait is rounded up to nanoseconds.
        let rounded = frequency.trailing_zeros() + 26 < 64 - frequency.leading_zeros();
        let slack = if rounded { (ticks >> 24) + 1 } else { 0 } + frequency / 1_000_000_001;
        prop_assert!(after(ticks).is_ok(), "the stated wait suffices");
        let early = 1 + slack;
        if ticks > early {
            prop_assert!(after(ticks - early).is_err(), "{} ticks less suffice too", early);
        }
    }

    /// However the clock steps, no token is credited twice for the same forward motion.
    ///
    /// No caller is locked out for longer than the deepest debt takes to refill.
    #[test]
    fn bucket_recovers_from_a_clock_that_steps_back(
        limit in 1..1_000u32,
        burst in 1..100u32,
        moves in proptest::collection::vec((any::<bool>(), 0..100_000_000_000u64, 1..5u32), 1..200),
    ) {
        let quota = Quota::per_second(limit).burst(burst).max_debt(burst);
        let clock = ManualClock::new();
        clock.set_ticks(1 << 50);
        let limiter = RateLimiter::with_clock(quota, &clock);
        let (mut admitted, mut forward) = (0u128, 0u128);
        for (back, ticks, n) in moves {
            if back {
                clock.set_ticks(clock.now() - ticks);
            } else {
                clock.advance_ticks(ticks);
                forward += u128::from(ticks);
            }
            if limiter.check_n(n).is_ok() {
                admitted += u128::from(n);
            }
            let produced = u128::from(limit) * (forward + 1);
            prop_assert!((admitted - u128::from(burst).min(admitted)) * 1_000_000_000 <= produced);
        }
        let _ = limiter.check();
        // The deepest debt is two bursts, plus one tick for rounding.
        clock.advance(Duration::from_nanos(2 * u64::from(burst) * 1_000_000_000 / u64::from(limit) + 2));
        prop_assert!(limiter.check_n(burst).is_ok());
    }
}
