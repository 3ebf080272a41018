//! The clocks through the public API.

use damper::time::{ExtendedTimer, FixedFrequency, Timer};
use damper::{Clock, CoarseClock, Quota, RateLimiter, TokenBucket};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

static CLOCK: CoarseClock = CoarseClock::new();
static LIMITER: RateLimiter<TokenBucket, &CoarseClock> =
    RateLimiter::with_clock(Quota::per_second(10).burst(1), &CLOCK);

#[test]
fn coarse_clock_advances_only_when_refreshed() {
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
fn coarse_clock_saturates() {
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

/// A burst below `rate · resolution` caps the rate at `burst / resolution`, as documented.
#[test]
fn tokens_arrive_in_steps_of_the_resolution() {
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

/// A ticker runs late by 11 of its resolutions.
///
/// The calls before its refresh and after it are of one moment.
#[test]
fn late_refresh_allows_what_the_pause_brings() {
    let clock = CoarseClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(1_000).burst(20), &clock);
    let allowed = || (0..100).filter(|_| limiter.check().is_ok()).count();
    let before = allowed();
    clock.advance(11 * MILLI);
    assert_eq!((before, allowed()), (20, 11));
}

proptest! {
    /// Readings match the definition, and none is smaller than the one before it.
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

/// The true time, of which a timer shows the lowest bits, and the interrupts of its reader.
///
/// Each interrupt is how far the time moves before the count is read, and how far until the reading is used.
#[derive(Debug, Default)]
struct Hardware {
    time: Cell<u64>,
    /// The latest reading that no interrupt delayed.
    read_at: Cell<u64>,
    interrupts: RefCell<Vec<(u64, u64)>>,
}

#[derive(Debug)]
struct Register<'a, const BITS: u32> {
    hardware: &'a Hardware,
    /// The clock, which interrupts read too.
    clock: &'a Cell<Option<&'a ExtendedTimer<Register<'a, BITS>>>>,
}

impl<const BITS: u32> Register<'_, BITS> {
    /// Runs interrupts so that at most half a period passes between two readings.
    ///
    /// Each of them must read the right time.
    fn interrupt(&self, ticks: u64) {
        let Some(clock) = self.clock.get() else { return };
        let Hardware { time, read_at, .. } = self.hardware;
        let mut left = ticks;
        while left > 0 {
            let step = left.min(read_at.get() + (1 << (BITS - 1)) - time.get());
            left -= step;
            time.update(|time| time + step);
            let at_least = time.get();
            let read = clock.now();
            assert!((at_least..=time.get()).contains(&read), "{read} in an interrupt from {at_least} on");
            read_at.set(read_at.get().max(read));
        }
    }
}

impl<const BITS: u32> Timer for Register<'_, BITS> {
    const HERTZ: u64 = 1_000_000;
    const BITS: u32 = BITS;

    fn count(&self) -> u32 {
        let (before, after) = self.hardware.interrupts.borrow_mut().pop().unwrap_or_default();
        self.interrupt(before);
        let count = self.hardware.time.get() as u32;
        self.interrupt(after);
        count
    }
}

/// Compares a timer of `BITS` bits with the true time, in steps of at most half its period.
///
/// Interrupts may run between the loads of a reading.
fn extends<const BITS: u32>(steps: &[(u64, [(u64, u64); 3])]) {
    let hardware = Hardware::default();
    let this = Cell::new(None);
    let clock = ExtendedTimer::new(Register::<BITS> { hardware: &hardware, clock: &this });
    this.set(Some(&clock));
    let period = 1 << BITS;
    assert_eq!(clock.now(), 0);
    for (step, interrupts) in steps {
        hardware.time.update(|time| time + step % (period / 2 + 1));
        // Interrupts of up to three periods in all.
        let long = |(before, after): &(u64, u64)| (before % (3 * period), after % (3 * period));
        *hardware.interrupts.borrow_mut() = interrupts.iter().map(long).collect();
        let at_least = hardware.time.get();
        let read = clock.now();
        assert!((at_least..=hardware.time.get()).contains(&read), "{read} from {at_least} on");
        hardware.interrupts.borrow_mut().clear();
        assert_eq!(clock.now(), hardware.time.get(), "undisturbed");
        hardware.read_at.set(hardware.time.get());
    }
}

