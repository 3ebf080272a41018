//! Retry budgets: the bound on retries, against histories and a slow model.
//!
//! `conformance/grpc_retry.rs` has gRPC's throttle.

use damper::retry::{
    Attempts, Budget, Failure, Retry, RetryBucket, RetryBudget, RetryBudgetConfig, RetryQuota, RetryThrottle,
};
use damper::{Clock, ManualClock, SetQuotaError};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(10);

/// An event of a budget: time passes, calls begin, or retries are requested.
#[derive(Clone, Copy, Debug)]
enum Event {
    Wait(u64),
    Call(u32),
    Retry(u32),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        2 => (1..4_000u64).prop_map(Event::Wait),
        1 => (4_000..30_000u64).prop_map(Event::Wait),
        4 => (1..30u32).prop_map(Event::Call),
        4 => (1..40u32).prop_map(Event::Retry),
    ];
    prop::collection::vec(event, 1..60)
}

fn ratios() -> impl Strategy<Value = f64> {
    prop::sample::select(vec![0.0, 0.05, 0.1, 0.2, 0.333, 0.6, 1.0, 1.5, 10.0])
}

fn config(ratio: f64, floor: u32, reserve: u32) -> RetryBudgetConfig {
    let builder = RetryBudgetConfig::builder().ratio(ratio).floor(floor).reserve(reserve);
    builder.ttl(TTL).build().expect("in range")
}

fn thousandths(ratio: f64) -> u64 {
    (ratio * 1_000.0).round() as u64
}

/// The times of calls and of allowed retries, in milliseconds.
#[derive(Default)]
struct History {
    calls: Vec<u64>,
    retries: Vec<u64>,
}

impl History {
    fn run(clock: &ManualClock, budget: &impl Budget, events: &[Event]) -> Self {
        let (mut history, mut now) = (Self::default(), 0);
        for event in events {
            match *event {
                Event::Wait(millis) => {
                    clock.advance(Duration::from_millis(millis));
                    now += millis;
                }
                Event::Call(calls) => {
                    for _ in 0..calls {
                        budget.began();
                        history.calls.push(now);
                    }
                }
                Event::Retry(retries) => {
                    for _ in 0..retries {
                        if budget.try_withdraw() {
                            history.retries.push(now);
                        }
                    }
                }
            }
        }
        history
    }

