//! Tests of the measurement, call by call.

use super::*;
use crate::concurrency::LimitBounds;
use crate::time::ManualClock;
use core::cell::{Cell, RefCell};
use std::boxed::Box;
use std::vec::Vec;

#[derive(Debug, Default)]
struct Calls {
    in_flight: Cell<u32>,
    limits: RefCell<Vec<u32>>,
}

impl Gate for Calls {
    fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }
    fn set_limit(&self, limit: u32) {
        self.limits.borrow_mut().push(limit);
    }
}

std::thread_local! {
    static SEEN: RefCell<Vec<WindowSummary>> = const { RefCell::new(Vec::new()) };
}

/// Plans the same window again and again, and keeps its summaries in `SEEN`.
#[derive(Clone, Copy, Debug)]
struct Same(WindowPlan);

impl LimitRule for Same {
    fn first(&self) -> WindowPlan {
        self.0
    }
    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        SEEN.with_borrow_mut(|seen| seen.push(*window));
        self.0
    }
}

/// A plan of 50 calls and half a second.
fn plan() -> WindowPlan {
    WindowPlan { samples: 50, ..WindowPlan::new(20) }
}

fn sampler(plan: WindowPlan) -> (Sampler<Same>, ManualClock, Calls) {
    SEEN.with_borrow_mut(Vec::clear);
    (Sampler::new(Same(plan), plan), ManualClock::new(), Calls::default())
}

const MS: Duration = Duration::from_millis(1);

/// Makes `count` calls of this latency, one after another.
fn calls(count: u32, latency: Duration, (sampler, clock, gate): &(Sampler<Same>, ManualClock, Calls)) {
    for _ in 0..count {
        let began = clock.now();
        clock.advance(latency);
        sampler.succeeded(began, clock, gate);
    }
}

fn seen() -> Vec<WindowSummary> {
    SEEN.take()
}

#[test]
fn a_window_has_its_calls_and_its_length() {
    let all = sampler(plan());
    // The first begins the window.
    calls(1 + 49, 40 * MS, &all);
    assert_eq!(seen(), []);
    calls(1, 40 * MS, &all);
    let [window] = seen()[..] else { panic!("one") };
    assert_eq!((window.successes, window.overloaded, window.length), (50, 0, 2_000 * MS));
    let latency = window.latency().unwrap().as_secs_f64();
    assert!((latency / 0.04 - 1.0).abs() < 0.006, "{latency}");

    // Fast calls: half a second passes first.
    calls(499, MS, &all);
    assert_eq!(seen(), []);
    calls(1, MS, &all);
    assert_eq!(seen()[0].successes, 500);
    assert_eq!(*all.2.limits.borrow(), [20, 20]);
}

#[test]
fn overloaded_calls_count_as_calls_that_have_ended() {
    let all = sampler(plan());
    calls(1 + 40, 20 * MS, &all);
    for _ in 0..10 {
        assert_eq!(seen(), []);
        all.1.advance(20 * MS);
        all.0.overloaded(&all.1, &all.2);
    }
    assert_eq!((seen()[0].successes, seen().len()), (40, 0));
}

#[test]
fn skipped_calls_are_not_in_a_window() {
    let all = sampler(WindowPlan { skip: 7, ..plan() });
    calls(7, 900 * MS, &all);
    calls(50, 10 * MS, &all);
    let [window] = seen()[..] else { panic!("one") };
    assert_eq!((window.successes, window.length), (50, 500 * MS));
    calls(7, 900 * MS, &all);
    calls(50, 10 * MS, &all);
    let [window] = seen()[..] else { panic!("one") };
    assert_eq!((window.successes, window.length, window.since_plan), (50, 500 * MS, 6_800 * MS));
}

#[test]
fn a_peak_is_that_of_its_window() {
    let all = sampler(plan());
    calls(1, 10 * MS, &all);
    all.0.saw(9);
    all.0.saw(3);
    all.2.in_flight.set(4);
    calls(50, 10 * MS, &all);
    calls(25, 10 * MS, &all);
    all.0.saw(6);
    calls(25, 10 * MS, &all);
    let peaks: Vec<_> = seen().iter().map(|window| (window.peak_in_flight, window.in_flight)).collect();
    assert_eq!(peaks, [(9, 4), (6, 4)]);
    calls(50, 10 * MS, &all);
    assert_eq!(seen()[0].peak_in_flight, 4, "those in flight when it began");
    all.0.saw(u32::MAX);
    calls(50, 10 * MS, &all);
    assert_eq!(seen()[0].peak_in_flight, PEAK.max() as u32);
}

