//! The clocks through the public API.

use damper::{Clock, CoarseClock, Quota, RateLimiter, TokenBucket};
use proptest::prelude::*;
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

static CLOCK: CoarseClock = CoarseClock::new();
static LIMITER: RateLimiter<TokenBucket, &CoarseClock> =
    RateLimiter::with_clock(Quota::per_second(10).burst(1), &CLOCK);

#[test]
fn a_coarse_clock_stands_still_until_it_is_refreshed() {
    assert!(LIMITER.check().is_ok());
    for _ in 0..2 {
        assert_eq!(LIMITER.check().unwrap_err().retry_after(), Some(Duration::from_millis(100)));
    }
    CLOCK.advance(Duration::from_millis(99));
    assert_eq!(LIMITER.check().unwrap_err().retry_after(), Some(MILLI));
    CLOCK.advance_to(Duration::from_millis(100));
    assert!(LIMITER.check().is_ok());
}

#[test]
fn a_coarse_clock_stops_at_its_end() {
    let clock = CoarseClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_hour(1), &clock);
    assert!(limiter.check().is_ok());
    for _ in 0..2 {
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), u64::MAX);
        clock.advance_to(Duration::MAX);
        assert_eq!(clock.now(), u64::MAX);
        _ = limiter.check();
    }
}

/// A burst below `rate · resolution` caps the rate at `burst / resolution`, as the documentation says.
#[test]
fn tokens_come_in_steps() {
    for (burst, each_step) in [(20, 10), (10, 10), (5, 5)] {
        let clock = CoarseClock::new();
        let limiter = RateLimiter::with_clock(Quota::per_second(10_000).burst(burst), &clock);
        assert!(limiter.check_n(burst).is_ok());
        for _ in 0..100 {
            clock.advance(MILLI);
            assert_eq!((0..2 * burst).filter(|_| limiter.check().is_ok()).count(), each_step);
        }
    }
}

proptest! {
    /// Against the definition; and no reading is smaller than one before it.
    #[test]
    fn refreshes_add_up_and_never_step_back(refreshes in prop::collection::vec((any::<bool>(), 0..1u64 << 40), 0..50)) {
        let clock = CoarseClock::new();
        let mut model = 0;
        for (relative, nanos) in refreshes {
            if relative {
                clock.advance(Duration::from_nanos(nanos));
                model += nanos;
            } else {
                clock.advance_to(Duration::from_nanos(nanos));
                model = model.max(nanos);
            }
            prop_assert_eq!(clock.now(), model);
        }
    }
}

#[cfg(feature = "std")]
mod with_std {
    use super::MILLI;
    use damper::{Clock, CoarseClock, CoarseTicker, CoarseTickerError, Quota, RateLimiter, StdClock};
    use std::error::Error;
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    /// Returns when `condition` holds; a machine on which that takes a minute has other problems.
    fn wait_until(mut condition: impl FnMut() -> bool) {
        let started = Instant::now();
        while !condition() {
            assert!(started.elapsed() < Duration::from_mins(1), "waited for a minute");
            thread::sleep(MILLI);
        }
    }

    fn elapsed(clock: &impl Clock) -> Duration {
        assert_eq!(clock.frequency(), 1_000_000_000);
        Duration::from_nanos(clock.now())
    }

    #[test]
    fn the_std_clock_agrees_with_instant() {
        let before = Instant::now();
        let clock = StdClock::new();
        let after = Instant::now();
        for _ in 0..10 {
            let at_least = after.elapsed();
            let read = elapsed(&clock);
            let at_most = before.elapsed();
            assert!((at_least..=at_most).contains(&read), "{at_least:?} <= {read:?} <= {at_most:?}");
            thread::sleep(MILLI);
        }
    }

    #[test]
    fn copies_of_the_std_clock_share_their_start() {
        let clock = StdClock::new();
        thread::sleep(MILLI);
        let copy = clock;
        let (first, second, third) = (clock.now(), copy.now(), clock.now());
        assert!(first >= 1_000_000 && first <= second && second <= third);
    }

    #[test]
    fn the_std_clock_refills_a_limiter() {
        let limiter = RateLimiter::with_clock(Quota::per_minute(6_000).burst(1), StdClock::new());
        assert!(limiter.check().is_ok());
        wait_until(|| limiter.check().is_ok());
    }

