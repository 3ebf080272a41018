//! Pauses of a limiter, against exact rationals.
#![expect(clippy::cast_precision_loss, reason = "times of milliseconds are far below 2^53")]
#![expect(clippy::float_cmp, reason = "a share is the same or another one, and 0 and 1 are exact")]

use damper::{
    Clock, CoarseClock, Denied, LimitSet, Limiter, ManualClock, Pausable, Quota, Ramp, RateLimiter, RateLimiter32,
    Striped,
};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// Ten tokens a second.
fn limiter<C: Clock>(clock: C) -> RateLimiter<damper::TokenBucket, C> {
    RateLimiter::with_clock(Quota::per_second(10), clock)
}

fn pause_named(denied: Denied) -> Option<Duration> {
    assert_eq!((denied.remaining(), denied.resets_in()), (0, denied.retry_after()));
    assert!(!denied.exceeds_burst());
    denied.retry_after()
}

#[test]
fn pause_takes_no_tokens_and_refuses_until_its_end() {
    let clock = ManualClock::new();
    let polite = Pausable::with_clock(limiter(&clock), &clock);
    polite.check_n(4).unwrap();
    polite.pause_for(Duration::from_millis(100));
    for _ in 0..100 {
        assert_eq!(pause_named(polite.check_n(6).unwrap_err()), Some(Duration::from_millis(100)));
        assert_eq!(pause_named(polite.try_acquire(11).unwrap_err()), Some(Duration::from_millis(100)));
    }
    clock.advance(Duration::from_nanos(99_999_999));
    assert_eq!(pause_named(polite.check().unwrap_err()), Some(Duration::from_nanos(1)));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(polite.pause_left(), Duration::ZERO);
    assert_eq!(polite.check_n(7).unwrap().remaining(), 0, "the limiter refilled meanwhile");
    assert!(polite.check_n(11).unwrap_err().exceeds_burst());
    assert_eq!(polite.limiter().peek().used(), 10);
}

#[test]
fn no_tokens_are_allowed_while_paused() {
    let clock = ManualClock::new();
    let polite = Pausable::with_clock(limiter(&clock), &clock);
    polite.pause_for(SECOND);
    assert_eq!(polite.check_n(0).unwrap().remaining(), 10);
    assert!(polite.try_acquire(0).is_ok() && polite.try_acquire(1).is_err());
}

#[test]
fn pause_is_never_shortened() {
    let clock = ManualClock::new();
    let polite = Pausable::with_clock(limiter(&clock), &clock);
    for (pause, left) in [(2, 2), (1, 2), (0, 2), (3, 3)] {
        polite.pause_for(pause * SECOND);
        assert_eq!(polite.pause_left(), left * SECOND);
    }
    clock.advance(2 * SECOND);
    polite.pause_for(SECOND / 2);
    assert_eq!(polite.pause_left(), SECOND, "the present pause ends later");
    clock.advance(2 * SECOND);
    polite.pause_for(SECOND / 2);
    assert_eq!(polite.pause_left(), SECOND / 2, "the earlier pause has ended");
}

#[test]
fn usage_counts_everything_as_used_while_paused() {
    let clock = ManualClock::new();
    let polite = Pausable::with_clock(limiter(&clock), &clock);
    polite.check().unwrap();
    let used = |polite: &dyn Limiter| (polite.usage().used(), polite.usage().remaining(), polite.usage().resets_in());
    assert_eq!(used(&polite), (1, 9, Some(SECOND / 10)));
    polite.pause_for(2 * SECOND);
    assert_eq!(used(&polite), (10, 0, Some(2 * SECOND)));
    polite.limiter().check_n(9).unwrap();
    clock.advance(Duration::from_millis(1_500));
    polite.limiter().check_n(10).unwrap();
    assert_eq!(used(&polite), (10, 0, Some(SECOND)), "the refill takes longer than the pause");
}

