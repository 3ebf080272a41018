//! The algorithms other than the token bucket, through the public API.
//!
//! Examples, and properties against slow models.

use crate::models::queue::Queue;
use crate::models::skewed::Skewed;
use crate::models::windows::Windows;
use damper::limit::Algorithm;
use damper::{
    Alignment, Clock, FixedWindow, LeakyBucket, LeakyQueue, ManualClock, Quota, RateLimiter, SetQuotaError,
    SlidingCounter,
};
use proptest::prelude::*;
use std::time::Duration;

/// Rates from one in 30 days to 10^9 a second, with limits that histories reach and any others.
fn quotas(largest: u32) -> impl Strategy<Value = Quota> {
    let limit = prop_oneof![1 => Just(0), 6 => 1..20u32, 2 => 1..=largest];
    let window = prop_oneof![
        Just(1_000),
        Just(1_000_000_000),
        Just(60_000_000_000),
        Just(3_600_000_000_000),
        Just(30 * 86_400_000_000_000),
        1_000..10_000_000_000_000u64
    ];
    (limit, window).prop_map(|(limit, window)| Quota::per(limit, Duration::from_nanos(window)).unwrap())
}

fn frequencies() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(1_000_000_000),
        1 => Just(1_000_000),
        1 => Just(32_768),
        2 => Just(2_496_000_123),
        1 => 1_000..4_000_000_000u64
    ]
}

/// How far the clock moves before a call.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// By this many ticks.
    Pass(u64),
    /// By this many 65,536ths of a window.
    Parts(u64),
    /// To the start of the next window, plus or minus this many ticks.
    Boundary(i8),
}

fn moves() -> impl Strategy<Value = Vec<(Move, u32)>> {
    let step = prop_oneof![
        3 => (0..20u64).prop_map(Move::Pass),
        1 => (0..1u64 << 48).prop_map(Move::Pass),
        6 => (0..1u64 << 16).prop_map(Move::Parts),
        1 => (0..1u64 << 19).prop_map(Move::Parts),
        4 => (-2..=2i8).prop_map(Move::Boundary),
        2 => Just(Move::Boundary(0))
    ];
    let cost = prop_oneof![5 => Just(1), 3 => 0..20u32, 1 => any::<u32>()];
    proptest::collection::vec((step, cost), 1..150)
}

/// The tick after a move, counted from the start of a window.
fn moved(model: &Windows, tick: i128, by: Move) -> i128 {
    let to = match by {
        // In all less than half of the cycle of a window number.
        Move::Pass(ticks) => tick + i128::from(ticks).min(model.ticks() << 22),
        Move::Parts(parts) => tick + ((model.ticks() * i128::from(parts)) >> 16),
        Move::Boundary(off) => model.next(tick) + i128::from(off),
    };
    // Skips ticks that the limiter and the model may count in different windows: the last one of a window, where
    // windows are no whole number of ticks.
    let unclear = |tick: i128| !model.is_aligned() && model.number(tick) != model.number(tick + 1);
    (to.max(tick)..to.max(tick) + 4).find(|&tick| !unclear(tick)).unwrap()
}

/// A clock at this tick, counted from `start`.
fn set(clock: &ManualClock, start: u64, tick: i128) {
    clock.set_ticks(start.wrapping_add(u64::try_from(tick).unwrap()));
}

/// Converts a wait to ticks, rounding down, which undoes the rounding up to nanoseconds.
///
/// Also returns how many ticks too long the wait may be, because a frequency is passed on with 26 significant bits,
/// rounded down.
fn ticks_of(wait: Duration, frequency: u64) -> (i128, i128) {
    let ticks = i128::try_from(wait.as_nanos() * u128::from(frequency) / 1_000_000_000).unwrap();
    let rounded = frequency.trailing_zeros() + 26 < 64 - frequency.leading_zeros();
    (ticks, if rounded { (ticks >> 24) + 1 } else { 0 } + i128::from(frequency / 1_000_000_001))
}