    /// Checks the bound on every interval between two retries.
    ///
    /// The interval includes the calls of `before` milliseconds before it.
    fn check(&self, ratio: f64, floor: u32, reserve: u32, before: u64) -> Result<(), TestCaseError> {
        // Calls are sorted by time, so bisection finds those of an interval.
        let calls_before = |at: u64| self.calls.partition_point(|&call| call < at);
        for (first, &from) in self.retries.iter().enumerate() {
            let earlier = calls_before(from.saturating_sub(before));
            for (last, &until) in self.retries.iter().enumerate().skip(first) {
                let calls = calls_before(until + 1) - earlier;
                let retries = 1_000 * (last - first + 1) as u64;
                // In thousandths, like the ratio. Tokens are refilled per tick, and one may be a tick early.
                let bound = 1_000 * u64::from(reserve)
                    + u64::from(floor) * (until - from)
                    + thousandths(ratio) * calls as u64
                    + 1;
                prop_assert!(
                    retries <= bound,
                    "{retries} thousandths of retries from {from} to {until} ms, bound {bound}"
                );
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // CLAIM: RetryBudget
    #[test]
    fn budget_stays_within_its_bound(ratio in ratios(), floor in 0..5u32, reserve in 1..20u32, events in events()) {
        let clock = ManualClock::new();
        let budget = RetryBudget::with_clock(config(ratio, floor, reserve), &clock);
        History::run(&clock, &budget, &events).check(ratio, floor, reserve, TTL.as_millis() as u64)?;
    }

    // CLAIM: RetryBudget
    #[test]
    fn bucket_stays_within_its_bound(ratio in ratios(), floor in 0..5u32, reserve in 1..20u32, events in events()) {
        let clock = ManualClock::new();
        let budget = RetryBucket::with_clock(config(ratio, floor, reserve), &clock);
        History::run(&clock, &budget, &events).check(ratio, floor, reserve, 0)?;
    }

    /// The deposits of the present and the previous slice of time can be withdrawn, to the last retry.
    #[test]
    fn budget_allows_all_deposits(ratio in ratios(), events in events()) {
        let clock = ManualClock::new();
        let budget = RetryBudget::with_clock(config(ratio, 0, 0), &clock);
        let thousandths = thousandths(ratio);
        // Deposits by slice, in thousandths of a retry.
        let (mut now, mut slice, mut previous, mut current) = (clock.now() / 1_000_000, 0, 0u64, 0u64);
        for event in events {
            if let Event::Wait(millis) = event {
                clock.advance(Duration::from_millis(millis));
                now += millis;
            }
            let present = now / 5_000;
            (previous, current) = match present - slice {
                0 => (previous, current),
                1 => (current, 0),
                _ => (0, 0),
            };
            slice = present;
            match event {
                Event::Wait(_) => {}
                Event::Call(calls) => (0..calls).for_each(|_| {
                    budget.began();
                    current += thousandths;
                }),
                Event::Retry(retries) => for _ in 0..retries {
                    let is_allowed = previous + current >= 1_000;
                    prop_assert_eq!(budget.try_withdraw(), is_allowed);
                    if is_allowed {
                        let of_previous = previous.min(1_000);
                        previous -= of_previous;
                        current -= 1_000 - of_previous;
                    }
                },
            }
        }
    }
}

/// Fractions of a retry per call add up to whole retries, to the last call.
#[test]
fn bucket_allows_all_deposits() {
    for (ratio, calls, retries) in [(0.1, 10, 1), (0.6, 5, 3), (0.333, 1_000, 333), (1.0, 7, 7), (10.0, 3, 30)] {
        for floor in [0, 10] {
            let clock = ManualClock::new();
            let budget = RetryBucket::with_clock(config(ratio, floor, 400), &clock);
            assert_eq!((0..500).filter(|_| budget.try_withdraw()).count(), 400);
            (0..calls).for_each(|_| budget.began());
            assert_eq!((0..500).filter(|_| budget.try_withdraw()).count(), retries, "{calls} calls, {ratio} each");
        }
    }
}

/// Forty thousand calls without a failure fill a slice, and no more.
#[test]
fn deposits_saturate() {
    const UNITS: usize = (1 << 25) - 1;
    let clock = ManualClock::new();
    let budget = RetryBudget::with_clock(config(99.8, 0, 0), &clock);
    (0..40_000).for_each(|_| budget.began());
    assert_eq!((0..UNITS).take_while(|_| budget.try_withdraw()).count(), UNITS / 1_000);
}

#[test]
fn idle_year_saves_only_the_reserve() {
    let clock = ManualClock::new();
    let budget = RetryBudget::with_clock(config(0.2, 10, 100), &clock);
    (0..1_000).for_each(|_| budget.began());
    clock.advance(Duration::from_secs(365 * 24 * 60 * 60));
    assert_eq!((0..1_000).take_while(|_| budget.try_withdraw()).count(), 100);
}

/// A deposit expires after at least half a ttl, and at most a whole one.
#[test]
fn deposits_are_gone_after_a_ttl() {
    for (wait, expected) in [(4_999, true), (9_999, true), (10_000, false), (60_000, false)] {
        let clock = ManualClock::new();
        let budget = RetryBudget::with_clock(config(1.0, 0, 0), &clock);
        budget.began();
        clock.advance(Duration::from_millis(wait));
        assert_eq!(budget.try_withdraw(), expected, "after {wait} ms");
    }
}

/// A thread's clock is ahead of another's by less than a slice.
///
/// The thread behind does not drop its deposits.
#[test]
fn reading_behind_another_keeps_deposits() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_millis(5_001));
    let budget = RetryBudget::with_clock(config(1.0, 0, 0), &clock);
    budget.began();
    clock.step_back(Duration::from_millis(10));
    budget.began();
    assert!(budget.try_withdraw() && budget.try_withdraw() && !budget.try_withdraw());
}

/// A thread reads the clock and is then descheduled, so it is several slices behind.
#[test]
fn reading_far_behind_another_keeps_deposits() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(60));
    let budget = RetryBudget::with_clock(config(1.0, 0, 0), &clock);
    (0..2).for_each(|_| budget.began());
    clock.step_back(Duration::from_secs(59));
    budget.began();
    clock.advance(Duration::from_secs(59));
    assert_eq!((0..5).filter(|_| budget.try_withdraw()).count(), 3);
}