#[test]
fn every_limiter_can_be_paused() {
    static CLOCK: CoarseClock = CoarseClock::new();
    let quota = Quota::per_second(10);
    let set = Pausable::with_clock(LimitSet::with_clock([quota, Quota::per_minute(5)], &CLOCK), &CLOCK);
    let narrow = Pausable::with_clock(RateLimiter32::new(quota, &CLOCK).unwrap(), &CLOCK);
    let shared = Pausable::with_clock(Arc::new(limiter(&CLOCK)), &CLOCK);
    let striped = Pausable::with_clock(Striped::with_clock(quota.burst(20), 10, &CLOCK).unwrap(), &CLOCK);
    assert_eq!(set.check().unwrap().remaining(), 4);
    assert_eq!(set.check_n(5).unwrap_err().retry_after(), Some(12 * SECOND), "the limit per minute refuses");
    assert_eq!(narrow.check().unwrap().remaining(), 9);
    assert_eq!(shared.check().unwrap().remaining(), 9);
    striped.try_acquire(1).unwrap();
    set.pause_for(SECOND);
    narrow.pause_for(SECOND);
    shared.pause_for(SECOND);
    striped.pause_for(SECOND);
    for refusal in [set.check(), narrow.check(), shared.check()] {
        assert_eq!(pause_named(refusal.unwrap_err()), Some(SECOND));
    }
    for limiter in [&set as &dyn Limiter, &narrow, &shared, &striped] {
        assert_eq!(pause_named(limiter.try_acquire(1).unwrap_err()), Some(SECOND));
    }
    CLOCK.advance(SECOND);
    for limiter in [&set as &dyn Limiter, &narrow, &shared, &striped] {
        limiter.try_acquire(1).unwrap();
    }
}

#[test]
fn pauses_until_an_instant() {
    static LIMITER: RateLimiter = RateLimiter::new(Quota::per_second(10));
    static POLITE: Pausable<&RateLimiter> = Pausable::new(&LIMITER);
    POLITE.pause_until(Instant::now());
    assert!(POLITE.check().is_ok());
    POLITE.pause_until(Instant::now() + 100 * SECOND);
    let left = POLITE.pause_left();
    assert!(left > 90 * SECOND && left <= 101 * SECOND, "{left:?}");
    assert!(POLITE.check().is_err() && LIMITER.check().is_ok());
}

#[test]
fn far_pauses_saturate() {
    let clock = ManualClock::new();
    for start in [0, 1, u64::MAX, 1 << 62, 1 << 63] {
        clock.set_ticks(start);
        let polite = Pausable::with_clock(limiter(&clock), &clock);
        polite.pause_for(Duration::MAX);
        assert_eq!(polite.pause_left(), Duration::from_nanos(1 << 62));
        clock.advance_ticks((1 << 62) - 1);
        assert_eq!(pause_named(polite.check().unwrap_err()), Some(Duration::from_nanos(1)));
        clock.advance_ticks(1);
        assert!(polite.check().is_ok());
    }
}

/// The clock wraps at the tick that means "never paused".
///
/// A pause that would end there ends a tick later.
#[test]
fn pause_may_end_where_the_clock_wraps() {
    let clock = ManualClock::new();
    clock.set_ticks(u64::MAX - 9);
    let polite = Pausable::with_clock(limiter(&clock), &clock);
    polite.pause_for(Duration::from_nanos(10));
    for left in (1..=11).rev() {
        assert_eq!(pause_named(polite.check().unwrap_err()), Some(Duration::from_nanos(left)));
        clock.advance_ticks(1);
    }
    assert!(polite.check().is_ok());
}

#[test]
fn pause_on_a_stopped_clock_does_not_end() {
    let clock = ManualClock::with_frequency(0);
    let polite = Pausable::with_clock(limiter(&clock), &clock);
    polite.pause_for(Duration::ZERO);
    assert!(polite.check().is_ok());
    polite.pause_for(SECOND);
    assert_eq!((pause_named(polite.check().unwrap_err()), polite.pause_left()), (None, Duration::MAX));
    assert_eq!(polite.usage().resets_in(), None);
}