proptest! {
    /// Short steps and short interrupts are as frequent as long ones.
    #[test]
    fn extended_timer_shows_the_true_time(
        steps in prop::collection::vec(
            (ticks(), [(ticks(), ticks()), (ticks(), ticks()), (ticks(), ticks())]),
            0..60,
        )
    ) {
        extends::<2>(&steps);
        extends::<3>(&steps);
        extends::<16>(&steps);
        extends::<24>(&steps);
        extends::<32>(&steps);
    }
}

fn ticks() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(|(ticks, fewer)| ticks >> fewer)
}

/// A timer that is moved by hand.
#[derive(Debug)]
struct Count<const BITS: u32>(Cell<u32>);

impl<const BITS: u32> Timer for &Count<BITS> {
    const HERTZ: u64 = 32_768;
    const BITS: u32 = BITS;

    fn count(&self) -> u32 {
        self.0.get()
    }
}

#[test]
fn extended_timer_starts_within_its_first_period() {
    let count = Count::<32>(Cell::new(u32::MAX - 1));
    let clock = ExtendedTimer::new(&count);
    assert_eq!(clock.now(), u64::from(u32::MAX) - 1);
    count.0.set(1);
    assert_eq!(clock.now(), (1 << 32) + 1);
    assert_eq!((clock.frequency(), clock.max_step_back()), (32_768, 33));
    assert_eq!(<ExtendedTimer<&Count<32>> as FixedFrequency>::HERTZ, 32_768);
}

/// As documented: whole periods are lost, and none is gained.
#[test]
fn unread_extended_timer_loses_periods() {
    let count = Count::<8>(Cell::new(0));
    let clock = ExtendedTimer::new(&count);
    let mut true_time = 100;
    count.0.set(true_time);
    assert_eq!(clock.now(), 100);
    true_time += 200;
    count.0.set(true_time);
    assert_eq!(clock.now(), u64::from(true_time) - 256, "back by less than a period");
}

/// Counts the halves of the timer's period, 2^32 of them. Then the clock starts over.
#[test]
fn extended_timer_adds_31_bits() {
    let count = Count::<2>(Cell::new(0));
    let clock = ExtendedTimer::new(&count);
    for time in 0..10_000 {
        count.0.set(time);
        assert_eq!(clock.now(), u64::from(time));
    }
}

#[cfg(feature = "std")]
mod with_std {
    use super::MILLI;
    use damper::{Clock, CoarseClock, CoarseTicker, OutOfRange, Quota, RateLimiter, StdClock};
    use std::ops::Deref;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    /// Waits until `condition` holds. Panics after a minute.
    fn wait_until(mut condition: impl FnMut() -> bool) {
        let started = Instant::now();
        while !condition() {
            assert!(started.elapsed() < Duration::from_secs(60), "waited for a minute");
            thread::sleep(MILLI);
        }
    }

    fn elapsed(clock: &impl Clock) -> Duration {
        assert_eq!(clock.frequency(), 1_000_000_000);
        Duration::from_nanos(clock.now())
    }

