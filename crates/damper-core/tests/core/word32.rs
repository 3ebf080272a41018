//! The 32-bit limiter and breaker, with every set of features.

use crate::models::timer::Timer;
use damper::breaker::State;
use damper::time::FixedFrequency;
use damper::{BreakerConfig, CallError, CircuitBreaker32, Clock, Quota, RateLimiter32};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const MILLIS: u64 = 1_000;
const MICROS: u64 = 1_000_000;
const NANOS: u64 = 1_000_000_000;

fn limiter<const HERTZ: u64>(quota: Quota, timer: &Timer<HERTZ>) -> RateLimiter32<&Timer<HERTZ>> {
    RateLimiter32::new(quota, timer).unwrap()
}

#[test]
fn burst_then_rate_is_admitted() {
    let timer = Timer::<MILLIS>::at(0);
    let limiter = limiter(Quota::per_second(10).burst(3), &timer);
    assert_eq!(limiter.check_n(3).unwrap().remaining(), 0);
    let denied = limiter.check().unwrap_err();
    assert_eq!((denied.retry_after(), denied.exceeds_burst()), (Some(Duration::from_millis(100)), false));
    assert_eq!(denied.resets_in(), Some(Duration::from_millis(300)));
    timer.advance(99);
    assert!(limiter.check().is_err());
    timer.advance(1);
    assert_eq!(limiter.check().unwrap().resets_in(), Some(Duration::from_millis(300)));
    assert!(limiter.check_n(4).unwrap_err().exceeds_burst());
    assert_eq!((limiter.peek().used(), limiter.peek().remaining()), (3, 0));
    assert_eq!(limiter.check_n(0).unwrap().remaining(), 0);
    assert_eq!(limiter.quota(), Quota::per_second(10).burst(3));
}

#[test]
fn ends_of_the_range_work() {
    let timer = Timer::<NANOS>::at(0);
    let largest = Quota::per_second(1).burst((1 << 28) - 1);
    assert_eq!(limiter(largest, &timer).check_n((1 << 28) - 1).unwrap().remaining(), 0);
    let error = RateLimiter32::new(Quota::per_second(1).burst(1 << 28), &timer).unwrap_err();
    assert_eq!(error.to_string(), "burst is 268435456, it must be at most 268435455 (in 32 bits)");

    let unlimited = limiter(Quota::UNLIMITED, &timer);
    assert_eq!(unlimited.check_n(u32::MAX).unwrap().remaining(), u32::MAX);
    let nothing = limiter(Quota::per_second(0).burst(2), &timer);
    assert!(nothing.check_n(2).is_ok());
    timer.advance(1 << 60);
    assert_eq!(nothing.check().unwrap_err().retry_after(), None);
    // More tokens in a tick than a burst can hold.
    let slow = Timer::<1>::at(0);
    let fast = limiter(Quota::per(u32::MAX, Duration::from_nanos(1)).unwrap().burst(5), &slow);
    assert!(fast.check_n(5).is_ok() && fast.check().is_err());
    slow.advance(1);
    assert!(fast.check_n(5).is_ok());
}

/// An idle limiter admits at most its burst, however long it was unused.
///
/// It is full again after the time in which a burst refills.
#[test]
fn wrapping_only_makes_it_stricter() {
    let quota = Quota::per_second(10).burst(10);
    let mut strict = 0;
    for away in (0..40_000_000_000u64).step_by(99_999_989) {
        let timer = Timer::<NANOS>::at(0);
        let limiter = limiter(quota, &timer);
        assert!(limiter.check_n(10).is_ok());
        timer.advance(NANOS + away);
        let first = (0..20).filter(|_| limiter.check().is_ok()).count();
        assert!(first <= 10);
        strict += usize::from(first < 10);
        timer.advance(NANOS);
        assert_eq!((0..20).filter(|_| limiter.check().is_ok()).count(), 10, "after {away} ns");
    }
    // The word wraps after 25.6 s, so for one second of the 40 the bucket reads as partly used.
    assert!((9..=11).contains(&strict), "{strict} of 400");
}