/// A clock that may step back by a second.
#[derive(Debug)]
struct Skewed(ManualClock);

impl Clock for Skewed {
    fn now(&self) -> u64 {
        self.0.now()
    }
    fn frequency(&self) -> u64 {
        self.0.frequency()
    }
    fn max_step_back(&self) -> u64 {
        1_000_000_000
    }
}

#[test]
fn clock_that_steps_back_locks_out_no_longer_than_the_longest_pause() {
    let clock = Skewed(ManualClock::new());
    clock.0.advance(1_000 * SECOND);
    let polite = Pausable::with_clock(limiter(&clock), &clock);
    polite.pause_for(60 * SECOND);
    clock.0.step_back(SECOND);
    assert_eq!(polite.pause_left(), 61 * SECOND, "a step within the stated bound");
    clock.0.step_back(3 * SECOND / 2);
    assert_eq!(polite.pause_left(), Duration::ZERO, "a step beyond the bound");
    assert!(polite.check().is_ok());
    polite.pause_for(10 * SECOND);
    assert_eq!(polite.pause_left(), 10 * SECOND, "the next pause holds");
    clock.0.step_back(40 * SECOND);
    assert_eq!(polite.pause_left(), 50 * SECOND, "no pause exceeds 61 s");
}

/// A clock that is a tick behind at every other reading.
struct Unsteady(ManualClock, AtomicU64);

impl Clock for Unsteady {
    fn now(&self) -> u64 {
        self.0.now() - self.1.fetch_add(1, Relaxed) % 2
    }

    fn frequency(&self) -> u64 {
        self.0.frequency()
    }

    fn max_step_back(&self) -> u64 {
        1
    }
}

/// A call reads the clock for the pause, and again for the ramp.
#[test]
fn ramp_begins_even_if_the_clock_steps_back_to_the_pause() {
    let clock = Unsteady(ManualClock::new(), AtomicU64::new(0));
    clock.0.advance(SECOND);
    let polite = Pausable::with_clock(RateLimiter::with_clock(Quota::UNLIMITED, ManualClock::new()), &clock);
    let polite = polite.ramp(Ramp::steps(60 * SECOND)).unwrap();
    polite.pause_for(SECOND);
    // Up to the first reading at which the pause is over.
    let mut passed = 0;
    for _ in 0..4 {
        clock.0.advance(SECOND / 4);
        passed += (0..1_000).filter(|_| polite.check().is_ok()).count();
    }
    assert!(passed <= 8, "{passed} of the calls passed, a thousandth of those after the pause should");
}

proptest! {
    /// At every frequency and from any start, also where the clock wraps.
    ///
    /// The pause that ends last is in force, and its remaining time is rounded up.
    #[test]
    fn agrees_with_rationals(
        start: u64,
        exponent in 0..30u32,
        odd in 0..1u64 << 20,
        pauses in prop::collection::vec((0..20_000_000_000u64, prop_oneof![0..10_000_000_000u64, 0..1_000u64]), 1..12),
    ) {
        let frequency = (odd << 1 | 1) << exponent;
        let clock = ManualClock::with_frequency(frequency);
        clock.set_ticks(start);
        let polite = Pausable::with_clock(limiter(&clock), &clock);
        let (mut now, mut until) = (0u128, 0u128);
        for (pause, step) in pauses {
            polite.pause_for(Duration::from_nanos(pause));
            until = until.max(now + (u128::from(pause) * u128::from(frequency)).div_ceil(1_000_000_000));
            for step in [0, step] {
                clock.advance(Duration::from_nanos(step));
                now += u128::from(step) * u128::from(frequency) / 1_000_000_000;
                let left = (until.saturating_sub(now) * 1_000_000_000).div_ceil(u128::from(frequency));
                prop_assert_eq!(polite.pause_left().as_nanos(), left);
                prop_assert_eq!(polite.try_acquire(11).unwrap_err().exceeds_burst(), left == 0);
            }
        }
    }
}