#[test]
fn first_window_begins_with_the_first_request() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_millis(1_300));
    let limiter = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_second(3)), &clock);
    for left in [2, 1, 0] {
        assert_eq!(limiter.check().unwrap().remaining(), left);
    }
    clock.advance(Duration::from_nanos(999_999_999));
    let denied = limiter.check().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_nanos(1)));
    assert_eq!((denied.resets_in(), denied.remaining()), (denied.retry_after(), 0));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(limiter.check().unwrap().remaining(), 2);
    let usage = limiter.peek();
    assert_eq!((usage.limit(), usage.used(), usage.window()), (3, 1, Some(Duration::from_secs(1))));
    assert_eq!(usage.resets_in(), Some(Duration::from_secs(1)));
    clock.advance(Duration::from_secs(1));
    assert_eq!((limiter.peek().used(), limiter.peek().resets_in()), (0, Some(Duration::ZERO)));
}

/// The guarantee in the docs of the fixed window.
///
/// Around a boundary it admits twice the limit in an arbitrarily short time, and never more.
#[test]
fn fixed_window_allows_at_most_twice_its_limit_at_a_boundary() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_minute(100)), &clock);
    limiter.check_n(0).unwrap();
    clock.advance(Duration::from_mins(1) - Duration::from_nanos(1));
    let before = (0..1_000).filter(|_| limiter.check().is_ok()).count();
    clock.advance(Duration::from_nanos(1));
    let after = (0..1_000).filter(|_| limiter.check().is_ok()).count();
    assert_eq!((before, after), (100, 100));
    clock.advance(Duration::from_mins(1) - Duration::from_nanos(1));
    assert!(limiter.check().is_err(), "none left until the next window");
}

#[test]
fn windows_follow_the_configured_alignment() {
    let at = |alignment| {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(130));
        let limiter = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_minute(1)).aligned_to(alignment), &clock);
        limiter.check().unwrap();
        limiter.check().unwrap_err().retry_after().unwrap()
    };
    assert_eq!(at(Alignment::FirstRequest), Duration::from_mins(1));
    assert_eq!(at(Alignment::ClockOrigin), Duration::from_secs(50));
    // Tick 0 was 25 s after a full minute, so tick 10 is 35 s after it.
    assert_eq!(at(Alignment::OriginAt(Duration::from_secs(60 * 29_000_000 + 25))), Duration::from_secs(25));
}

#[cfg(feature = "std")]
#[test]
fn windows_follow_the_wall_clock() {
    use std::time::SystemTime;
    static PER_HOUR: RateLimiter<FixedWindow> = RateLimiter::with_algorithm(
        FixedWindow::new(Quota::per_hour(1)).aligned_to(Alignment::WallClock),
        damper::Monotonic,
    );
    // Repeats if an hour starts between the calls.
    for _ in 0..3 {
        let _ = PER_HOUR.check();
        if let Err(denied) = PER_HOUR.check() {
            let ends = SystemTime::now() + denied.retry_after().unwrap();
            let past = ends.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() % 3_600_000;
            assert!(!(5_000..3_595_000).contains(&past), "{past} ms past the full hour");
            return;
        }
    }
    panic!("three full hours, one after another");
}

#[test]
fn fixed_window_reports_a_cost_above_its_limit() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_second(5).burst(100)), &clock);
    assert!(limiter.check_n(6).unwrap_err().exceeds_burst());
    assert!(limiter.check_n(u32::MAX).unwrap_err().exceeds_burst());
    assert!(limiter.check_n(5).is_ok());
    let none = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_second(0)), &clock);
    assert!(none.check_n(0).is_ok());
    assert!(none.check().unwrap_err().exceeds_burst());
    let all = RateLimiter::with_algorithm(FixedWindow::new(Quota::UNLIMITED), &clock);
    assert_eq!(all.check_n(u32::MAX).unwrap().remaining(), u32::MAX);
    assert_eq!((all.peek().used(), all.peek().window()), (0, None));
    let largest = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_second(u32::MAX)), &clock);
    assert!(largest.check_n(u32::MAX).is_ok());
    assert_eq!(largest.check().unwrap_err().retry_after(), Some(Duration::from_secs(1)));
}