#[test]
fn patience_ends_a_window_that_is_not_full() {
    let all = sampler(WindowPlan { unless_full: Some(60 * 1_000 * MS), ..plan() });
    all.0.saw(20);
    calls(1, MS, &all);
    all.0.saw(20);
    calls(8, 9_000 * MS, &all);
    assert_eq!(seen(), [], "it is full");
    let all = sampler(all.0.rule().0);
    all.0.saw(20);
    calls(1, MS, &all);
    calls(6, 9_000 * MS, &all);
    assert_eq!(seen(), []);
    calls(1, 9_000 * MS, &all);
    assert_eq!((seen()[0].successes, seen().len()), (7, 0));
}

/// After a refusal the time of `unless_full` starts over.
///
/// Otherwise callers that filled the limit once and went away would hold it at half for as long as the window takes.
#[test]
fn patience_begins_anew_after_a_refusal() {
    let all = sampler(WindowPlan { unless_full: Some(60 * 1_000 * MS), ..plan() });
    calls(1, MS, &all);
    all.0.saw(20);
    calls(7, 9_000 * MS, &all);
    assert_eq!(seen(), [], "a call was refused in this minute");
    calls(6, 9_000 * MS, &all);
    assert_eq!(seen(), []);
    calls(1, 9_000 * MS, &all);
    let [window] = seen()[..] else { panic!("none was refused in the minute after") };
    assert_eq!((window.successes, window.peak_in_flight), (14, 20));
}

/// Calls that hold their slots for long may fill a limit that fell.
#[test]
fn one_more_call_is_let_in_if_calls_are_refused_and_none_ends() {
    SEEN.with_borrow_mut(Vec::clear);
    // The limit falls from 14 to 10 at the end of the first window.
    let (rule, first) = (Same(WindowPlan::new(10)), WindowPlan { limit: 14, ..plan() });
    let all = (Sampler::new(rule, first), ManualClock::new(), Calls::default());
    calls(1 + 50, 10 * MS, &all);
    // Twelve, without the one that has just ended.
    all.2.in_flight.set(11);
    let limits_after = |seconds: u32| {
        for _ in 0..seconds {
            all.0.refused(10, &all.1, &all.2);
            all.1.advance(1_000 * MS);
        }
        all.2.limits.take()
    };
    assert_eq!(limits_after(10), [10]);
    calls(1, MS, &all);
    assert_eq!(limits_after(10), [], "a call has ended");
    assert_eq!(limits_after(10), [13], "no call has ended for 10 s");
    all.2.in_flight.set(12);
    assert_eq!(limits_after(10), [14]);
    all.2.in_flight.set(13);
    assert_eq!(limits_after(10), [14], "no more than the highest limit");
    all.1.step_back(3_600_000 * MS);
    assert_eq!(limits_after(3), [], "the clock has stepped back");
    all.1.advance(3_600_000 * MS);
    all.0.set_bounds(LimitBounds::new(1, 12).unwrap(), &all.2);
    assert_eq!(limits_after(1), [10, 12], "the highest limit is in the bounds");
    calls(99, 10 * MS, &all);
    assert_eq!(all.2.limits.take(), [10], "until the next plan");
    all.1.advance(3_600_000 * MS);
    assert_eq!(limits_after(1), [], "no call was refused in this hour");
}

#[test]
fn calls_that_were_to_be_skipped_are_not_in_a_window_that_ends_by_patience() {
    let all = sampler(WindowPlan { skip: 500, unless_full: Some(60 * 1_000 * MS), ..plan() });
    // Of the first plan these begin the first window, and end it.
    calls(500, MS, &all);
    calls(500, MS, &all);
    assert_eq!(seen().len(), 1);
    calls(200, 310 * MS, &all);
    let [window] = seen()[..] else { panic!("one") };
    assert_eq!((window.successes, window.log2_latency, window.length), (0, None, Duration::ZERO));
}

#[test]
fn clocks_that_step_back_and_long_pauses_end_a_window() {
    let all = sampler(plan());
    all.1.advance(Duration::from_secs(1_000_000));
    calls(1, MS, &all);
    all.1.step_back(Duration::from_secs(500_000));
    calls(50, MS, &all);
    assert_eq!((seen().len(), seen().len()), (1, 0));
    for pause in [1u64 << 43, 1 << 44, 1 << 63, (1 << 43) - 1, (1 << 43) - 100_000_000, u64::MAX] {
        all.1.advance_ticks(pause);
        calls(502, MS, &all);
        assert!(!seen().is_empty(), "after {pause} ticks");
    }
}

/// A clock that another thread has read a little earlier.
struct Late<'a>(&'a ManualClock, Cell<u64>);

impl Clock for Late<'_> {
    fn now(&self) -> u64 {
        self.0.now() - self.1.take()
    }
    fn frequency(&self) -> u64 {
        self.0.frequency()
    }
}

