//! Clocks at the extremes of `Clock`: any frequency, any reading, any skew.
//!
//! Nothing panics, even with overflow checks. Decisions stay right wherever the clock can represent the time.

use damper::breaker::State;
use damper::time::FixedFrequency;
use damper::{
    Alignment, BreakerConfig, CircuitBreaker, CircuitBreaker32, Clock, FixedWindow, LeakyBucket, Quota, Ramp,
    RateLimiter, RateLimiter32, SlidingCounter,
};
use proptest::prelude::*;
use std::cell::Cell;
use std::time::Duration;

/// A clock that is set by hand.
#[derive(Debug)]
struct Extreme {
    now: Cell<u64>,
    hertz: u64,
    skew: u64,
}

impl Extreme {
    fn new(now: u64, hertz: u64, skew: u64) -> Self {
        Self { now: Cell::new(now), hertz, skew }
    }

    fn advance(&self, ticks: u64) {
        self.now.set(self.now.get().wrapping_add(ticks));
    }
}

impl Clock for Extreme {
    fn now(&self) -> u64 {
        self.now.get()
    }

    fn frequency(&self) -> u64 {
        self.hertz
    }

    fn max_step_back(&self) -> u64 {
        self.skew
    }
}

/// The same clock with a frequency and a skew known at compile time.
#[derive(Debug)]
struct Fixed<const HERTZ: u64, const SKEW: u64>(Cell<u64>);

impl<const HERTZ: u64, const SKEW: u64> Clock for Fixed<HERTZ, SKEW> {
    fn now(&self) -> u64 {
        self.0.get()
    }

    fn frequency(&self) -> u64 {
        HERTZ
    }

    fn max_step_back(&self) -> u64 {
        SKEW
    }
}

impl<const HERTZ: u64, const SKEW: u64> FixedFrequency for Fixed<HERTZ, SKEW> {
    const HERTZ: u64 = HERTZ;
    const MAX_STEP_BACK: u64 = SKEW;
}

const MICROSECOND: Duration = Duration::from_micros(1);

#[test]
fn half_open_ends_on_a_clock_of_unbounded_skew() {
    let clock = Extreme::new(0, 1_000_000, u64::MAX);
    let config =
        BreakerConfig::builder().failure_threshold(1).cooldown(MICROSECOND).max_half_open(MICROSECOND).build().unwrap();
    let breaker = CircuitBreaker::with_clock(config, &clock);
    breaker.try_acquire().unwrap().failure();
    clock.advance(1);
    let _lost = breaker.try_acquire().unwrap();
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), None, "a probe is in flight");
    clock.advance(1);
    assert_eq!(breaker.state(), State::Open);
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(MICROSECOND));
}

/// A cooldown that has ended stays ended, however late the next call is.
#[test]
fn cooldown_ends_on_a_clock_of_unbounded_skew() {
    let cooldown = Duration::from_secs(30);
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(cooldown).build().unwrap();
    for late in [0, 1, 1_000_000, 86_400_000_000] {
        let clock = Extreme::new(0, 1_000_000, u64::MAX);
        let breaker = CircuitBreaker::with_clock(config, &clock);
        breaker.try_acquire().unwrap().failure();
        clock.advance(29_999_999);
        assert_eq!(breaker.state(), State::Open);
        clock.advance(1 + late);
        assert_eq!(breaker.state(), State::HalfOpen, "{late} µs late");
    }
}

/// The first reading of a clock does not matter, and its ticks may wrap.
///
/// In microseconds neither reading fits 64 bits.
#[test]
fn cooldown_ends_wherever_the_ticks_start() {
    let cooldown = Duration::from_secs(30);
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(cooldown).build().unwrap();
    for start in [u64::MAX / 1_000, u64::MAX / 2, u64::MAX - 10_000] {
        let clock = Extreme::new(start, 1_000, 0);
        let breaker = CircuitBreaker::with_clock(config, &clock);
        breaker.try_acquire().unwrap().failure();
        assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(cooldown));
        clock.advance(29_999);
        assert_eq!(breaker.state(), State::Open, "from tick {start}");
        clock.advance(1);
        assert_eq!(breaker.state(), State::HalfOpen, "from tick {start}");
    }
}