#[test]
fn fixed_window_keeps_its_count_when_the_quota_changes() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_second(10)), &clock);
    limiter.check_n(8).unwrap();
    clock.advance(Duration::from_millis(500));
    limiter.set_quota(Quota::per_minute(5)).unwrap();
    let denied = limiter.check().unwrap_err();
    assert_eq!((denied.remaining(), limiter.peek().used()), (0, 5));
    // Half of the window is left, and windows now take a minute.
    let wait = denied.retry_after().unwrap();
    assert!((Duration::from_secs(30)..Duration::from_millis(30_001)).contains(&wait), "{wait:?}");
    clock.advance(wait);
    assert_eq!(limiter.check_n(5).unwrap().remaining(), 0);
    limiter.set_quota(Quota::per_minute(7)).unwrap();
    assert_eq!(limiter.check().unwrap().remaining(), 1);
    let refused = limiter.set_quota(Quota::per(1, Duration::from_nanos(1)).unwrap());
    let Err(SetQuotaError::WindowTooShort { window, least }) = refused else { panic!("{refused:?}") };
    assert_eq!(window, Duration::from_nanos(1));
    let shorter = Quota::per(1, least.checked_sub(window).unwrap()).unwrap();
    assert_eq!(limiter.set_quota(shorter), Err(SetQuotaError::WindowTooShort { window: shorter.window(), least }));
    assert_eq!(limiter.set_quota(Quota::per(1, least).unwrap()), Ok(()));
}

/// Takes ten tokens and gives them back, at once and in the next window; returns what is used then.
fn used_after_a_roll_back(window: &impl Algorithm) -> [u32; 2] {
    let clock = ManualClock::new();
    [Duration::ZERO, Duration::from_secs(1)].map(|time| {
        let (_, position) = window.take_revocably(10, &clock).unwrap();
        clock.advance(time);
        window.take_revocably(u32::from(time > Duration::ZERO), &clock).unwrap();
        window.roll_back(10, position, &clock);
        window.usage(&clock).used()
    })
}

#[test]
fn windows_are_rolled_back_only_while_they_count() {
    assert_eq!(used_after_a_roll_back(&FixedWindow::new(Quota::per_second(10))), [0, 1]);
    assert_eq!(used_after_a_roll_back(&SlidingCounter::new(Quota::per_second(11)).unwrap()), [0, 11]);
}

/// A clock that steps back within its stated bound stays in the others' window.
///
/// After a larger step a caller waits for at most two windows.
#[test]
fn fixed_window_admits_again_soon_after_the_clock_steps_back() {
    let clock = ManualClock::new();
    clock.set_ticks(1 << 40);
    let limiter = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_second(2)), &clock);
    limiter.check_n(0).unwrap(); // windows are exact from here on
    clock.advance(Duration::from_hours(10));
    limiter.check_n(2).unwrap();
    clock.step_back(Duration::from_millis(1));
    assert!(limiter.check().is_err());
    clock.step_back(Duration::from_hours(1));
    let wait = limiter.check().unwrap_err().retry_after().unwrap();
    assert!(wait > Duration::from_secs(1) && wait <= Duration::from_secs(2), "{wait:?}");
    clock.advance_ticks(u64::try_from(wait.as_nanos()).unwrap() - 1);
    assert!(limiter.check().is_err());
    clock.advance(Duration::from_nanos(1));
    assert!(limiter.check_n(2).is_ok());
}

/// A clock that steps back by some windows, within its stated bound.
///
/// A caller that has to wait gets the exact end of the full window.
#[test]
fn fixed_window_reports_its_end_after_the_clock_steps_back() {
    for (skew, back, wait) in [
        (10_000, 100, 850),
        (10_000, 250, 1_000),
        (10_000, 1_250, 2_000),
        (10_000, 2_500, 3_250),
        (10_000, 3_250, 4_000),
        (1_000, 2_000, 2_750),
        // Beyond the bound: the window after this one.
        (1_000, 2_500, 1_250),
    ] {
        // In ticks of a millisecond.
        let clock = Skewed(ManualClock::with_frequency(1_000), Duration::from_nanos(skew));
        clock.0.set_ticks(1 << 40);
        let limiter = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_second(2)), &clock);
        limiter.check_n(0).unwrap(); // windows are exact from here on
        clock.0.advance(Duration::from_millis(10_250));
        limiter.check_n(2).unwrap();
        clock.0.step_back(Duration::from_millis(back));
        let stated = limiter.check().unwrap_err().retry_after().unwrap();
        assert_eq!(stated, Duration::from_millis(wait), "{back} ms back");
        clock.0.advance(Duration::from_millis(wait - 1));
        assert!(limiter.check().is_err());
        clock.0.advance(Duration::from_millis(1));
        assert!(limiter.check_n(2).is_ok());
    }
}