#[test]
fn step_back_within_the_stated_skew_mints_nothing() {
    struct Stepping(AtomicU64);
    impl FixedFrequency for Stepping {
        const HERTZ: u64 = MILLIS;
        const MAX_STEP_BACK: u64 = 500;
    }
    impl Clock for Stepping {
        fn now(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
        fn frequency(&self) -> u64 {
            MILLIS
        }
        fn max_step_back(&self) -> u64 {
            Self::MAX_STEP_BACK
        }
    }
    let timer = Stepping(AtomicU64::new(10_000));
    let limiter = RateLimiter32::new(Quota::per_second(1).burst(1), &timer).unwrap();
    assert!(limiter.check().is_ok());
    timer.0.store(9_500, Ordering::Relaxed);
    assert!(limiter.check().is_err(), "the stated bound is half a second");
    timer.0.store(11_000, Ordering::Relaxed);
    assert!(limiter.check().is_ok());
}

#[test]
fn racing_threads_take_exactly_the_burst() {
    let timer = Timer::<NANOS>::at(0);
    let limiter = limiter(Quota::per_second(1_000_000).burst(1_000), &timer);
    for _ in 0..500 {
        let allowed: usize = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..600).filter(|_| limiter.check().is_ok()).count())).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(allowed, 1_000);
        timer.advance(1_000_000);
    }
}

/// A bucket in exact rationals.
struct Bucket {
    /// The tokens times `scale`.
    level: i128,
    burst: i128,
    scale: i128,
    per_tick: i128,
}

impl Bucket {
    fn new(quota: Quota, hertz: u64) -> Self {
        let scale = i128::try_from(quota.window().as_nanos()).unwrap() * i128::from(hertz);
        let burst = i128::from(quota.burst_size()) * scale;
        Self { level: burst, burst, scale, per_tick: i128::from(quota.limit()) * 1_000_000_000 }
    }

    fn pass(&mut self, ticks: u64) {
        self.level = (self.level + i128::from(ticks) * self.per_tick).min(self.burst);
    }

    /// Whether `n` tokens are available, or will be after this many ticks.
    fn has(&self, n: u32, ticks: i128) -> bool {
        (self.level + ticks * self.per_tick).min(self.burst) >= i128::from(n) * self.scale
    }
}

fn is_exact<const HERTZ: u64>(quota: Quota, moves: &[(u64, u32)]) -> Result<(), TestCaseError> {
    let timer = Timer::<HERTZ>::at(0);
    let limiter = limiter(quota, &timer);
    let mut model = Bucket::new(quota, HERTZ);
    // A unit is at most the 2^-27th part of a burst. Positions and the rate are rounded.
    let refill = model.burst / model.per_tick;
    let early = 2 + (refill >> 26);
    let circle = u64::try_from(refill * 8).unwrap_or(u64::MAX);
    let mut idle = 0;
    for &(ticks, n) in moves {
        let ticks = ticks.min(circle - idle);
        idle += ticks;
        timer.advance(ticks);
        model.pass(ticks);
        match limiter.check_n(n) {
            Ok(_) => {
                prop_assert!(model.has(n, early), "{n} of {quota}");
                model.level -= i128::from(n) * model.scale;
                idle = if n == 0 { idle } else { 0 };
            }
            Err(denied) => {
                prop_assert!(!model.has(n, 0), "{n} of {quota}");
                prop_assert_eq!(denied.exceeds_burst(), n > quota.burst_size());
                // Waits of centuries are not checked exactly.
                if let Some(wait) = denied.retry_after().filter(|wait| wait.as_secs() < 1 << 33) {
                    let ticks = wait.as_nanos() * u128::from(HERTZ) / 1_000_000_000;
                    let ticks = i128::try_from(ticks).unwrap() + 1;
                    prop_assert!(model.has(n, ticks + early), "{n} of {quota} after {ticks}");
                    prop_assert!(ticks < 4 || !model.has(n, ticks - 3 - early), "{n} of {quota} after {ticks}");
                }
            }
        }
    }
    Ok(())
}