/// The start of a state is recorded in 51 bits, and the clock's reading in microseconds has more.
#[test]
fn half_open_states_and_ramps_last_wherever_the_ticks_start() {
    let second = Duration::from_secs(1);
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(second).max_half_open(2 * second);
    let config = config.ramp(Ramp::steps(60 * second)).build().unwrap();
    for start in [0, 1 << 51, (1 << 52) - 2_000_000, u64::MAX - 2_500_000] {
        let clock = Extreme::new(start, 1_000_000, 0);
        let breaker = CircuitBreaker::with_clock(config, &clock);
        breaker.try_acquire().unwrap().failure();
        clock.advance(1_000_000);
        let probe = breaker.try_acquire().unwrap();
        clock.advance(1_999_999);
        assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), None, "from tick {start}");
        assert_eq!(breaker.state(), State::HalfOpen, "from tick {start}");
        probe.success();
        clock.advance(59_999_999);
        assert_eq!(breaker.state(), State::Returning, "from tick {start}");
        clock.advance(1);
        assert_eq!(breaker.state(), State::Closed, "from tick {start}");
        breaker.trip();
        clock.advance(1_000_000);
        let _hung = breaker.try_acquire().unwrap();
        clock.advance(2_000_000);
        assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(second), "from tick {start}");
    }
}

#[test]
fn breaker32_refuses_a_clock_that_wraps_too_soon() {
    fn new<const HERTZ: u64, const SKEW: u64>(longest: Duration) -> Result<(), String> {
        let clock = Fixed::<HERTZ, SKEW>(Cell::new(u64::MAX));
        let config = BreakerConfig::builder().failure_threshold(1).cooldown(longest).max_cooldown(longest);
        let breaker = CircuitBreaker32::new(config.build().unwrap(), &clock).map_err(|error| error.to_string())?;
        breaker.try_acquire().unwrap().failure();
        assert_eq!(breaker.state(), State::Open);
        Ok(())
    }
    let days = |days: u64| Duration::from_hours(24 * days);
    let refused = |hertz: u64, most: u64| {
        let why = "ticks a second, so that its 64 bits do not wrap within the longest time";
        Err(format!("clock is {hertz}, it must be at most {most} {why}"))
    };
    // 2^62 ticks in 100 days.
    let most = ((1 << 62) - 1) / (100 * 86_400);
    assert_eq!(new::<{ u64::MAX }, 0>(days(100)), refused(u64::MAX, most));
    assert_eq!(new::<{ u64::MAX }, { u64::MAX }>(days(100)), refused(u64::MAX, most));
    assert_eq!(new::<1_000_000_000_000, 0>(days(100)), refused(1_000_000_000_000, most));
    // 2^62 ps are 53 days.
    assert_eq!(new::<1_000_000_000_000, 0>(days(53)), Ok(()));
    assert_eq!(new::<1_000_000_000, { u64::MAX }>(days(100)), Ok(()));
    assert_eq!(new::<{ u64::MAX }, 0>(Duration::from_millis(249)), Ok(()));

    let clock = Fixed::<{ u64::MAX }, 0>(Cell::new(0));
    let half_open = BreakerConfig::builder().cooldown(MICROSECOND).max_cooldown(MICROSECOND).max_half_open(days(100));
    let error = CircuitBreaker32::new(half_open.build().unwrap(), &clock).unwrap_err();
    assert_eq!((error.setting(), error.value().to_string()), ("clock", u64::MAX.to_string()));
}

/// The wait for a token exceeds 2^64 ticks. The limiter names no wait rather than a short one.
#[test]
fn limiter32_returns_no_short_wait_where_a_token_takes_all_ticks() {
    let clock = Fixed::<{ (1 << 63) + 1 }, 0>(Cell::new(0));
    let quota = Quota::per(1, Duration::from_secs(2)).unwrap().burst((1 << 28) - 1);
    let limiter = RateLimiter32::new(quota, &clock).unwrap();
    assert!(limiter.check_n((1 << 28) - 1).is_ok());
    assert_eq!(limiter.check().unwrap_err().retry_after(), None);
}