/// A clock that swings across a boundary opens no second window.
///
/// It admits one limit for each window of forward motion.
#[test]
fn swinging_clock_keeps_each_window_within_its_limit() {
    fn swing<A: Algorithm>(algorithm: A) -> u32 {
        let clock = ManualClock::with_frequency(1_000);
        clock.set_ticks(1 << 50);
        let limiter = RateLimiter::with_algorithm(algorithm, &clock);
        let mut allowed = u32::from(limiter.check().is_ok());
        clock.advance_ticks(2_000);
        for _ in 0..100 {
            allowed += u32::from(limiter.check().is_ok());
            clock.set_ticks(clock.now() - 1_001);
            // The last tick of a window, the first of the next, and that of the window before the step.
            for forward in [0, 1, 1_000] {
                clock.advance_ticks(forward);
                allowed += u32::from(limiter.check().is_ok());
            }
        }
        allowed
    }
    let quota = Quota::per_second(1);
    assert!(swing(FixedWindow::new(quota)) <= 102);
    assert!(swing(SlidingCounter::new(quota).unwrap()) <= 102);
}

/// A window's number has 32 bits. Windows continue when it wraps.
#[test]
fn fixed_window_survives_a_wrap_of_its_number() {
    let clock = ManualClock::with_frequency(1_000);
    let limiter =
        RateLimiter::with_algorithm(FixedWindow::new(Quota::per(3, Duration::from_millis(4)).unwrap()), &clock);
    limiter.check_n(0).unwrap();
    for around in [1u64 << 31, 1 << 32, 1 << 33] {
        clock.set_ticks((around - 3) * 4);
        for _ in 0..6 {
            // The first of these may count tokens taken half a cycle ago.
            while limiter.check_n(3).is_err() {
                clock.advance_ticks(4);
            }
            for _ in 0..3 {
                clock.advance_ticks(1);
                assert!(limiter.check().is_err());
            }
            clock.advance_ticks(1);
            assert!(limiter.check_n(3).is_ok());
            clock.advance_ticks(4);
        }
    }
}

/// The tokens of the call itself count in the sum that is compared with the limit.
///
/// By the published form, which compares the sum without them, a tenth call would be allowed here.
#[test]
fn sliding_counter_counts_the_call_itself() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_algorithm(SlidingCounter::new(Quota::per_second(10)).unwrap(), &clock);
    limiter.check_n(1).unwrap();
    clock.advance(Duration::from_millis(1_500)); // half of that one still counts
    limiter.check_n(9).unwrap();
    assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_millis(500)));
}

#[test]
fn sliding_counter_weighs_the_previous_window() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_algorithm(SlidingCounter::new(Quota::per_second(10)).unwrap(), &clock);
    limiter.check_n(10).unwrap();
    let denied = limiter.check().unwrap_err();
    assert_eq!(denied.resets_in(), Some(Duration::from_secs(2)));
    let within_a_tick = |wait: Duration, millis| {
        let exact = Duration::from_millis(millis);
        assert!(wait == exact || wait == exact + Duration::from_nanos(1), "{wait:?} of {exact:?}");
    };
    within_a_tick(denied.retry_after().unwrap(), 1_100);
    within_a_tick(limiter.check_n(10).unwrap_err().retry_after().unwrap(), 2_000);
    clock.advance(Duration::from_millis(1_100) - Duration::from_nanos(1));
    assert!(limiter.check().is_err());
    // One token for each tenth of the window that has passed.
    clock.advance(Duration::from_nanos(1));
    within_a_tick(limiter.peek().resets_in().unwrap(), 900);
    for _ in 0..9 {
        assert_eq!(limiter.check().unwrap().remaining(), 0);
        within_a_tick(limiter.check().unwrap_err().retry_after().unwrap(), 100);
        clock.advance(Duration::from_millis(100));
    }
    assert_eq!((limiter.peek().used(), limiter.peek().window()), (9, Some(Duration::from_secs(1))));
    clock.advance(Duration::from_secs(1));
    assert_eq!((limiter.peek().used(), limiter.peek().resets_in()), (0, Some(Duration::ZERO)));
}