/// A limiter that refuses nothing, behind pauses of which it returns by a ramp.
fn returning(
    clock: &ManualClock,
    ramp: Ramp,
) -> Pausable<RateLimiter<damper::TokenBucket, &ManualClock>, &ManualClock> {
    Pausable::with_clock(RateLimiter::with_clock(Quota::UNLIMITED, clock), clock).ramp(ramp).unwrap()
}

#[test]
fn later_pause_begins_a_ramp_of_its_own() {
    let clock = ManualClock::new();
    let polite = returning(&clock, Ramp::steps(60 * SECOND));
    let passed = || (0..1_000).filter(|_| polite.check().is_ok()).count() as u32;
    assert_eq!(passed(), 1_000, "no ramp before the first pause");
    for _ in 0..2 {
        polite.pause_for(SECOND);
        clock.advance(SECOND);
        assert!(passed() <= 8, "a thousandth of the calls");
        clock.advance(50 * SECOND);
        assert!(passed().abs_diff(500) <= 8);
        let refused = (0..9).find_map(|_| polite.check().err()).unwrap();
        assert_eq!(refused.retry_after(), Some(10 * SECOND), "until all pass");
        assert_eq!(polite.pause_left(), Duration::ZERO);
        assert!(polite.check_n(0).is_ok(), "a call for no tokens is always allowed");
    }
    clock.advance(10 * SECOND);
    assert_eq!(passed(), 1_000);
    let error = Pausable::with_clock(limiter(&clock), &clock).ramp(Ramp::linear(Duration::ZERO)).unwrap_err();
    assert_eq!(error.to_string(), "ramp is 0 ns, it must be 1 ns to 1 day");
}

proptest! {
    /// Calls, pauses and time in any order, against a pause and a ramp in plain numbers.
    #[test]
    fn return_from_a_pause_lets_its_share_pass(
        millis in 1..100_u64,
        steps in proptest::collection::vec((0..4_u8, 0..60_u64), 1..200),
    ) {
        let clock = ManualClock::new();
        let polite = returning(&clock, Ramp::linear(Duration::from_millis(millis)));
        let (mut now, mut until) = (0_u64, None::<u64>);
        let (mut of, mut calls, mut passed) = (0.0, 0_u32, 0_u32);
        for (step, amount) in steps {
            match step {
                0 => {
                    polite.pause_for(Duration::from_millis(amount));
                    if amount > 0 {
                        until = until.max(Some(now + amount));
                    }
                }
                1 => {
                    now += amount;
                    clock.advance(Duration::from_millis(amount));
                }
                _ => for _ in 0..amount {
                    let answer = polite.check();
                    let share = match until {
                        Some(until) if now < until => 0.0,
                        Some(until) if now < until + millis => ((now - until) as f64 / millis as f64).max(0.001),
                        _ => 1.0,
                    };
                    (calls, passed) = if share == of { (calls, passed) } else { (0, 0) };
                    (of, calls, passed) = (share, calls + 1, passed + u32::from(answer.is_ok()));
                    let off = (f64::from(passed) - f64::from(calls) * share).abs();
                    let is_exact = share == 0.0 || share == 1.0;
                    prop_assert!(off <= if is_exact { 0.0 } else { 8.1 }, "{passed} of {calls}, {share}");
                    if let Err(denied) = answer && !is_exact {
                        let wait = denied.retry_after().unwrap().as_secs_f64() * 1e3;
                        let left = (until.unwrap() + millis - now) as f64;
                        prop_assert!(wait > 0.0 && wait <= left, "{wait} of {left}");
                    }
                },
            }
        }
    }
}