/// A window of more ticks than a reading can hold never ends.
///
/// All calls are in the first window.
#[test]
fn window_longer_than_all_ticks_aligns_without_overflow() {
    let longest = Duration::from_nanos(u64::MAX);
    let origins =
        [Duration::ZERO, Duration::from_nanos(u64::MAX - 1), longest / 2, longest + longest / 3, Duration::MAX];
    for now in [0, 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX] {
        let alignments = origins.map(Alignment::OriginAt).into_iter().chain([Alignment::ClockOrigin]);
        for alignment in alignments {
            let clock = Extreme::new(now, u64::MAX, 0);
            let windows = FixedWindow::new(Quota::per(2, longest).unwrap()).aligned_to(alignment);
            let limiter = RateLimiter::with_algorithm(windows, &clock);
            assert!(limiter.check().is_ok() && limiter.check().is_ok(), "{alignment:?} at {now}");
            clock.advance(1_000);
            assert!(limiter.check().is_err(), "the window has not ended: {alignment:?} at {now}");
        }
    }
}

/// Values at both ends of the range, around powers of two and of ten, and arbitrary ones.
fn extremes() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => prop::sample::select(vec![0, 1, 2, 999, 1_000, 1_000_000, 1_000_000_000, 1_000_000_000_000]),
        4 => (0..64u32, -2..=2i64).prop_map(|(bit, off)| (1u64 << bit).wrapping_add_signed(off)),
        2 => (0..3u64).prop_map(|off| u64::MAX - off),
        2 => any::<u64>(),
    ]
}

fn durations() -> impl Strategy<Value = Duration> {
    let longest = Duration::from_secs(100 * 24 * 60 * 60);
    extremes().prop_map(move |nanos| Duration::from_nanos(nanos).clamp(Duration::from_nanos(1), longest))
}

fn breaker_configs() -> impl Strategy<Value = BreakerConfig> {
    let times = (durations(), durations(), durations(), durations());
    (times, any::<bool>(), 0..=100u32, proptest::option::of(durations())).prop_map(
        |((cooldown, max_half_open, slow, retry_after), counts_slow, jitter, window)| {
            let config = BreakerConfig::builder()
                .failure_threshold(1)
                .cooldown(cooldown)
                .max_cooldown(Duration::from_secs(100 * 24 * 60 * 60))
                .cooldown_factor(10.0)
                .cooldown_jitter(jitter)
                .max_retry_after(retry_after)
                .max_half_open(max_half_open)
                .minimum_calls(1);
            #[cfg(feature = "alloc")]
            let config = match window {
                Some(time) => config.window(damper::breaker::Window::last(time.max(Duration::from_micros(10)))),
                None => config,
            };
            #[cfg(not(feature = "alloc"))]
            let _ = window;
            if counts_slow { config.slow_rate(1, slow) } else { config }.build().unwrap()
        },
    )
}

/// Calls every method that reads the limiter's clock.
fn use_limiter<A: damper::limit::Algorithm>(limiter: &RateLimiter<A, &Extreme>, ticks: &[u64], clock: &Extreme) {
    for (ticks, n) in ticks.iter().zip([1, 2, u32::MAX].into_iter().cycle()) {
        for answer in [limiter.check().map(|_| ()), limiter.check_n(n).map(|_| ())] {
            if let Err(denied) = answer {
                _ = (denied.retry_after(), denied.to_string());
            }
        }
        _ = limiter.peek();
        clock.advance(*ticks);
    }
}

fn use_breaker_32<const HERTZ: u64, const SKEW: u64>(config: BreakerConfig, start: u64, ticks: &[u64]) {
    let clock = Fixed::<HERTZ, SKEW>(Cell::new(start));
    let Ok(breaker) = CircuitBreaker32::new(config, &clock) else { return };
    for (step, ticks) in ticks.iter().enumerate() {
        match breaker.try_acquire() {
            Ok(permit) if step % 3 == 0 => permit.success(),
            Ok(permit) if step % 3 == 1 => permit.failure(),
            Ok(permit) => core::mem::forget(permit),
            Err(open) => _ = (open.retry_after(), open.to_string()),
        }
        _ = breaker.state();
        clock.0.set(clock.0.get().wrapping_add(*ticks));
    }
}