#[test]
fn sliding_counter_counts_up_to_24_bits() {
    let clock = ManualClock::new();
    let largest = (1 << 24) - 1;
    let error = SlidingCounter::new(Quota::per_second(largest + 1)).unwrap_err();
    assert_eq!(error.setting(), "limit");
    assert_eq!(error.to_string(), "limit is 16777216, it must be at most 16777215 (2^24 - 1, of a sliding counter)");
    let limiter = RateLimiter::with_algorithm(SlidingCounter::new(Quota::per_second(largest)).unwrap(), &clock);
    limiter.check_n(largest).unwrap();
    assert!(limiter.check_n(largest + 1).unwrap_err().exceeds_burst());
    clock.advance(Duration::from_millis(1_500));
    assert_eq!(limiter.check_n(largest / 2).unwrap().remaining(), 0);
    let most = (1 << 24) - 1;
    assert_eq!(
        limiter.set_quota(Quota::per_second(1 << 24)),
        Err(SetQuotaError::LimitTooLarge { limit: 1 << 24, most })
    );
    let small = RateLimiter::with_algorithm(SlidingCounter::new(Quota::per_second(1)).unwrap(), &clock);
    assert_eq!(small.set_quota(Quota::per_second((1 << 16) - 1)), Ok(()));
    let most = (1 << 16) - 1;
    assert_eq!(small.set_quota(Quota::per_second(1 << 16)), Err(SetQuotaError::LimitTooLarge { limit: 1 << 16, most }));
    assert_eq!(small.set_quota(Quota::UNLIMITED), Ok(()));
    assert_eq!(small.check_n(u32::MAX).unwrap().remaining(), u32::MAX);
    let all = RateLimiter::with_algorithm(SlidingCounter::new(Quota::UNLIMITED).unwrap(), &clock);
    assert_eq!(all.check_n(u32::MAX).unwrap().remaining(), u32::MAX);
}

#[test]
fn sliding_counter_admits_again_soon_after_the_clock_steps_back() {
    let clock = ManualClock::new();
    clock.set_ticks(1 << 40);
    let limiter = RateLimiter::with_algorithm(SlidingCounter::new(Quota::per_second(2)).unwrap(), &clock);
    limiter.check_n(0).unwrap();
    clock.advance(Duration::from_hours(10));
    limiter.check_n(2).unwrap();
    clock.step_back(Duration::from_hours(1));
    let wait = limiter.check_n(2).unwrap_err().retry_after().unwrap();
    assert_eq!(wait, Duration::from_secs(3), "the rest of this window, the next one, and until its count has expired");
    clock.advance(wait);
    assert!(limiter.check_n(2).is_ok());
}

#[test]
fn sliding_counter_keeps_its_counts_when_the_quota_changes() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_algorithm(SlidingCounter::new(Quota::per_second(10)).unwrap(), &clock);
    limiter.check_n(8).unwrap();
    clock.advance(Duration::from_millis(1_500));
    limiter.check_n(2).unwrap();
    limiter.set_quota(Quota::per_minute(5)).unwrap();
    let denied = limiter.check().unwrap_err();
    // Half of the previous window still counts: 4, plus 2 taken in this one. The previous window counts 2 when three
    // quarters of this window are over.
    assert_eq!((denied.remaining(), limiter.peek().used()), (0, 5));
    let wait = denied.retry_after().unwrap();
    // A tick, scaled by the growth of the window, is 60 ns.
    assert!(wait.abs_diff(Duration::from_secs(15)) <= Duration::from_nanos(60), "{wait:?}");
    clock.advance(wait);
    assert_eq!(limiter.check().unwrap().remaining(), 0);
    assert!(limiter.check().is_err());
}