    #[test]
    fn a_ticker_refills_a_limiter() {
        let clock = Arc::new(CoarseClock::new());
        let limiter = RateLimiter::with_clock(Quota::per_second(100).burst(1), Arc::clone(&clock));
        assert!(limiter.check().is_ok());
        let ticker = CoarseTicker::start(clock, MILLI).unwrap();
        assert_eq!(ticker.resolution(), MILLI);
        wait_until(|| limiter.check().is_ok());
    }

    #[test]
    fn a_ticker_keeps_pace_with_instant() {
        let clock = Arc::new(CoarseClock::new());
        let started = Instant::now();
        let _ticker = CoarseTicker::start(Arc::clone(&clock), MILLI).unwrap();
        let ready = Instant::now();
        for _ in 0..20 {
            // It arrives wherever the real time is now, and is never ahead of it.
            let now = ready.elapsed();
            wait_until(|| elapsed(&clock) >= now);
            let read = elapsed(&clock);
            assert!(read <= started.elapsed());
        }
    }

    #[test]
    fn a_clock_whose_ticker_is_gone_stands_still() {
        let clock = Arc::new(CoarseClock::new());
        for stop in [CoarseTicker::stop, drop] {
            let before = clock.now();
            let ticker = CoarseTicker::start(Arc::clone(&clock), MILLI).unwrap();
            wait_until(|| clock.now() > before);
            stop(ticker);
            let stopped = clock.now();
            assert_eq!(Arc::strong_count(&clock), 1, "the thread has ended");
            thread::sleep(10 * MILLI);
            assert_eq!(clock.now(), stopped);
        }
    }

    #[test]
    fn a_pause_between_two_tickers_is_not_counted() {
        let clock = Arc::new(CoarseClock::new());
        let mut ticking = Duration::ZERO;
        for _ in 0..3 {
            let (before, started) = (clock.now(), Instant::now());
            let ticker = CoarseTicker::start(Arc::clone(&clock), MILLI).unwrap();
            wait_until(|| clock.now() > before);
            ticker.stop();
            ticking += started.elapsed();
            thread::sleep(10 * MILLI);
            assert!(elapsed(&clock) <= ticking);
        }
    }

    #[test]
    fn two_tickers_neither_step_back_nor_run_ahead() {
        let clock = Arc::new(CoarseClock::new());
        let started = Instant::now();
        let first = CoarseTicker::start(Arc::clone(&clock), MILLI).unwrap();
        wait_until(|| clock.now() > 0);
        let second = CoarseTicker::start(Arc::clone(&clock), MILLI / 2).unwrap();
        let watch = |mut last: u64, until: Duration| {
            while last < until.as_nanos() as u64 {
                let now = clock.now();
                assert!(now >= last, "from {last} back to {now}");
                assert!(Duration::from_nanos(now) <= started.elapsed());
                last = now;
                thread::sleep(MILLI / 10);
            }
            last
        };
        let last = watch(0, 30 * MILLI);
        // The other carries on where the first leaves off.
        first.stop();
        watch(last, 60 * MILLI);
        second.stop();
    }

    #[test]
    fn a_ticker_that_never_ticks_stops_at_once() {
        let clock = Arc::new(CoarseClock::new());
        CoarseTicker::start(Arc::clone(&clock), Duration::MAX).unwrap().stop();
        assert_eq!((clock.now(), Arc::strong_count(&clock)), (0, 1));
    }

    #[test]
    fn a_resolution_of_zero_is_refused() {
        let clock = Arc::new(CoarseClock::new());
        let error = CoarseTicker::start(Arc::clone(&clock), Duration::ZERO).unwrap_err();
        assert!(matches!(error, CoarseTickerError::ZeroResolution));
        assert_eq!(error.to_string(), "the resolution of a coarse clock is zero, it must be at least 1 ns");
        assert!(error.source().is_none());
        assert_eq!(Arc::strong_count(&clock), 1, "no thread was started");
    }

    #[test]
    fn a_thread_that_was_not_started_tells_why() {
        let error = CoarseTickerError::Spawn(std::io::Error::other("no more threads"));
        assert_eq!(error.source().unwrap().to_string(), "no more threads");
    }
}