#[cfg(feature = "alloc")]
#[test]
fn references_and_arcs_are_the_same_budget() {
    let clock = ManualClock::new();
    let budget = std::sync::Arc::new(RetryBudget::with_clock(config(0.0, 0, 2), &clock));
    let shared: &dyn Budget = &budget;
    assert!(shared.try_withdraw() && budget.clone().try_withdraw() && !budget.try_withdraw());
}

#[test]
fn settings_out_of_range_are_refused() {
    let build = |change: fn(damper::retry::RetryBudgetConfigBuilder) -> damper::retry::RetryBudgetConfigBuilder| {
        change(RetryBudgetConfig::builder()).build()
    };
    for (ratio, message) in
        [(100.5, "ratio is 100.5, it must be 0.0 to 100.0"), (f64::NAN, "ratio is NaN, it must be 0.0 to 100.0")]
    {
        let error = RetryBudgetConfig::builder().ratio(ratio).build().unwrap_err();
        assert_eq!((error.setting(), error.to_string().as_str()), ("ratio", message));
    }
    assert_eq!(
        build(|builder| builder.ttl(Duration::from_micros(999))).unwrap_err().to_string(),
        "ttl is 999 µs, it must be 1 ms to 1 day",
    );
    assert_eq!(
        build(|builder| builder.reserve(0)).unwrap_err().to_string(),
        "reserve is 0, it must be at least 1 where there is a floor",
    );
    assert_eq!(RetryThrottle::new(1_001, 0.1).unwrap_err().to_string(), "max_tokens is 1001, it must be 1 to 1000");
    assert_eq!(RetryThrottle::new(0, 0.1).unwrap_err().to_string(), "max_tokens is 0, it must be 1 to 1000");
    assert_eq!(RetryThrottle::new(10, -0.1).unwrap_err().setting(), "ratio");
}

/// Deposits from before the change are in thousandths of a retry, whatever the ratio.
#[test]
fn deposits_outlive_a_change_of_the_ratio() {
    let clock = ManualClock::new();
    let budget = RetryBudget::with_clock(config(0.5, 0, 0), &clock);
    (0..3).for_each(|_| budget.began());
    budget.set_config(config(0.1, 0, 0)).unwrap();
    (0..5).for_each(|_| budget.began());
    assert_eq!((0..10).filter(|_| budget.try_withdraw()).count(), 2);
    (0..10).for_each(|_| budget.began());
    assert_eq!((0..10).filter(|_| budget.try_withdraw()).count(), 1);
}

#[test]
fn change_of_the_reserve_and_the_floor_applies_at_once() {
    let clock = ManualClock::new();
    let budget = RetryBudget::with_clock(config(0.0, 0, 10), &clock);
    budget.set_config(config(0.0, 2, 3)).unwrap();
    assert_eq!((0..20).take_while(|_| budget.try_withdraw()).count(), 3);
    clock.advance(Duration::from_secs(1));
    assert_eq!((0..20).take_while(|_| budget.try_withdraw()).count(), 2);
}

/// A ttl of another length gives the slices of time other numbers.
#[test]
fn deposits_outlive_a_change_of_the_ttl() {
    for (at, ttl) in [(60, 20), (60, 5), (600, 20), (600, 9), (86_400, 3_600)] {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(at));
        let budget = RetryBudget::with_clock(of_ttl(10), &clock);
        (0..10).for_each(|_| budget.began());
        budget.set_config(of_ttl(ttl)).unwrap();
        assert_eq!((0..20).filter(|_| budget.try_withdraw()).count(), 10, "{ttl} s after {at} s");
    }
}