#[test]
fn leaky_queue_spreads_out_a_burst() {
    let clock = ManualClock::new();
    let queue = LeakyQueue::with_clock(Quota::per_second(10).burst(3), &clock);
    for wait in [0, 100, 200] {
        assert_eq!(queue.enter(), Ok(Duration::from_millis(wait)));
    }
    assert_eq!(queue.level(), 3);
    let denied = queue.enter().unwrap_err();
    assert_eq!((denied.retry_after(), denied.remaining()), (Some(Duration::from_millis(100)), 0));
    clock.advance(Duration::from_millis(100) - Duration::from_nanos(1));
    assert!(queue.enter().is_err());
    clock.advance(Duration::from_nanos(1));
    assert_eq!(queue.enter(), Ok(Duration::from_millis(200)));
    assert!(queue.enter_n(4).unwrap_err().exceeds_burst());
    assert_eq!(queue.enter_n(0), Ok(Duration::ZERO));
    clock.advance(Duration::from_secs(1));
    assert_eq!((queue.level(), queue.enter_n(2)), (0, Ok(Duration::ZERO)));
    assert_eq!(queue.enter(), Ok(Duration::from_millis(200)));
    queue.set_quota(Quota::per_second(100).burst(5)).unwrap();
    assert_eq!(queue.quota().limit(), 100);
    let wait = queue.enter().unwrap();
    assert!((Duration::from_millis(30)..Duration::from_micros(30_001)).contains(&wait), "{wait:?}");
}

#[test]
fn leaky_queue_without_a_rate_admits_one() {
    let clock = ManualClock::new();
    let queue = LeakyQueue::with_clock(Quota::per_second(0).burst(3), &clock);
    assert_eq!(queue.enter(), Ok(Duration::ZERO));
    let denied = queue.enter().unwrap_err();
    assert_eq!((denied.retry_after(), denied.exceeds_burst()), (None, false));
    let all = LeakyQueue::with_clock(Quota::UNLIMITED, &clock);
    assert_eq!((all.enter_n(u32::MAX), all.level()), (Ok(Duration::ZERO), 0));
}

/// Threads that enter while time passes get distinct times, one interval apart.
#[test]
fn racing_threads_leave_the_leaky_queue_one_by_one() {
    let clock = ManualClock::new();
    let queue = LeakyQueue::with_clock(Quota::per_second(1_000).burst(1_000), &clock);
    let waits = || (0..250).map(|_| queue.enter().unwrap()).collect::<Vec<_>>();
    let mut delays: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(waits)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    delays.sort();
    assert_eq!(delays, (0..1_000).map(Duration::from_millis).collect::<Vec<_>>());
    assert!(queue.enter().is_err());
}

/// A window's number has only 16 bits here. Windows continue when it wraps.
#[test]
fn sliding_counter_survives_a_wrap_of_its_number() {
    let clock = ManualClock::with_frequency(1_000);
    let quota = Quota::per((1 << 24) - 1, Duration::from_millis(4)).unwrap();
    let limiter = RateLimiter::with_algorithm(SlidingCounter::new(quota).unwrap(), &clock);
    limiter.check_n(0).unwrap();
    for _ in 0..1 << 18 {
        assert!(limiter.check_n(quota.limit()).is_ok());
        clock.advance_ticks(4);
        assert!(limiter.check_n(quota.limit() / 4 + 1).is_err());
        clock.advance_ticks(4);
    }
}

/// Threads race on a clock that moves through many windows, and each window admits exactly its limit.
#[test]
fn racing_threads_take_exactly_the_limit_of_each_window() {
    let clock = ManualClock::new();
    race(&clock, &RateLimiter::with_algorithm(FixedWindow::new(Quota::per_second(50)), &clock), Duration::from_secs(1));
    let counter = SlidingCounter::new(Quota::per_second(50)).unwrap();
    // Only every other window is used, so that the previous one is empty.
    race(&clock, &RateLimiter::with_algorithm(counter, &clock), Duration::from_secs(2));
}

