//! The published audit findings of better-bucket, rate-net and throttle-net, as attacks against damper.
//!
//! | finding | attack | test |
//! |---|---|---|
//! | BB-SEC-01, BB-COR-01, RN-COR-01, TN-001 | a clock reading that is older than the stored time | `peer_bugs`: `rival_stores_a_later_time` |
//! | BB-COR-02, TN-020 | one token a week, 60 days, a century | `slow_rates_refill_on_time` |
//! | BB-COR-03, RN-010, TN-010 | a burst of 2^32 - 1 | `largest_burst_is_exact` |
//! | BB-COR-04 | a clock that steps back, and a reading from the end of time | `step_back_refills_nothing`, `last_tick_admits_what_is_there` |
//! | BB-COR-05, RN-COR-08 | 2^32 ms of idle time, and a millisecond more | `idle_time_of_any_length_refills` |
//! | "frequent grants discarded the remainder" | a bucket that is drained once a second, at one token an hour | `draining_often_loses_no_refill` |
//! | BB-COR-06 | small requests that overtake a large one | `reservations`, `limit_set_waiting` |
//! | RN-COR-02, TN-019 | a count and a cost whose sum is beyond 2^32 | `count_and_cost_beyond_their_integer` |
//! | RN-COR-03, RN-013 | a call from a window that others have closed | `late_call_counts_in_the_newer_window` |
//! | RN-COR-04, RN-008, RN-014, TN-009 | no time, no tokens, less than a millisecond | `degenerate_quotas_admit_nothing` |
//! | RN-COR-05 | 600 million tokens a second, whose interval is no whole nanosecond | `fractions_of_a_nanosecond_are_kept` |
//! | RN-007 | a caller that waits for `retry_after` and is denied again | `waiting_as_told_succeeds` |
//! | RN-SEC-03, RN-009 | a log that keeps a record for each token of one call | `cost_of_one_call_takes_no_memory_of_others` |
//! | RN-005, TN-011 | an exhausted key that a flood evicts | `keyed::full_table`, and `flood_gives_an_exhausted_key_nothing` |
//! | RN-SEC-01, TN-003 | an eviction that looks at the whole table | `keyed_memory`; a newcomer looks at eight slots |
//! | TN-012 | a jitter whose range overflows, a factor of 1 | `retry::tests` and `longest_delay_has_a_jitter` |

use damper::retry::Jitter;
use damper::{
    Backoff, Clock, FixedWindow, KeyedLimiter, LeakyBucket, Limiter, ManualClock, Quota, RateLimiter, SlidingCounter,
    SlidingLog, WhenFull,
};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A limiter of each algorithm.
fn limiters<'a, C: Clock>(quota: Quota, clock: &'a C) -> Vec<(&'static str, Box<dyn Limiter + 'a>)> {
    vec![
        ("token bucket", Box::new(RateLimiter::with_clock(quota, clock))),
        ("leaky bucket", Box::new(RateLimiter::with_algorithm(LeakyBucket::new(quota), clock))),
        ("fixed window", Box::new(RateLimiter::with_algorithm(FixedWindow::new(quota), clock))),
        ("sliding counter", Box::new(RateLimiter::with_algorithm(SlidingCounter::new(quota).unwrap(), clock))),
        ("sliding log", Box::new(RateLimiter::with_algorithm(SlidingLog::new(quota).unwrap(), clock))),
    ]
}

#[test]
fn slow_rates_refill_on_time() {
    // A token may be early by less than a tick. The line of one token in a century has units of eight ticks.
    for (days, early) in [(1, 2), (7, 2), (30, 2), (60, 2), (36_525, 8)] {
        let (clock, window, early) = (ManualClock::new(), days * DAY, Duration::from_nanos(early));
        let limiter = RateLimiter::with_clock(Quota::per(1, window).unwrap(), &clock);
        assert!(limiter.check().is_ok());
        clock.advance(window.saturating_sub(early));
        assert!(limiter.check().is_err(), "{days} days less {early:?}");
        clock.advance(early);
        assert!(limiter.check().is_ok(), "{days} days");
    }
}