/// The number of a slice of the old ttl may be that of a later slice of the new one.
#[test]
fn deposits_expire_by_the_new_ttl_after_a_change() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(60));
    let budget = RetryBudget::with_clock(of_ttl(10), &clock);
    budget.began();
    budget.set_config(of_ttl(20)).unwrap();
    for _ in 0..70 {
        clock.advance(Duration::from_secs(1));
        budget.began();
    }
    assert_eq!((0..100).filter(|_| budget.try_withdraw()).count(), 11, "of the last slices");

    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(60));
    let budget = RetryBudget::with_clock(of_ttl(10), &clock);
    budget.began();
    clock.advance(Duration::from_secs(12 * 3_600));
    budget.set_config(of_ttl(7_200)).unwrap();
    assert!(!budget.try_withdraw(), "it is twelve hours old");
}

fn of_ttl(seconds: u64) -> RetryBudgetConfig {
    let builder = RetryBudgetConfig::builder().ratio(1.0).floor(0).reserve(0);
    builder.ttl(Duration::from_secs(seconds)).build().expect("in range")
}

std::thread_local! {
    static MEDDLES: Cell<bool> = const { Cell::new(false) };
    static REFUSALS: RefCell<Vec<Result<(), SetQuotaError>>> = const { RefCell::new(Vec::new()) };
    static BUDGET: RetryBudget<Meddler> = RetryBudget::with_clock(of_ttl(10), Meddler);
}

/// A clock that changes the ttl of `BUDGET` whenever it is read, as another thread might.
#[derive(Debug)]
struct Meddler;