#[test]
fn a_time_read_before_the_window_began_does_not_end_it() {
    let all = sampler(plan());
    all.1.advance(Duration::from_secs(10));
    calls(1 + 50, 10 * MS, &all);
    assert_eq!(seen().len(), 1);
    calls(49, MS, &all);
    // This thread read the clock before that window began, and resumes now.
    all.0.succeeded(all.1.now(), &Late(&all.1, Cell::new(100_000_000)), &all.2);
    assert_eq!(seen(), []);
    calls(451, MS, &all);
    assert_eq!(seen()[0].length, 500 * MS);
}

/// As [`Clock::max_step_back`] allows.
#[test]
fn a_clock_that_steps_back_as_it_may_ends_no_window() {
    struct Skewed<'a>(&'a ManualClock);
    impl Clock for Skewed<'_> {
        fn now(&self) -> u64 {
            self.0.now()
        }
        fn frequency(&self) -> u64 {
            self.0.frequency()
        }
        fn max_step_back(&self) -> u64 {
            1_000_000
        }
    }
    let (sampler, clock, gate) = sampler(plan());
    clock.advance(Duration::from_secs(10));
    let skewed = Skewed(&clock);
    for _ in 0..51 {
        clock.advance(10 * MS);
        sampler.succeeded(skewed.now(), &skewed, &gate);
    }
    assert_eq!(seen().len(), 1);
    clock.step_back(MS);
    for _ in 0..60 {
        sampler.succeeded(skewed.now(), &skewed, &gate);
    }
    assert_eq!(seen(), []);
    clock.advance(501 * MS);
    sampler.succeeded(skewed.now(), &skewed, &gate);
    assert_eq!(seen().len(), 1);
}

#[test]
fn a_clock_that_stands_still_has_windows_of_calls() {
    let plan = plan();
    let all = (Sampler::new(Same(plan), plan), ManualClock::with_frequency(0), Calls::default());
    SEEN.with_borrow_mut(Vec::clear);
    calls(151, MS, &all);
    assert_eq!(seen().len(), 3);
}

#[test]
fn a_bank_that_is_half_full_ends_its_window() {
    let all = sampler(plan());
    calls(1, MS, &all);
    let header = all.0.header.load(Ordering::Relaxed);
    all.0.bank(header).successes.store(HALF_FULL | (LOG2_SUM.max() - (1 << 20)), Ordering::Relaxed);
    calls(1, MS, &all);
    assert_eq!(seen()[0].successes, (1 << 23) + 1);

    // Also that of a rule that wants more calls than a bank counts.
    let all = sampler(WindowPlan { samples: u32::MAX, ..plan() });
    calls(1, MS, &all);
    let header = all.0.header.load(Ordering::Relaxed);
    all.0.bank(header).successes.store(HALF_FULL, Ordering::Relaxed);
    calls(1, MS, &all);
    assert_eq!(seen().len(), 1);
}

#[test]
fn a_rule_that_panics_leaves_the_measurement_whole() {
    #[derive(Clone, Copy, Debug)]
    struct Panics;
    impl LimitRule for Panics {
        fn first(&self) -> WindowPlan {
            plan()
        }
        fn next(&mut self, _: &WindowSummary) -> WindowPlan {
            std::panic!("a rule's")
        }
    }
    let (sampler, clock, gate) = (Sampler::new(Panics, Panics.first()), ManualClock::new(), Calls::default());
    let mut panics = 0;
    for _ in 0..151 {
        let began = clock.now();
        clock.advance(10 * MS);
        let call = core::panic::AssertUnwindSafe(|| sampler.succeeded(began, &clock, &gate));
        panics += u32::from(std::panic::catch_unwind(call).is_err());
    }
    assert_eq!(panics, 3, "one a window");
}

#[test]
fn default_rule_starts_as_constants_do() {
    let rule = super::super::ProbedGradient::new(LimitBounds::DEFAULT);
    assert_eq!(rule.first(), rule.first_plan());
}

/// The limit is brought into the bounds; the plan stays as it was.
impl BoundedRule for Same {
    fn set_bounds(&mut self, bounds: LimitBounds, limit: u32) -> u32 {
        self.0.limit = limit.clamp(bounds.min(), bounds.max());
        self.0.limit
    }
}

#[test]
fn window_begins_anew_after_bounds_that_change_the_limit() {
    let all = sampler(plan());
    calls(1 + 40, 100 * MS, &all);
    all.2.in_flight.set(3);
    all.0.set_bounds(LimitBounds::new(1, 5).unwrap(), &all.2);
    calls(3, 100 * MS, &all);
    calls(50, 10 * MS, &all);
    let [window] = seen()[..] else { panic!("one") };
    assert_eq!((window.successes, window.length), (50, 500 * MS));
}

#[test]
fn window_goes_on_after_bounds_that_leave_the_limit() {
    let all = sampler(plan());
    calls(1 + 40, 100 * MS, &all);
    all.2.in_flight.set(3);
    all.0.set_bounds(LimitBounds::new(1, 50).unwrap(), &all.2);
    calls(10, 10 * MS, &all);
    assert_eq!(seen()[0].successes, 50);
}