    #[test]
    fn std_clock_agrees_with_instant() {
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
    fn copies_of_std_clock_share_their_origin() {
        let clock = StdClock::new();
        thread::sleep(MILLI);
        let copy = clock;
        let (first, second, third) = (clock.now(), copy.now(), clock.now());
        assert!(first >= 1_000_000 && first <= second && second <= third);
    }

    #[test]
    fn std_clock_refills_a_limiter() {
        let limiter = RateLimiter::with_clock(Quota::per_minute(6_000).burst(1), StdClock::new());
        assert!(limiter.check().is_ok());
        wait_until(|| limiter.check().is_ok());
    }

    #[test]
    fn ticker_refills_a_limiter() {
        let clock = Arc::new(CoarseClock::new());
        let limiter = RateLimiter::with_clock(Quota::per_second(100).burst(1), Arc::clone(&clock));
        assert!(limiter.check().is_ok());
        let ticker = CoarseTicker::start(clock, MILLI).unwrap();
        assert_eq!(ticker.resolution(), MILLI);
        wait_until(|| limiter.check().is_ok());
    }

    #[test]
    fn ticker_keeps_pace_with_instant() {
        let clock = Arc::new(CoarseClock::new());
        let started = Instant::now();
        let _ticker = CoarseTicker::start(Arc::clone(&clock), MILLI).unwrap();
        let ready = Instant::now();
        for _ in 0..20 {
            // The ticker catches up with the real time, and is never ahead of it.
            let now = ready.elapsed();
            wait_until(|| elapsed(&clock) >= now);
            let read = elapsed(&clock);
            assert!(read <= started.elapsed());
        }
    }

    #[test]
    fn clock_stops_with_its_ticker() {
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
    fn pause_between_two_tickers_is_skipped() {
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

    /// A coarse clock that counts how often its ticker reads it.
    #[derive(Clone, Default)]
    struct Watched(Arc<(CoarseClock, AtomicUsize)>);

    impl Deref for Watched {
        type Target = CoarseClock;

        fn deref(&self) -> &CoarseClock {
            self.0.1.fetch_add(1, Ordering::SeqCst);
            &self.0.0
        }
    }

    /// The first refresh of a ticker advances the clock, wherever the clock was before.
    ///
    /// A ticker that counted from zero would leave the clock unchanged for an hour.
    #[test]
    fn ticker_resumes_from_the_clock() {
        let clock = Watched::default();
        let Watched(shared) = &clock;
        let an_hour = Duration::from_hours(1);
        shared.0.advance(an_hour);
        let ticker = CoarseTicker::start(clock.clone(), MILLI).unwrap();
        // One reading may be that of the start. At the third a refresh is complete.
        wait_until(|| shared.1.load(Ordering::SeqCst) >= 3);
        ticker.stop();
        assert!(elapsed(&shared.0) > an_hour, "the ticker advances the clock");
    }

    #[test]
    fn two_tickers_keep_the_pace_of_one() {
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
        // The second ticker continues where the first stops.
        first.stop();
        watch(last, 60 * MILLI);
        second.stop();
    }

    #[test]
    fn idle_ticker_stops_at_once() {
        let clock = Arc::new(CoarseClock::new());
        CoarseTicker::start(Arc::clone(&clock), Duration::MAX).unwrap().stop();
        assert_eq!((clock.now(), Arc::strong_count(&clock)), (0, 1));
    }

    #[test]
    fn zero_resolution_is_refused() {
        let clock = Arc::new(CoarseClock::new());
        let error = CoarseTicker::start(Arc::clone(&clock), Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert_eq!(error.get_ref().unwrap().downcast_ref::<OutOfRange>().unwrap().setting(), "resolution");
        assert_eq!(error.to_string(), "resolution is 0 ns, it must be at least 1 ns");
        assert_eq!(Arc::strong_count(&clock), 1, "no thread was started");
    }
}

/// A limiter on words of several processes may see both readings in turn.
#[cfg(all(feature = "rustix", target_os = "linux"))]
#[test]
fn host_clock_runs_as_instant_and_its_coarse_reading_is_hardly_late() {
    use damper::time::HostMonotonic;
    use std::time::Instant;

    let (precise, coarse) = (HostMonotonic::PRECISE, HostMonotonic::COARSE);
    assert_eq!((HostMonotonic::default(), precise.frequency()), (precise, 1_000_000_000));
    let outer = Instant::now();
    let before = precise.now();
    let inner = Instant::now();
    // Over the end of a second, in which the nanoseconds begin again.
    std::thread::sleep(Duration::from_millis(1_001));
    let slept = inner.elapsed();
    let after = precise.now();
    let elapsed = Duration::from_nanos(after - before);
    assert!(slept <= elapsed && elapsed <= outer.elapsed(), "{elapsed:?}");
    for _ in 0..1_000 {
        let (earlier, late, later) = (precise.now(), coarse.now(), precise.now());
        assert!(late <= later && late + coarse.max_step_back() >= earlier, "{earlier} {late} {later}");
    }
}
