//! Adaptive limits: permits and their outcomes, waiting, and custom rules.

use crate::models::falling::Falling;
#[cfg(feature = "compared")]
use damper::concurrency::compared::{Aimd, Gradient2, Vegas};
use damper::concurrency::{
    BoundedRule, BulkheadPermit, LimitBounds, LimitRule, Outcome, ProbedGradient, WindowPlan, WindowSummary,
};
use damper::{AdaptiveLimit, ManualClock};
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

type Limit<'a> = AdaptiveLimit<ProbedGradient, &'a ManualClock>;

fn limit(clock: &ManualClock) -> Limit<'_> {
    AdaptiveLimit::with_clock(LimitBounds::DEFAULT, clock)
}

/// Makes `at_once` concurrent calls of this latency, again and again for this many seconds.
fn calls<R: LimitRule>(
    limit: &AdaptiveLimit<R, &ManualClock>,
    clock: &ManualClock,
    at_once: u32,
    latency: Duration,
    seconds: u32,
) {
    for _ in 0..seconds * 1_000 / latency.as_millis() as u32 {
        let permits: Vec<_> = (0..at_once).filter_map(|_| limit.try_acquire().ok()).collect();
        clock.advance(latency);
        permits.into_iter().for_each(BulkheadPermit::success);
    }
}

#[test]
fn limit_in_full_use_grows_while_calls_are_fast() {
    let clock = ManualClock::new();
    let limit = limit(&clock);
    calls(&limit, &clock, 5, 10 * MS, 5);
    assert_eq!(limit.limit(), 20, "too few callers to reach the limit");
    let baseline = limit.baseline().unwrap().as_secs_f64();
    assert!((baseline / 0.01 - 1.0).abs() < 0.01, "{baseline}");
    calls(&limit, &clock, 500, 10 * MS, 10);
    assert!(limit.limit() > 200, "{limit:?}");
}

#[test]
fn limit_in_full_use_shrinks_while_calls_are_slow() {
    let clock = ManualClock::new();
    let limit = limit(&clock);
    calls(&limit, &clock, 5, 10 * MS, 5);
    calls(&limit, &clock, 500, 18 * MS, 2);
    assert!(limit.limit() < 20, "{limit:?}");
}

/// Twelve calls hold their slots for good, and the others fill a limit of 20.
///
/// Measurements at half of the limit or less cannot end by calls then.
#[test]
fn slots_beside_calls_that_never_end_are_served_on() {
    fn serves<R: LimitRule>(rule: R) {
        let clock = ManualClock::new();
        let limit = AdaptiveLimit::with_rule(rule, &clock);
        calls(&limit, &clock, 5, 10 * MS, 5);
        let held: Vec<_> = (0..12).map(|_| limit.try_acquire().unwrap()).collect();
        let (mut lowest, mut idle, mut longest_idle, mut idle_in_all) = (limit.limit(), 0, 0, 0);
        for _ in 0..600_000 / 14 {
            let permits: Vec<_> = std::iter::from_fn(|| limit.try_acquire().ok()).collect();
            idle = if permits.is_empty() { idle + 14 } else { 0 };
            longest_idle = longest_idle.max(idle);
            idle_in_all += u64::from(permits.is_empty()) * 14;
            lowest = lowest.min(limit.limit());
            clock.advance(14 * MS);
            permits.into_iter().for_each(BulkheadPermit::success);
        }
        assert!(lowest <= 12, "no measurement was filled by the held calls: {lowest}");
        assert!(longest_idle <= 11_000, "no call was served for {longest_idle} ms");
        assert!(idle_in_all <= 600_000 / 2, "no call was served for {idle_in_all} ms in all");
        drop(held);
    }
    let bounds = LimitBounds::new(1, 20).unwrap();
    serves(ProbedGradient::new(bounds));
    #[cfg(feature = "compared")]
    {
        serves(Vegas::new(bounds));
        serves(Gradient2::new(bounds));
    }
}