impl Clock for Meddler {
    fn now(&self) -> u64 {
        if MEDDLES.take() {
            let refusal = BUDGET.with(|budget| budget.set_config(of_ttl(20)));
            REFUSALS.with_borrow_mut(|refusals| refusals.push(refusal));
            MEDDLES.set(true);
        }
        60_000_000_000
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

#[test]
fn one_thread_at_a_time_changes_a_budget() {
    BUDGET.with(|budget| {
        (0..10).for_each(|_| budget.began());
        MEDDLES.set(true);
        budget.set_config(of_ttl(5)).unwrap();
        MEDDLES.set(false);
        let refusals = REFUSALS.take();
        assert!(!refusals.is_empty());
        assert!(refusals.iter().all(|refusal| *refusal == Err(SetQuotaError::Busy)), "{refusals:?}");
        budget.set_config(of_ttl(20)).unwrap();
        assert_eq!((0..20).filter(|_| budget.try_withdraw()).count(), 10);
    });
}

/// The retries between two changes stay within the deposits.
#[test]
fn change_of_the_ttl_mints_no_retries() {
    let clock = ManualClock::new();
    let ttl = |millis| {
        let builder = RetryBudgetConfig::builder().ratio(0.5).floor(0).reserve(0);
        builder.ttl(Duration::from_millis(millis)).build().expect("in range")
    };
    let budget = RetryBudget::with_clock(ttl(10_000), &clock);
    for (round, millis) in [1, 86_400_000, 700, 10_000, 3].into_iter().enumerate() {
        (0..10).for_each(|_| budget.began());
        budget.set_config(ttl(millis)).unwrap();
        let retries = (0..100).filter(|_| budget.try_withdraw()).count();
        assert!(retries <= 5, "{retries} retries for ten calls in round {round}");
        clock.advance(Duration::from_millis(37));
    }
}

/// Draws the failures of each call, and the turns that calls in flight get before the next one begins.
fn calls() -> impl Strategy<Value = Vec<(usize, Vec<Failure>)>> {
    let failure = prop_oneof![
        4 => Just(Failure::TRANSIENT),
        3 => Just(Failure::THROTTLED),
        1 => Just(Failure::TRANSIENT.unprocessed()),
        1 => Just(Failure::TRANSIENT.transparent()),
        1 => Just(Failure::FATAL),
        1 => Just(Failure::THROTTLED.declined()),
    ];
    prop::collection::vec((0..4usize, prop::collection::vec(failure, 0..4)), 1..60)
}

/// A call in flight, and the failures that it still meets.
struct Call<'a> {
    attempts: Attempts<&'a ManualClock>,
    failures: Vec<Failure>,
    cost: Option<u32>,
    was_free: bool,
    was_unseen: bool,
}

proptest! {
    /// The tokens of a retry come back with its success, and a success at once adds one. Calls overlap.
    #[test]
    fn quota_follows_the_rule_of_aws(
        capacity in 1..60u32,
        transient in 0..12u32,
        throttled in 0..12u32,
        calls in calls(),
    ) {
        let clock = ManualClock::new();
        let quota = RetryQuota::new(capacity).unwrap().costs(transient, throttled).unwrap();
        let retry = Retry::with_clock(9, &clock, 1).budget(&quota);
        let mut tokens = capacity;
        let mut in_flight: Vec<Call<'_>> = Vec::new();
        for (turns, mut failures) in calls {
            failures.reverse();
            in_flight.push(Call { attempts: retry.begin(), failures, cost: None, was_free: false, was_unseen: false });
            for turn in 0..turns {
                let which = turn % in_flight.len().max(1);
                let Some(call) = in_flight.get_mut(which) else { continue };
                let Some(failure) = call.failures.pop() else {
                    call.attempts.succeeded(&retry);
                    tokens = capacity.min(tokens + call.cost.unwrap_or(1));
                    in_flight.remove(which);
                    continue;
                };
                let may_retry = failure != Failure::FATAL && failure != Failure::THROTTLED.declined();
                // The first retry of a call that no server processed is free, and so is the first that no server saw.
                let is_unseen = failure == Failure::TRANSIENT.transparent();
                let is_unprocessed = is_unseen || failure == Failure::TRANSIENT.unprocessed();
                let is_free = is_unseen && !call.was_unseen || is_unprocessed && !call.was_free;
                let cost = if failure == Failure::THROTTLED { throttled } else { transient };
                let is_allowed = may_retry && (is_free || cost <= tokens);
                prop_assert_eq!(call.attempts.failed(&retry, failure).is_ok(), is_allowed);
                if !is_allowed {
                    in_flight.remove(which);
                } else if is_free {
                    (call.cost, call.was_free) = (None, true);
                    call.was_unseen |= is_unseen;
                } else {
                    tokens -= cost;
                    call.cost = Some(cost);
                }
                prop_assert_eq!(quota.tokens(), tokens);
            }
        }
        prop_assert_eq!(quota.tokens(), tokens);
    }
}

#[test]
fn quota_out_of_range_is_refused() {
    let message = |quota: Result<RetryQuota, damper::OutOfRange>| quota.unwrap_err().to_string();
    assert_eq!(message(RetryQuota::new(0)), "capacity is 0, it must be 1 to 1000000");
    let costs = |transient, throttled| message(RetryQuota::new(9).unwrap().costs(transient, throttled));
    assert_eq!(costs(1_000_001, 0), "transient cost is 1000001, it must be at most 1000000");
    assert_eq!(costs(0, 1_000_001), "throttled cost is 1000001, it must be at most 1000000");
    assert_eq!(RetryQuota::new(9).unwrap().costs(0, 5).unwrap().retries_left(), u32::MAX);
    assert_eq!(RetryQuota::standard().retries_left(), 100);
}

/// A hedge costs what a retry after a transient failure costs.
#[test]
fn extra_attempt_takes_the_tokens_of_a_transient_failure() {
    let quota = RetryQuota::new(20).unwrap().costs(8, 3).unwrap();
    assert!(quota.try_withdraw());
    assert_eq!(quota.tokens(), 12);
    assert!(quota.try_withdraw());
    assert!(!quota.try_withdraw(), "4 tokens are left");
    assert!(quota.try_withdraw_after(Failure::THROTTLED), "which costs 3");
}