fn quotas() -> impl Strategy<Value = Quota> {
    let limit = prop_oneof![6 => 1..20u32, 2 => any::<u32>().prop_map(|limit| limit.max(1))];
    let window = prop_oneof![
        Just(1_000_000),
        Just(1_000_000_000),
        Just(60_000_000_000),
        Just(30 * 86_400_000_000_000),
        1_000_000..10_000_000_000_000u64
    ];
    let burst = prop_oneof![1..20u32, 1..1u32 << 28];
    (limit, window, burst)
        .prop_map(|(limit, window, burst)| Quota::per(limit, Duration::from_nanos(window)).unwrap().burst(burst))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn limiter_matches_the_model(
        quota in quotas(),
        moves in proptest::collection::vec(
            (prop_oneof![0..100u64, 0..1u64 << 36], prop_oneof![3 => 0..20u32, 1 => any::<u32>()]),
            1..100,
        ),
    ) {
        is_exact::<MILLIS>(quota, &moves)?;
        is_exact::<MICROS>(quota, &moves)?;
        is_exact::<25_000_000>(quota, &moves)?;
        is_exact::<32_768>(quota, &moves)?;
        is_exact::<NANOS>(quota, &moves)?;
    }
}

fn config() -> damper::breaker::BreakerConfigBuilder {
    BreakerConfig::builder().failure_threshold(2).cooldown(Duration::from_secs(1)).max_cooldown(Duration::from_secs(1))
}

fn breaker<const HERTZ: u64>(
    config: damper::breaker::BreakerConfigBuilder,
    timer: &Timer<HERTZ>,
) -> CircuitBreaker32<&Timer<HERTZ>> {
    CircuitBreaker32::new(config.build().unwrap(), timer).unwrap()
}

#[test]
fn breaker_trips_probes_and_closes() {
    let timer = Timer::<MILLIS>::at(0);
    let breaker = breaker(config(), &timer);
    breaker.try_acquire().unwrap().failure();
    breaker.try_acquire().unwrap().success();
    breaker.try_acquire().unwrap().failure();
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(breaker.call(|| Err::<(), _>("down")), Err(CallError::Failed("down")));
    assert_eq!(breaker.state(), State::Open);
    let wait = breaker.try_acquire().unwrap_err().retry_after().unwrap();
    assert!((Duration::from_secs(1)..Duration::from_millis(1_010)).contains(&wait), "{wait:?}");

    timer.advance(999);
    assert!(breaker.try_acquire().is_err());
    timer.advance(2);
    let probe = breaker.try_acquire().unwrap();
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), None, "probe in progress");
    drop(probe);
    let probe = breaker.try_acquire().unwrap();
    probe.failure();
    assert_eq!(breaker.state(), State::Open);
    timer.advance(1_001);
    assert_eq!(breaker.state(), State::HalfOpen);
    assert_eq!(breaker.call(|| Ok::<_, ()>(7)), Ok(7));
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn late_result_is_discarded() {
    let timer = Timer::<MILLIS>::at(0);
    let breaker = breaker(config(), &timer);
    let late = breaker.try_acquire().unwrap();
    breaker.force_open();
    breaker.reset();
    late.failure();
    breaker.try_acquire().unwrap().failure();
    assert_eq!(breaker.state(), State::Closed, "one failure");
}

#[test]
fn cooldowns_grow_while_probes_fail() {
    let timer = Timer::<MICROS>::at(0);
    let breaker =
        breaker(config().failure_threshold(1).cooldown_factor(2.0).max_cooldown(Duration::from_secs(100)), &timer);
    breaker.try_acquire().unwrap().failure();
    for cooldown in [1, 2, 4, 8, 16, 32, 64, 100, 100] {
        let wait = breaker.try_acquire().unwrap_err().retry_after().unwrap().as_micros() as u64;
        // The longest cooldown takes 2^19 units.
        assert!((cooldown * MICROS..=cooldown * MICROS + 2 * 512).contains(&wait), "{wait} of {cooldown} s");
        timer.advance(wait - 600);
        assert!(breaker.try_acquire().is_err());
        timer.advance(600);
        breaker.try_acquire().unwrap().failure();
    }
}