/// The limit has fallen to 1 after two calls.
fn fallen(clock: &ManualClock) -> AdaptiveLimit<Falling, &ManualClock> {
    let limit = AdaptiveLimit::with_rule(Falling, clock).queue(4);
    limit.try_acquire().unwrap().success();
    limit.try_acquire().unwrap().success();
    assert_eq!(limit.limit(), 1);
    limit
}

/// All others wait, so no call is refused.
#[test]
fn queued_calls_notice_that_no_call_ends() {
    let clock = ManualClock::new();
    let limit = fallen(&clock);
    let held = limit.try_acquire().unwrap();
    let slept = Cell::new(Duration::ZERO);
    let sleep = |time| {
        slept.set(time);
        pending::<()>()
    };
    let mut context = Context::from_waker(Waker::noop());
    let mut calls = [None, Some(25_000 * MS), Some(9_000 * MS)].map(|longest| {
        let call = match longest {
            Some(longest) => limit.acquire().within(longest),
            None => limit.acquire(),
        };
        Box::pin(call.sleeping_by(sleep))
    });
    let sleeps = calls.each_mut().map(|call| {
        assert!(call.as_mut().poll(&mut context).is_pending());
        slept.take()
    });
    assert_eq!(sleeps, [10_000 * MS, 10_000 * MS, 9_000 * MS]);
    clock.advance(9_999 * MS);
    assert!(calls[0].as_mut().poll(&mut context).is_pending());
    assert_eq!(limit.limit(), 1);
    clock.advance(MS);
    // This wakes it.
    assert!(calls[0].as_mut().poll(&mut context).is_pending());
    let Poll::Ready(Ok(permit)) = calls[0].as_mut().poll(&mut context) else { panic!("one more call is let in") };
    assert!(calls[1].as_mut().poll(&mut context).is_pending());
    assert_eq!((limit.limit(), limit.in_flight()), (2, 2));
    drop((held, permit));
}

/// Errors and calls that are given up say nothing about the load, but they end.
#[test]
fn limit_is_not_raised_while_calls_end_without_an_outcome() {
    let clock = ManualClock::new();
    let limit = fallen(&clock);
    for second in 0..100 {
        let permit = limit.try_acquire().unwrap();
        assert!(limit.try_acquire().is_err(), "raised after {second} s");
        clock.advance(1_000 * MS);
        if second % 2 == 0 { permit.ignore() } else { drop(permit) }
    }
    let _held = limit.try_acquire().unwrap();
    assert!(limit.try_acquire().is_err());
    clock.advance(10_000 * MS);
    assert!(limit.try_acquire().is_err());
    assert_eq!(limit.limit(), 2, "no call has ended for 10 s");
}

/// Many calls wait and no new ones arrive. Each completion starts the next one.
#[test]
fn calls_from_the_queue_count_towards_reaching_the_limit() {
    let clock = ManualClock::new();
    let limit = limit(&clock).queue(5_000);
    let sleep = |_| std::future::pending::<()>();
    let mut context = Context::from_waker(Waker::noop());
    let mut waiting: Vec<_> = (0..5_000).map(|_| Box::pin(limit.acquire().sleeping_by(sleep))).collect();
    let mut permits = VecDeque::new();
    while !waiting.is_empty() {
        waiting.retain_mut(|call| match call.as_mut().poll(&mut context) {
            Poll::Ready(permit) => {
                permits.push_back(permit.unwrap());
                false
            }
            Poll::Pending => true,
        });
        clock.advance(10 * MS);
        permits.drain(..).for_each(BulkheadPermit::overloaded);
    }
    assert!(limit.limit() < 20, "all calls were overloaded: {limit:?}");
}

#[test]
fn permits_without_an_outcome_leave_the_limit_unchanged() {
    let clock = ManualClock::new();
    let limit = limit(&clock);
    for _ in 0..10_000 {
        let permit = limit.try_acquire().unwrap();
        clock.advance(10 * MS);
        drop(permit);
        limit.try_acquire().unwrap().ignore();
    }
    assert_eq!(limit.rule(), ProbedGradient::new(LimitBounds::DEFAULT));
    assert_eq!((limit.limit(), limit.in_flight(), limit.baseline()), (20, 0, None));
}

