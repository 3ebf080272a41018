//! Deadlines, against exact rationals.

#[cfg(feature = "std")]
use damper::DeadlineExceeded;
use damper::{Clock, Deadline, ManualClock};
use proptest::prelude::*;
use std::cell::Cell;
use std::time::Duration;

const SECOND: u128 = 1_000_000_000;

#[test]
fn time_runs_out() {
    let clock = ManualClock::new();
    let deadline = Deadline::with_clock(Duration::from_secs(2), &clock);
    assert_eq!((deadline.remaining(), deadline.elapsed()), (Duration::from_secs(2), Duration::ZERO));
    assert!(deadline.check().is_ok());
    clock.advance(Duration::from_millis(500));
    assert_eq!(deadline.remaining(), Duration::from_millis(1_500));
    assert!((deadline.utilization() - 0.25).abs() < 1e-12);
    clock.advance(Duration::from_millis(1_500));
    let exceeded = deadline.check().unwrap_err();
    assert_eq!((exceeded.specified(), exceeded.elapsed()), (Duration::from_secs(2), Duration::from_secs(2)));
    assert_eq!(exceeded.to_string(), "deadline of 2 s exceeded, 2 s elapsed");
    clock.advance(Duration::from_millis(100));
    assert_eq!((deadline.remaining(), deadline.elapsed()), (Duration::ZERO, Duration::from_millis(2_100)));
    assert!((deadline.utilization() - 1.0).abs() < 1e-12);
}

#[cfg(feature = "std")]
#[test]
fn exceeded_deadline_is_found_behind_other_errors() {
    let exceeded = Deadline::with_clock(Duration::ZERO, &ManualClock::new()).check().unwrap_err();
    let error = std::io::Error::other(std::io::Error::other(exceeded));
    assert_eq!(DeadlineExceeded::find_in(&error), Some(&exceeded));
    assert_eq!(DeadlineExceeded::find_in(&std::io::Error::other("late")), None);
}

#[test]
fn never_passes_never() {
    let clock = ManualClock::new();
    let never = Deadline::never(&clock);
    clock.advance(Duration::from_secs(1 << 30));
    assert!(never.is_never() && !never.is_expired() && never.child(Duration::MAX).is_never());
    assert_eq!((never.remaining(), never.specified(), never.elapsed()), (Duration::MAX, Duration::MAX, Duration::ZERO));
    let soon = Deadline::with_clock(Duration::from_secs(1), &clock);
    assert!(!never.earlier(soon).is_never() && !soon.earlier(never).is_never());
    assert_eq!(never.utilization().to_bits(), 0.0f64.to_bits());
}

// CLAIM: Deadline
#[test]
fn child_leaves_the_margin_to_its_parent() {
    let clock = ManualClock::new();
    let deadline = Deadline::with_clock(Duration::from_secs(2), &clock);
    clock.advance(Duration::from_millis(500));
    let child = deadline.child(Duration::from_millis(200));
    assert_eq!((child.specified(), child.elapsed()), (Duration::from_millis(1_300), Duration::ZERO));
    assert!(deadline.child(Duration::from_secs(3)).is_expired(), "less time is left than the margin");
}

/// A clock that advances by a millisecond at each reading.
struct Advancing(Cell<u64>);

impl Clock for Advancing {
    fn now(&self) -> u64 {
        self.0.replace(self.0.get() + 1_000_000)
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

#[test]
fn child_passes_no_later_than_its_parent() {
    let clock = Advancing(Cell::new(0));
    let deadline = Deadline::with_clock(Duration::from_secs(2), &clock);
    let child = deadline.child(Duration::ZERO);
    clock.0.set(2_000_000_000);
    assert!(deadline.is_expired());
    clock.0.set(2_000_000_000);
    assert!(child.is_expired());
}

#[test]
fn utilization_is_a_number_if_the_clock_steps_back() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1));
    let deadline = Deadline::with_clock(Duration::ZERO, &clock);
    clock.step_back(Duration::from_nanos(1));
    assert_eq!(deadline.utilization().to_bits(), 1.0f64.to_bits());
}