/// The calls in flight end in it, and began under the previous limit.
#[test]
fn calls_in_flight_are_skipped_by_bounds_that_are_set_while_a_window_ends() {
    type Act = RefCell<Option<Box<dyn FnOnce()>>>;
    /// Sets the bounds while it plans the second window.
    #[derive(Clone, Copy)]
    struct Meanwhile(Same, &'static std::thread::LocalKey<Act>);
    impl LimitRule for Meanwhile {
        fn first(&self) -> WindowPlan {
            self.0.first()
        }
        fn next(&mut self, window: &WindowSummary) -> WindowPlan {
            if let Some(act) = self.1.take() {
                act();
            }
            self.0.next(window)
        }
    }
    impl BoundedRule for Meanwhile {
        fn set_bounds(&mut self, bounds: LimitBounds, limit: u32) -> u32 {
            self.0.set_bounds(bounds, limit)
        }
    }
    std::thread_local! {
        static ACT: Act = const { RefCell::new(None) };
    }
    SEEN.with_borrow_mut(Vec::clear);
    let (clock, gate) = (ManualClock::new(), std::rc::Rc::new(Calls::default()));
    let sampler = std::rc::Rc::new(Sampler::new(Meanwhile(Same(plan()), &ACT), plan()));
    gate.in_flight.set(3);
    ACT.set(Some({
        let (sampler, gate) = (std::rc::Rc::clone(&sampler), std::rc::Rc::clone(&gate));
        Box::new(move || sampler.set_bounds(LimitBounds::new(1, 5).unwrap(), &*gate))
    }));
    for (count, latency) in [(1 + 50, 100 * MS), (3, 100 * MS), (50, 10 * MS)] {
        for _ in 0..count {
            let began = clock.now();
            clock.advance(latency);
            sampler.succeeded(began, &clock, &*gate);
        }
    }
    let windows: Vec<_> = seen().iter().map(|window| (window.successes, window.length)).collect();
    assert_eq!(windows, [(50, 5_000 * MS), (50, 500 * MS)]);
    assert_eq!(gate.limits.borrow().last(), Some(&5));
}

/// A clock of 10 ms. Calls of 1 to 5 ms mostly take no tick.
#[test]
fn call_without_a_tick_counts_as_half_of_the_least_latency() {
    let micros = |window: &WindowSummary| window.latency().unwrap().as_secs_f64() * 1e6;
    let is_close = |one: f64, other: f64| (one / other - 1.0).abs() < 0.01;
    let all = sampler(plan());
    // The first begins the window. A nanosecond each, as long as nothing else is known.
    calls(1 + 50, Duration::ZERO, &all);
    all.1.advance(500 * MS);
    calls(1, 30 * MS, &all);
    // All but one of 51 calls count as one nanosecond.
    assert!(micros(&seen()[0]) < 0.002);
    // 40 ms do not raise the least.
    calls(25, 40 * MS, &all);
    calls(25, Duration::ZERO, &all);
    let window = seen()[0];
    assert!(is_close(micros(&window), (40_000.0_f64 * 15_000.0).sqrt()), "{window:?}");
    calls(1, 10 * MS, &all);
    calls(49, Duration::ZERO, &all);
    all.1.advance(500 * MS);
    calls(1, 10 * MS, &all);
    let window = seen()[0];
    assert!(is_close(micros(&window), 10_000.0 * 0.5_f64.powf(49.0 / 51.0)), "{window:?}");
}

/// Half of one tick is below the logarithm of a tick, which is 0.
#[test]
fn half_of_a_single_tick_counts() {
    #[derive(Debug)]
    struct HundredHertz(ManualClock);
    impl Clock for HundredHertz {
        fn now(&self) -> u64 {
            self.0.now() / 10_000_000
        }
        fn frequency(&self) -> u64 {
            100
        }
    }
    SEEN.with_borrow_mut(Vec::clear);
    let (sampler, clock) = (Sampler::new(Same(plan()), plan()), HundredHertz(ManualClock::new()));
    let gate = Calls::default();
    for _ in 0..2 {
        for ticks in (0..50).map(|call| u64::from(call % 2 == 0)) {
            let began = clock.now();
            clock.0.advance(MS * 10 * u32::try_from(ticks).unwrap());
            sampler.succeeded(began, &clock, &gate);
        }
        clock.0.advance(500 * MS);
    }
    sampler.succeeded(clock.now(), &clock, &gate);
    let latency = seen()[0].latency().unwrap().as_secs_f64();
    assert!((latency / 0.01 / 0.5_f64.sqrt() - 1.0).abs() < 0.03, "the mean of 10 and 5 ms: {latency}");
}