#[test]
fn largest_burst_is_exact() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_hour(1).burst(u32::MAX), &clock);
    assert_eq!(limiter.check_n(u32::MAX).unwrap().remaining(), 0);
    assert!(limiter.check().is_err());
}

#[test]
fn step_back_refills_nothing() {
    for algorithm in 0..5 {
        let clock = ManualClock::new();
        clock.advance(2 * DAY);
        let (name, limiter) = limiters(Quota::per_second(10), &clock).swap_remove(algorithm);
        assert!(limiter.try_acquire(10).is_ok(), "{name}");
        for step in [Duration::from_nanos(1), Duration::from_secs(1), DAY] {
            clock.step_back(step);
            assert!(limiter.try_acquire(1).is_err(), "{name}, {step:?} back");
        }
    }
}

#[test]
fn last_tick_admits_what_is_there() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(10), &clock);
    assert!(limiter.check_n(10).is_ok());
    clock.set_ticks(u64::MAX);
    let admitted = (0..100).filter(|_| limiter.check().is_ok()).count();
    assert!(admitted <= 10, "{admitted} at the end of time");
}

#[test]
fn idle_time_of_any_length_refills() {
    for idle in [1_u64 << 32, (1 << 32) + 1, 3 << 32] {
        for algorithm in 0..5 {
            let clock = ManualClock::new();
            let (name, limiter) = limiters(Quota::per_second(10), &clock).swap_remove(algorithm);
            assert!(limiter.try_acquire(10).is_ok(), "{name}");
            clock.advance(Duration::from_millis(idle));
            assert!(limiter.try_acquire(10).is_ok(), "{name} after {idle} ms");
            assert!(limiter.try_acquire(1).is_err(), "{name} has no more than a burst");
        }
    }
}

#[test]
fn draining_often_loses_no_refill() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_hour(1), &clock);
    while limiter.check().is_ok() {}
    let day = (0..24 * 3_600).filter(|_| {
        clock.advance(Duration::from_secs(1));
        limiter.check().is_ok()
    });
    assert_eq!(day.count(), 24);
}

#[test]
fn count_and_cost_beyond_their_integer() {
    let clock = ManualClock::new();
    for limit in [u32::MAX / 2 + 2, u32::MAX] {
        let quota = Quota::per_second(limit);
        let window = RateLimiter::with_algorithm(FixedWindow::new(quota), &clock);
        assert!(window.check_n(limit - 1).is_ok());
        assert!(window.check_n(limit).is_err(), "{} and {limit}", limit - 1);
        assert!(window.check().is_ok());
        assert!(window.check().is_err());
        assert!(SlidingCounter::new(quota).is_err(), "it refuses a limit that its fields cannot hold");
    }
    let counter = SlidingCounter::new(Quota::per_second((1 << 24) - 1)).unwrap();
    let counter = RateLimiter::with_algorithm(counter, &clock);
    assert!(counter.check_n((1 << 24) - 2).is_ok());
    assert!(counter.check_n(u32::MAX).is_err());
    assert!(counter.check().is_ok());
    assert!(counter.check().is_err());
}

/// A clock whose readings may be old by a second: the thread was stopped between reading and use.
struct Late(ManualClock);

impl Clock for Late {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn frequency(&self) -> u64 {
        self.0.frequency()
    }

    fn max_step_back(&self) -> u64 {
        self.frequency()
    }
}

#[test]
fn late_call_counts_in_the_newer_window() {
    for algorithm in 0..5 {
        let late = Late(ManualClock::new());
        late.0.advance(Duration::from_millis(9_900));
        let (name, limiter) = limiters(Quota::per_second(10), &late).swap_remove(algorithm);
        assert!(limiter.try_acquire(0).is_ok(), "{name}");
        late.0.advance(Duration::from_millis(200));
        assert!(limiter.try_acquire(10).is_ok(), "{name}, in the next window");
        late.0.step_back(Duration::from_millis(200));
        assert!(limiter.try_acquire(1).is_err(), "{name}, with a reading from before");
        late.0.advance(Duration::from_millis(200));
        assert!(limiter.try_acquire(1).is_err(), "{name}: the late call has erased the newer window");
    }
}