#[test]
fn deadline_without_time_has_passed_even_if_the_clock_steps_back() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1));
    let none = Deadline::with_clock(Duration::ZERO, &clock);
    let child = Deadline::with_clock(Duration::from_secs(1), &clock).child(Duration::from_secs(2));
    clock.step_back(Duration::from_millis(1));
    for deadline in [none, child] {
        assert!(deadline.is_expired() && deadline.check().is_err());
        assert_eq!((deadline.remaining(), deadline.elapsed()), (Duration::ZERO, Duration::ZERO));
    }
    let short = Deadline::with_clock(Duration::from_nanos(1), &clock);
    assert!(none.earlier(short).is_expired() && short.earlier(none).is_expired());
    assert!(!short.is_expired());
}

std::thread_local! {
    static READING: Cell<u64> = const { Cell::new(0) };
}

/// Advances by a millisecond at each reading. All its values are one clock, like the default one.
#[derive(Clone, Copy)]
struct OneClock;

impl Clock for OneClock {
    fn now(&self) -> u64 {
        READING.replace(READING.get() + 1_000_000)
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

#[test]
fn earlier_reads_one_clock_once() {
    let first = Deadline::with_clock(Duration::from_secs(1), OneClock);
    // It is set a millisecond later.
    let second = Deadline::with_clock(Duration::from_micros(999_500), OneClock);
    for earlier in [first.earlier(second), second.earlier(first)] {
        assert_eq!(earlier.specified(), Duration::from_secs(1));
    }
    let never = Deadline::never(OneClock);
    assert!(first.earlier(never).specified() == first.specified() && never.earlier(never).is_never());
}

#[test]
fn earlier_returns_the_deadline_that_passes_first() {
    let clock = ManualClock::new();
    let set_first = Deadline::with_clock(Duration::from_secs(3), &clock);
    clock.advance(Duration::from_secs(2));
    let set_later = Deadline::with_clock(Duration::from_secs(2), &clock);
    for earlier in [set_first.earlier(set_later), set_later.earlier(set_first)] {
        assert_eq!((earlier.remaining(), earlier.specified()), (Duration::from_secs(1), Duration::from_secs(3)));
    }
}

#[cfg(feature = "std")]
#[test]
fn default_clock_takes_16_bytes() {
    assert_eq!(size_of::<Deadline>(), 16);
    assert!(!Deadline::NEVER.is_expired());
    let past = std::time::Instant::now();
    assert!(Deadline::at(past).is_expired() && !Deadline::at(past + Duration::from_secs(60)).is_expired());
    assert!(!Deadline::after(Duration::MAX).is_expired() && !Deadline::after(Duration::MAX).is_never());
}

#[test]
fn stopped_clock_reaches_no_deadline() {
    let clock = ManualClock::with_frequency(0);
    let deadline = Deadline::with_clock(Duration::from_secs(1), &clock);
    assert_eq!((deadline.is_expired(), deadline.remaining()), (false, Duration::from_secs(1)));
    assert!(Deadline::with_clock(Duration::ZERO, &clock).is_expired());
}

proptest! {
    /// At every frequency and from any start, also where the clock wraps or steps back.
    // CLAIM: Deadline
    #[test]
    fn agrees_with_rationals(
        start: u64,
        frequency in prop_oneof![1..=u64::MAX, Just(1), Just(32_768), Just(1_000_000_000)],
        nanos in prop_oneof![any::<u64>(), 0..10_000_000_000u64],
        steps in prop::collection::vec(prop_oneof![0..1i64 << 40, -(1i64 << 40)..0, 0..1_000i64], 1..6),
    ) {
        let clock = ManualClock::with_frequency(frequency);
        clock.set_ticks(start);
        let specified = Duration::from_nanos(nanos.min(u64::MAX - 1));
        let deadline = Deadline::with_clock(specified, &clock);
        let total = (specified.as_nanos() * u128::from(frequency) / SECOND).min(1 << 62) as i128;
        let mut passed = 0i128;
        for step in steps {
            passed += i128::from(step);
            clock.set_ticks(start.wrapping_add(passed as u64));
            let left = total - passed;
            prop_assert_eq!(deadline.is_expired(), left <= 0);
            prop_assert_eq!(deadline.check().is_err(), left <= 0);
            let remaining = (left.max(0) as u128 * SECOND / u128::from(frequency)).min(specified.as_nanos());
            prop_assert_eq!(deadline.remaining().as_nanos(), remaining);
            if left > 0 {
                prop_assert_eq!(deadline.remaining() + deadline.elapsed(), specified);
            } else {
                let overdue = ((-left) as u128 * SECOND).div_ceil(u128::from(frequency)).min(u128::from(u64::MAX));
                prop_assert_eq!(deadline.elapsed().as_nanos(), specified.as_nanos() + overdue);
            }
            prop_assert!((0.0..=1.0).contains(&deadline.utilization()));
        }
    }
}

#[cfg(feature = "tokio")]
mod detached {
    use damper::{Deadline, DeadlineExceeded};
    use std::future::{Future, poll_fn};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;
    use std::time::Duration;
    use tokio::time::sleep;

    const SHORT: Duration = Duration::from_millis(20);

    /// Work that takes five times `SHORT`, and counts when it has ended.
    async fn work(ended: Arc<AtomicUsize>) -> &'static str {
        sleep(SHORT * 5).await;
        ended.fetch_add(1, Ordering::SeqCst);
        "written"
    }

    async fn eventually_one(ended: &AtomicUsize) {
        for _ in 0..200 {
            if ended.load(Ordering::SeqCst) == 1 {
                return;
            }
            sleep(SHORT).await;
        }
        panic!("the work never ended");
    }

    #[tokio::test]
    async fn work_that_ends_in_time_has_its_result() {
        let ended = Arc::new(AtomicUsize::new(0));
        for deadline in [Deadline::NEVER, Deadline::after(Duration::from_secs(60))] {
            assert_eq!(deadline.detach(work(Arc::clone(&ended))).await, Ok("written"));
        }
        assert_eq!(ended.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn detached_work_continues_after_the_deadline() {
        let ended = Arc::new(AtomicUsize::new(0));
        let (go, gate) = tokio::sync::oneshot::channel();
        let (counted, done) = (Arc::clone(&ended), work(Arc::default()));
        let gated = async move {
            _ = gate.await;
            done.await;
            counted.fetch_add(1, Ordering::SeqCst);
        };
        let result: Result<_, DeadlineExceeded> = Deadline::after(SHORT).detach(gated).await;
        assert_eq!(result.unwrap_err().specified(), SHORT);
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        go.send(()).unwrap();
        eventually_one(&ended).await;
    }

    /// A server drops its handler, before and after the first poll.
    #[tokio::test]
    async fn detached_work_outlives_the_handler_that_is_dropped() {
        for polled in [false, true] {
            let ended = Arc::new(AtomicUsize::new(0));
            let mut detached = Box::pin(Deadline::NEVER.detach(work(Arc::clone(&ended))));
            if polled {
                poll_fn(|context| {
                    assert!(detached.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            drop(detached);
            eventually_one(&ended).await;
        }
    }

    /// A panic in `Drop` would lose the work in silence.
    #[test]
    fn detaching_outside_of_a_runtime_panics_before_there_is_work_to_lose() {
        for deadline in [Deadline::NEVER, Deadline::after(Duration::ZERO)] {
            let detaching = std::panic::catch_unwind(|| drop(deadline.detach(std::future::pending::<()>())));
            assert!(detaching.is_err());
        }
    }

    #[tokio::test]
    async fn work_that_panics_is_not_polled_again() {
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        let work = async move {
            counted.fetch_add(1, Ordering::SeqCst);
            panic!("the work panics");
        };
        let handler = tokio::spawn(async move { Deadline::NEVER.detach(work).await });
        assert!(handler.await.unwrap_err().is_panic());
        tokio::task::yield_now().await;
        assert_eq!(polls.load(Ordering::SeqCst), 1);
    }
}