/// Reading Hystrix's metrics for a dashboard changed its state.
#[test]
fn reading_the_limit_leaves_its_rule_unchanged() {
    let (one, other) = (ManualClock::new(), ManualClock::new());
    let (looked_at, unseen) = (limit(&one), limit(&other));
    for _ in 0..200 {
        calls(&looked_at, &one, 30, 10 * MS, 1);
        calls(&unseen, &other, 30, 10 * MS, 1);
        let _ = (looked_at.limit(), looked_at.in_flight(), looked_at.queued(), looked_at.baseline(), looked_at.rule());
        let _ = format!("{looked_at:?}");
    }
    assert_eq!(looked_at.rule(), unseen.rule());
}

#[test]
fn overloaded_calls_lower_a_limit_that_is_reached() {
    let clock = ManualClock::new();
    let limit = limit(&clock);
    for _ in 0..40 {
        let permits: Vec<_> = std::iter::from_fn(|| limit.try_acquire().ok()).collect();
        clock.advance(100 * MS);
        for permit in permits {
            permit.record(Outcome::Overloaded);
        }
    }
    assert!(limit.limit() < 15, "{limit:?}");
}

#[test]
fn never_more_calls_in_flight_than_the_limit() {
    let clock = ManualClock::new();
    let limit = limit(&clock);
    let permits: Vec<_> = std::iter::from_fn(|| limit.try_acquire().ok()).collect();
    assert_eq!((permits.len(), limit.in_flight()), (20, 20));
    assert_eq!(limit.try_acquire().unwrap_err().to_string(), "too many calls in flight, limit 20");
    drop(permits);
    assert_eq!(limit.in_flight(), 0);
}

#[test]
fn owned_permits_outlive_their_borrow() {
    let limit = Arc::new(AdaptiveLimit::default());
    let permit = limit.try_acquire_owned().unwrap();
    let also = limit.acquire_owned().wait().unwrap();
    assert_eq!(limit.in_flight(), 2);
    std::thread::spawn(move || (permit.success(), also.overloaded())).join().unwrap();
    assert_eq!(limit.in_flight(), 0);
}

/// The windows that the rule has received.
static SEEN: Mutex<Vec<WindowSummary>> = Mutex::new(Vec::new());

/// A latency starts at the permit, so it excludes the time in the queue.
///
/// A window in which a call waited counts as full.
#[test]
fn latency_is_measured_from_the_permit() {
    #[derive(Clone, Copy, Debug)]
    struct Watching;
    impl LimitRule for Watching {
        fn first(&self) -> WindowPlan {
            WindowPlan { samples: 2, length: Duration::ZERO, ..WindowPlan::new(1) }
        }
        fn next(&mut self, window: &WindowSummary) -> WindowPlan {
            SEEN.lock().unwrap().push(*window);
            self.first()
        }
    }
    let clock = ManualClock::new();
    let limit = AdaptiveLimit::with_rule(Watching, &clock).queue(4);
    limit.try_acquire().unwrap().success();
    let first = limit.try_acquire().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| limit.acquire().wait().unwrap());
        while limit.queued() == 0 {
            std::thread::yield_now();
        }
        clock.advance(50 * MS);
        first.success();
        let second = waiting.join().unwrap();
        clock.advance(50 * MS);
        second.success();
    });
    let [window] = SEEN.lock().unwrap()[..] else { panic!("one window") };
    let latency = window.latency().unwrap();
    assert!((49 * MS..51 * MS).contains(&latency), "{latency:?}");
    assert!(window.is_full(1));
}