fn race<A: Algorithm + Sync>(clock: &ManualClock, limiter: &RateLimiter<A, &ManualClock>, pause: Duration) {
    const WINDOWS: u32 = 1_000;
    let mut allowed = 0;
    for _ in 0..WINDOWS {
        allowed += std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..3).map(|_| scope.spawn(|| (0..30).filter(|_| limiter.check().is_ok()).count())).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>()
        });
        clock.advance(pause);
    }
    assert_eq!(allowed, 50 * WINDOWS as usize);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn fixed_window_matches_its_model(quota in quotas(u32::MAX), frequency in frequencies(), start: u64, moves in moves()) {
        let mut model = Windows::new(quota, frequency);
        prop_assume!(model.ticks() >= 4);
        let clock = ManualClock::with_frequency(frequency);
        clock.set_ticks(start);
        let limiter = RateLimiter::with_algorithm(FixedWindow::new(quota), &clock);
        limiter.check_n(0).unwrap();
        // Windows start a tick earlier if the clock is about to wrap.
        let early = i128::from(start == u64::MAX);
        let mut tick = early;
        for (by, n) in moves {
            tick = moved(&model, tick, by);
            set(&clock, start, tick - early);
            let (expected, left) = (model.fixed_allows(tick, n), i128::from(quota.limit()) - model.count(model.number(tick)));
            match limiter.check_n(n) {
                Ok(allowed) => {
                    prop_assert!(expected, "{n} at {tick} of {model:?}");
                    model.take(tick, n);
                    prop_assert_eq!(i128::from(allowed.remaining()), left - i128::from(n));
                }
                Err(denied) => {
                    prop_assert!(!expected, "{n} at {tick} of {model:?}");
                    prop_assert_eq!(i128::from(denied.remaining()), left);
                    prop_assert_eq!(denied.exceeds_burst(), n > quota.limit());
                    if let Some(wait) = denied.retry_after() {
                        let (wait, slack) = ticks_of(wait, frequency);
                        let next = model.next(tick) - tick;
                        prop_assert!(wait >= next - i128::from(!model.is_aligned()), "{wait} of {next}");
                        prop_assert!(wait <= next + slack + i128::from(!model.is_aligned()), "{wait} of {next}");
                        set(&clock, start, tick - early + wait);
                        prop_assert!(limiter.peek().remaining() >= n, "the wait is enough");
                    }
                }
            }
        }
    }

    /// As in the formula: never late, and at most a tick early.
    #[test]
    fn sliding_counter_matches_its_model(quota in quotas((1 << 24) - 1), frequency in frequencies(), start: u64, moves in moves()) {
        let mut model = Windows::new(quota, frequency);
        prop_assume!(model.ticks() >= 4);
        let clock = ManualClock::with_frequency(frequency);
        clock.set_ticks(start);
        let limiter = RateLimiter::with_algorithm(SlidingCounter::new(quota).unwrap(), &clock);
        limiter.check_n(0).unwrap();
        let early = i128::from(start == u64::MAX);
        let mut tick = early;
        let mut idle = 0;
        for (by, n) in moves {
            let to = moved(&model, tick, by);
            // A window's number has at least 16 bits.
            idle += (to - tick) / model.ticks() + 1;
            if idle >= 1 << 15 {
                break;
            }
            tick = to;
            set(&clock, start, tick - early);
            match limiter.check_n(n) {
                Ok(allowed) => {
                    prop_assert!(model.counter_allows(tick, n) || model.counter_allows(tick + 1, n), "{n} at {tick} of {model:?}");
                    model.take(tick, n);
                    idle = if n == 0 { idle } else { 0 };
                    let left = allowed.remaining();
                    prop_assert!(model.counter_allows(tick + 1, left), "{left} left");
                    prop_assert!(left == quota.limit() || !model.counter_allows(tick, left + 1), "{left} left");
                }
                Err(denied) => {
                    prop_assert!(!model.counter_allows(tick, n), "{n} at {tick} of {model:?}");
                    prop_assert_eq!(denied.exceeds_burst(), n > quota.limit());
                    if let Some(wait) = denied.retry_after() {
                        let (wait, slack) = ticks_of(wait, frequency);
                        set(&clock, start, tick - early + wait);
                        prop_assert!(limiter.peek().remaining() >= n, "{wait} suffices");
                        let shorter = wait - 2 - slack;
                        if shorter > 0 {
                            set(&clock, start, tick - early + shorter);
                            prop_assert!(limiter.peek().remaining() < n, "{shorter} suffices too");
                        }
                    }
                }
            }
        }
    }

    /// On a clock that steps back by any amount.
    ///
    /// It admits the limit once for each whole window of forward motion, once at the start and once at the end.
    #[test]
    fn clock_that_steps_back_opens_each_fixed_window_once(
        limit in 1..20u32,
        moves in proptest::collection::vec((any::<bool>(), prop_oneof![0..100u64, 0..10_000u64], 1..5u32), 1..300),
    ) {
        let clock = ManualClock::with_frequency(1_000);
        clock.set_ticks(1 << 50);
        let limiter = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_second(limit)), &clock);
        let (mut admitted, mut forward) = (0, 0);
        for (back, ticks, n) in moves {
            if back {
                clock.set_ticks(clock.now() - ticks);
            } else {
                clock.advance_ticks(ticks);
                forward += ticks;
            }
            admitted += u64::from(if limiter.check_n(n).is_ok() { n } else { 0 });
            prop_assert!(admitted <= u64::from(limit) * (forward / 1_000 + 2), "{admitted} in {forward} ms");
        }
        let _ = limiter.check_n(limit);
        clock.advance(Duration::from_secs(2));
        prop_assert!(limiter.check_n(limit).is_ok());
    }

    /// The meter is the mirror image of the token bucket.
    #[test]
    fn leaky_bucket_mirrors_the_token_bucket(
        quota in quotas(u32::MAX),
        frequency in frequencies(),
        moves in proptest::collection::vec((0..1u64 << 36, prop_oneof![3 => 0..20u32, 1 => any::<u32>()]), 1..100),
    ) {
        let clock = ManualClock::with_frequency(frequency);
        let tokens = RateLimiter::with_clock(quota, &clock);
        let leaky = RateLimiter::with_algorithm(LeakyBucket::new(quota), &clock);
        for (ticks, n) in moves {
            clock.advance_ticks(ticks);
            prop_assert_eq!(tokens.check_n(n), leaky.check_n(n));
            prop_assert_eq!(leaky.level() + tokens.peek().remaining(), quota.burst_size());
        }
    }

    /// Each call leaves when the previous one has, and a call that does not fit is refused.
    ///
    /// The model is matched to within a tick, or to what `enter_n` states for deep debts.
    #[test]
    fn leaky_queue_matches_its_model(
        quota in quotas(u32::MAX),
        burst in 1..50u32,
        frequency in frequencies(),
        start: u64,
        moves in proptest::collection::vec((prop_oneof![0..20u64, 0..1u64 << 36], 0u64..1 << 18, 0..20u32), 1..150),
    ) {
        prop_assume!(quota.limit() > 0);
        let quota = quota.burst(burst);
        let clock = ManualClock::with_frequency(frequency);
        clock.set_ticks(start);
        let queue = LeakyQueue::with_clock(quota, &clock);
        let mut model = Queue::new(quota, frequency);
        // If more than a burst leaves in a tick, the order cannot be observed.
        prop_assume!(model.interval_in_ticks() > 0);
        prop_assert_eq!(queue.enter_n(0), Ok(Duration::ZERO));
        // Three units, if they are longer than a tick: for rounding and for the multiplier's precision.
        let deepest_debt = 11 * i128::from(quota.burst_size());
        let early = 1 + ((i128::from(model.interval_in_ticks()) * deepest_debt) >> 58);
        for (ticks, parts, n) in moves {
            let ticks = ticks.min(model.interval_in_ticks().saturating_mul(parts) >> 14);
            clock.advance_ticks(ticks);
            model.pass(ticks);
            match queue.enter_n(n) {
                Ok(_) if n == 0 => {}
                Ok(wait) => {
                    prop_assert!(model.has_room(n, early), "{n} into {model:?}");
                    let (wait, slack) = ticks_of(wait, frequency);
                    let exact = model.wait();
                    prop_assert!(wait + early >= exact && wait <= exact + early + slack, "{wait} of {exact}");
                    model.enter(n);
                }
                Err(denied) => {
                    prop_assert!(!model.has_room(n, 0), "{n} into {model:?}");
                    prop_assert_eq!(denied.exceeds_burst(), n > burst);
                }
            }
        }
    }
}