#[test]
fn degenerate_quotas_admit_nothing() {
    assert!(Quota::per(10, Duration::ZERO).is_err(), "no time");
    for quota in [Quota::per_second(0), Quota::per(3, Duration::from_micros(10)).unwrap()] {
        for algorithm in 0..5 {
            let clock = ManualClock::new();
            clock.advance(DAY);
            let (name, limiter) = limiters(quota, &clock).swap_remove(algorithm);
            let admitted = (0..100).filter(|_| limiter.try_acquire(1).is_ok()).count();
            assert_eq!(admitted, quota.limit() as usize, "{name}, {quota}");
        }
    }
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(0), &clock);
    clock.advance(DAY);
    assert!(limiter.check().is_err(), "no burst");
}

#[test]
fn fractions_of_a_nanosecond_are_kept() {
    for millions in [600, 1_000, 1_500] {
        let clock = ManualClock::new();
        let quota = Quota::per_second(millions * 1_000_000).burst(10_000_000);
        for limiter in [
            &RateLimiter::with_clock(quota, &clock) as &dyn Limiter,
            &RateLimiter::with_algorithm(LeakyBucket::new(quota), &clock),
        ] {
            limiter.try_acquire(10_000_000).unwrap();
            let mut admitted = 0;
            for _ in 0..1_000 {
                clock.advance(Duration::from_millis(1));
                while limiter.try_acquire(10_000).is_ok() {
                    admitted += 10_000;
                }
            }
            assert_eq!(admitted, millions * 1_000_000);
        }
    }
}

#[test]
fn waiting_as_told_succeeds() {
    for quota in [Quota::per(3, Duration::from_millis(7)).unwrap(), Quota::per_second(10), Quota::per_hour(7)] {
        for algorithm in 0..5 {
            let clock = ManualClock::new();
            let (name, limiter) = limiters(quota, &clock).swap_remove(algorithm);
            for _ in 0..50 {
                if let Err(denied) = limiter.try_acquire(2) {
                    clock.advance(denied.retry_after().expect("a wait helps"));
                    assert!(limiter.try_acquire(2).is_ok(), "{name}, {quota}: denied again after the wait");
                }
            }
        }
    }
}

#[test]
fn cost_of_one_call_takes_no_memory_of_others() {
    let clock = ManualClock::new();
    let most = 1 << 20;
    let log = RateLimiter::with_algorithm(SlidingLog::new(Quota::per_second(most)).unwrap(), &clock);
    assert!(log.check_n(most).is_ok(), "the log has a place for each token from the start");
    assert!(log.check().is_err());
    clock.advance(Duration::from_secs(1));
    assert!(log.check_n(most).is_ok());
}

#[test]
fn flood_gives_an_exhausted_key_nothing() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u64>::builder(Quota::per_hour(10)).capacity(64).clock(&clock).build().unwrap();
    assert!(limits.check_n(&7, 10).is_ok());
    for key in 1_000..11_000 {
        let _ = limits.check(&key);
    }
    assert!(limits.check(&7).is_err(), "the flood has reset the key");
    // This policy documents that an evicted key may get a part of a burst again, but no more than the table's slots allow.
    let evicting = KeyedLimiter::<u64>::builder(Quota::per_hour(10))
        .capacity(64)
        .when_full(WhenFull::EvictLeastIndebted)
        .clock(&clock)
        .build()
        .unwrap();
    assert!(evicting.check_n(&7, 10).is_ok());
    for key in 1_000..11_000 {
        let _ = evicting.check(&key);
    }
    assert!(evicting.check(&7).is_err(), "the key that owes most is evicted last");
}

#[test]
fn longest_delay_has_a_jitter() {
    for jitter in [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
        for factor in [1.0, 2.0, 1_000.0] {
            let backoff = Backoff::exponential(Duration::from_nanos(1)).factor(factor).unwrap();
            let delays = backoff.max_delay(Duration::MAX).jitter(jitter).delays(7);
            assert!(delays.take(200).all(|delay| delay <= Duration::MAX), "{jitter:?}, {factor}");
        }
    }
}