/// A raised limit grants a waiting call, and its waker panics.
///
/// The rule and the limit still match.
#[test]
fn rule_and_limit_stay_together_when_a_waker_panics() {
    struct Trap;
    impl Wake for Trap {
        fn wake(self: Arc<Self>) {
            panic!("the waker panics");
        }
    }
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Rising(u32);
    impl LimitRule for Rising {
        fn first(&self) -> WindowPlan {
            WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(self.0) }
        }
        fn next(&mut self, _: &WindowSummary) -> WindowPlan {
            self.0 += 1;
            self.first()
        }
    }
    let clock = ManualClock::new();
    let limit = AdaptiveLimit::with_rule(Rising(1), &clock).queue(4);
    limit.try_acquire().unwrap().success();
    let permit = limit.try_acquire().unwrap();
    let mut call = Box::pin(limit.acquire().sleeping_by(|_| std::future::pending::<()>()));
    let trap = Waker::from(Arc::new(Trap));
    assert!(call.as_mut().poll(&mut Context::from_waker(&trap)).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| permit.success())).is_err());
    assert_eq!((limit.limit(), limit.rule()), (2, Rising(2)));
    drop(call);
    assert_eq!((limit.in_flight(), limit.queued()), (0, 0));
}

/// At 0 no call would ever complete, so nothing would raise the limit again.
#[test]
fn every_rule_keeps_its_limit_above_zero() {
    #[derive(Clone, Copy, Debug)]
    struct Zero;
    impl LimitRule for Zero {
        fn first(&self) -> WindowPlan {
            WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(0) }
        }
        fn next(&mut self, _: &WindowSummary) -> WindowPlan {
            self.first()
        }
    }
    let limit = AdaptiveLimit::with_rule(Zero, ManualClock::new());
    for _ in 0..10 {
        limit.try_acquire().expect("a call may begin").success();
    }
    assert_eq!(limit.limit(), 1);
}

/// A window of AIMD has no least length: it ends after as many calls as the limit.
#[cfg(feature = "compared")]
#[test]
fn aimd_grows_on_a_clock_that_stands_still() {
    let clock = ManualClock::new();
    let limit = AdaptiveLimit::with_rule(Aimd::new(LimitBounds::DEFAULT), &clock);
    let before = limit.limit();
    for _ in 0..3 {
        let permits: Vec<_> = std::iter::from_fn(|| limit.try_acquire().ok()).collect();
        permits.into_iter().for_each(BulkheadPermit::success);
    }
    assert!(limit.limit() > before, "{before} before, {limit:?}");
}

/// Where the latency rises with the calls in flight, every rule but AIMD settles near the capacity.
#[cfg(feature = "compared")]
#[test]
fn rules_settle_near_the_capacity_of_a_service() {
    // Ten workers, 10 ms a call.
    fn settled<R: LimitRule>(rule: R) -> u32 {
        let clock = ManualClock::new();
        let limit = AdaptiveLimit::with_rule(rule, &clock);
        for _ in 0..6_000 {
            let permits: Vec<_> = std::iter::from_fn(|| limit.try_acquire().ok()).take(1_000).collect();
            clock.advance(10 * MS * (permits.len() as u32).div_ceil(10));
            permits.into_iter().for_each(BulkheadPermit::success);
        }
        limit.limit()
    }
    let bounds = LimitBounds::new(1, 1_000).unwrap();
    let limits = [settled(ProbedGradient::new(bounds)), settled(Vegas::new(bounds)), settled(Gradient2::new(bounds))];
    // A rule that probes the unloaded latency may be at half of its limit.
    assert!(limits.iter().all(|limit| (4..=40).contains(limit)), "{limits:?}");
    assert_eq!(settled(Aimd::new(bounds)), 1_000, "no call was overloaded");
}

#[test]
fn bounds_out_of_their_range_are_refused() {
    let bounds = |min, max| LimitBounds::new(min, max).unwrap_err();
    assert_eq!(bounds(0, 5).to_string(), "min is 0, it must be 1 to 1000000");
    assert_eq!(bounds(1_000_001, 5).to_string(), "min is 1000001, it must be 1 to 1000000");
    assert_eq!(bounds(6, 5).to_string(), "max is 5, it must be 6 to 1000000 (at least the lowest limit)");
    assert_eq!(bounds(1, 1_000_001).to_string(), "max is 1000001, it must be 1 to 1000000 (at least the lowest limit)");
    let start = LimitBounds::new(2, 5).unwrap().starting_at(6).unwrap_err();
    assert_eq!(start.to_string(), "start is 6, it must be 2 to 5 (the bounds)");
    assert_eq!(LimitBounds::new(30, 50).unwrap().start(), 30);
    assert_eq!(LimitBounds::new(3, 5).unwrap().start(), 5);
}