#[test]
fn half_open_ends() {
    let timer = Timer::<MILLIS>::at(0);
    let breaker = breaker(config().failure_threshold(1).max_half_open(Duration::from_secs(10)), &timer);
    breaker.try_acquire().unwrap().failure();
    timer.advance(1_002);
    core::mem::forget(breaker.try_acquire().unwrap());
    timer.advance(9_990);
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), None);
    timer.advance(100);
    assert!(breaker.try_acquire().unwrap_err().retry_after().is_some(), "open again");
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn state_applies_max_half_open() {
    let timer = Timer::<MILLIS>::at(0);
    let breaker = breaker(config().failure_threshold(1).max_half_open(Duration::from_secs(10)), &timer);
    breaker.try_acquire().unwrap().failure();
    timer.advance(1_002);
    let lost = breaker.try_acquire().unwrap();
    timer.advance(9_999);
    assert_eq!(breaker.state(), State::HalfOpen);
    // Its duration is rounded up by less than 2^-7.
    timer.advance(1 + 10_000 / 128);
    assert_eq!(breaker.state(), State::Open);
    assert!(breaker.try_acquire().unwrap_err().retry_after().is_some());
    drop(lost);
}

#[test]
fn probes_in_flight_are_limited() {
    let timer = Timer::<MILLIS>::at(0);
    let breaker = breaker(config().failure_threshold(1).max_probes(3).successes_to_close(5), &timer);
    breaker.try_acquire().unwrap().failure();
    timer.advance(1_002);
    let probes: Vec<_> = (0..10).filter_map(|_| breaker.try_acquire().ok()).collect();
    assert_eq!(probes.len(), 3);
    probes.into_iter().for_each(damper::breaker::Permit::success);
    let probes: Vec<_> = (0..10).filter_map(|_| breaker.try_acquire().ok()).collect();
    assert_eq!(probes.len(), 2, "no more than needed to close");
    probes.into_iter().for_each(damper::breaker::Permit::success);
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn panic_counts_as_failure() {
    let timer = Timer::<MILLIS>::at(0);
    let breaker = breaker(config().failure_threshold(1), &timer);
    let unwound =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| breaker.call(|| -> Result<(), ()> { panic!() })));
    assert!(unwound.is_err());
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn unsupported_settings_are_named() {
    let timer = Timer::<MILLIS>::at(0);
    let refused = |config: damper::breaker::BreakerConfigBuilder| {
        CircuitBreaker32::new(config.build().unwrap(), &timer).unwrap_err()
    };
    for (config, message) in [
        (config().failure_threshold(1 << 21), "failure_threshold is 2097152, it must be at most 2097151 (in 32 bits)"),
        (config().max_probes(32), "max_probes is 32, it must be at most 31 (in 32 bits)"),
        (config().successes_to_close(99), "successes_to_close is 99, it must be at most 31 (in 32 bits)"),
    ] {
        assert_eq!(refused(config).to_string(), message);
    }
    for (config, setting) in [
        (config().failure_rate(50), "failure_rate"),
        (config().slow_rate(50, Duration::from_millis(10)), "slow_rate"),
        (config().probe_failure_rate(50), "probe_failure_rate"),
        (config().cooldown_jitter(10), "cooldown_jitter"),
    ] {
        let message = format!("{setting} is set, it must be left out (for a breaker in one word)");
        assert_eq!(refused(config).to_string(), message);
    }
}

/// An idle breaker is open for at most its cooldown, however long it was unused.
///
/// Its word may then read as closed, open or half-open.
#[test]
fn idle_breaker_becomes_half_open() {
    for away in (0..10_000_000_000u64).step_by(99_999_989) {
        let timer = Timer::<MICROS>::at(0);
        let breaker = breaker(config().failure_threshold(1), &timer);
        breaker.try_acquire().unwrap().failure();
        timer.advance(1_000_100 + away);
        if let Err(open) = breaker.try_acquire() {
            let wait = open.retry_after().unwrap();
            assert!(wait <= Duration::from_millis(1_001), "{wait:?} after {away} µs");
        }
    }
}