fn use_limiter_32<const HERTZ: u64, const SKEW: u64>(quota: Quota, start: u64, ticks: &[u64]) {
    let clock = Fixed::<HERTZ, SKEW>(Cell::new(start));
    let Ok(limiter) = RateLimiter32::new(quota, &clock) else { return };
    for ticks in ticks {
        for answer in [limiter.check().map(|_| ()), limiter.check_n(u32::MAX).map(|_| ())] {
            if let Err(denied) = answer {
                _ = denied.retry_after();
            }
        }
        clock.0.set(clock.0.get().wrapping_add(*ticks));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    // CLAIM: all
    #[test]
    fn breakers_work_on_any_clock(
        config in breaker_configs(),
        (start, hertz, skew) in (extremes(), extremes(), extremes()),
        steps in prop::collection::vec((0..4u8, extremes()), 1..40),
    ) {
        let clock = Extreme::new(start, hertz, skew);
        let breaker = CircuitBreaker::with_clock(config, &clock);
        for (outcome, ticks) in steps {
            match breaker.try_acquire() {
                Ok(permit) => {
                    clock.advance(ticks);
                    match outcome {
                        0 => permit.success(),
                        1 => permit.failure(),
                        2 => permit.failure_with_retry_after(Duration::MAX),
                        _ => core::mem::forget(permit),
                    }
                }
                Err(open) => _ = (open.retry_after(), open.to_string()),
            }
            let status = breaker.status();
            prop_assert_eq!(status.state(), breaker.state());
            _ = status.to_string();
            clock.advance(ticks);
        }
    }

    #[test]
    fn breakers32_work_on_any_clock(
        config in breaker_configs(),
        start in extremes(),
        ticks in prop::collection::vec(extremes(), 1..40),
    ) {
        let config = BreakerConfig::builder()
            .failure_threshold(1)
            .cooldown(config.cooldown())
            .max_cooldown(config.max_cooldown())
            .cooldown_factor(10.0)
            .max_half_open(config.max_half_open().unwrap())
            .build()
            .unwrap();
        use_breaker_32::<0, { u64::MAX }>(config, start, &ticks);
        use_breaker_32::<1, 0>(config, start, &ticks);
        use_breaker_32::<32_768, { u64::MAX }>(config, start, &ticks);
        use_breaker_32::<1_000_000_000, { u64::MAX }>(config, start, &ticks);
        use_breaker_32::<{ 1 << 40 }, 1>(config, start, &ticks);
        use_breaker_32::<{ 1 << 63 }, 0>(config, start, &ticks);
        use_breaker_32::<{ u64::MAX }, { u64::MAX }>(config, start, &ticks);
    }

    // CLAIM: all
    #[test]
    fn limiters_work_on_any_clock(
        (limit, burst) in (any::<u32>(), any::<u32>()),
        (window, origin) in (extremes(), extremes()),
        (start, hertz, skew) in (extremes(), extremes(), extremes()),
        ticks in prop::collection::vec(extremes(), 1..20),
    ) {
        let clock = Extreme::new(start, hertz, skew);
        let Ok(quota) = Quota::per(limit, Duration::from_nanos(window)) else { return Ok(()) };
        use_limiter(&RateLimiter::with_clock(quota.burst(burst), &clock), &ticks, &clock);
        use_limiter(&RateLimiter::with_algorithm(LeakyBucket::new(quota.burst(burst)), &clock), &ticks, &clock);
        let alignments = [
            Alignment::FirstRequest,
            Alignment::ClockOrigin,
            Alignment::OriginAt(Duration::from_nanos(origin)),
            Alignment::OriginAt(Duration::MAX),
        ];
        for alignment in alignments {
            use_limiter(&RateLimiter::with_algorithm(FixedWindow::new(quota).aligned_to(alignment), &clock), &ticks, &clock);
            if let Ok(counter) = SlidingCounter::new(quota) {
                use_limiter(&RateLimiter::with_algorithm(counter.aligned_to(alignment), &clock), &ticks, &clock);
            }
        }
        use_limiter_32::<0, { u64::MAX }>(quota.burst(burst), start, &ticks);
        use_limiter_32::<1, 0>(quota.burst(burst), start, &ticks);
        use_limiter_32::<32_768, { u64::MAX }>(quota.burst(burst), start, &ticks);
        use_limiter_32::<{ 1 << 63 }, 1>(quota.burst(burst), start, &ticks);
        use_limiter_32::<{ u64::MAX }, { u64::MAX }>(quota.burst(burst), start, &ticks);
    }
}