/// Under every rule the limit stays within the new bounds from then on.
// CLAIM: AdaptiveLimit
#[test]
fn changed_bounds_hold_at_once_and_later() {
    fn holds<R: BoundedRule>(rule: R) {
        let clock = ManualClock::new();
        let limit = AdaptiveLimit::with_rule(rule, &clock);
        calls(&limit, &clock, 40, 10 * MS, 5);
        for (min, max) in [(1, 5), (30, 35), (200, 300), (1, 2)] {
            limit.set_bounds(LimitBounds::new(min, max).unwrap());
            assert!(limit.limit() <= max, "{} is above {max}", limit.limit());
            calls(&limit, &clock, max + 10, 10 * MS, 20);
            assert!(limit.limit() <= max, "{} is above {max}", limit.limit());
        }
        limit.set_bounds(LimitBounds::new(400, 500).unwrap());
        calls(&limit, &clock, 10, 10 * MS, 90);
        assert!((400..=500).contains(&limit.limit()), "{}", limit.limit());
    }
    holds(ProbedGradient::new(LimitBounds::DEFAULT));
    #[cfg(feature = "compared")]
    {
        holds(Aimd::new(LimitBounds::DEFAULT));
        holds(Vegas::new(LimitBounds::DEFAULT));
        holds(Gradient2::new(LimitBounds::DEFAULT));
    }
}

#[test]
fn raised_bounds_let_queued_calls_in() {
    let limit = AdaptiveLimit::new(LimitBounds::new(1, 1).unwrap()).queue(2);
    let permit = limit.try_acquire().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| limit.acquire().wait().is_ok());
        while limit.queued() == 0 {
            std::thread::yield_now();
        }
        limit.set_bounds(LimitBounds::new(2, 3).unwrap());
        assert!(waiting.join().unwrap());
    });
    drop(permit);
}

/// A rule whose bounds are set by a function.
#[derive(Clone, Copy)]
struct SetBy(u32, fn(&mut u32));

impl LimitRule for SetBy {
    fn first(&self) -> WindowPlan {
        WindowPlan::new(self.0)
    }
    fn next(&mut self, _: &WindowSummary) -> WindowPlan {
        WindowPlan::new(self.0)
    }
}

impl BoundedRule for SetBy {
    fn set_bounds(&mut self, _: LimitBounds, _: u32) -> u32 {
        (self.1)(&mut self.0);
        self.0
    }
}

#[test]
fn rule_may_look_at_its_own_limit() {
    use std::sync::OnceLock;
    use std::sync::mpsc::channel;

    static LIMIT: OnceLock<AdaptiveLimit<SetBy>> = OnceLock::new();
    let limit = LIMIT.get_or_init(|| {
        let look = |limit: &mut u32| *limit += LIMIT.get().map_or(0, |own| own.rule().0 + own.limit());
        AdaptiveLimit::with_rule(SetBy(10, look), damper::Monotonic)
    });
    let (sender, done) = channel();
    std::thread::spawn(move || {
        limit.set_bounds(LimitBounds::DEFAULT);
        sender.send(limit.limit())
    });
    assert_eq!(done.recv_timeout(Duration::from_secs(20)), Ok(30), "it waits for itself");
}

#[test]
fn rule_that_panics_stays_as_it_was() {
    let half_way = |limit: &mut u32| {
        *limit = 99;
        panic!("half way");
    };
    let limit = AdaptiveLimit::with_rule(SetBy(10, half_way), damper::Monotonic);
    assert!(catch_unwind(AssertUnwindSafe(|| limit.set_bounds(LimitBounds::DEFAULT))).is_err());
    assert_eq!((limit.rule().0, limit.limit()), (10, 10));
}
