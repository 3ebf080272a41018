//! Retry budgets and hedges: deposits and withdrawals on several threads, while time passes.
#![cfg(shuttle)]

use damper_core::Clock;
use damper_core::retry::{Budget, Hedge, HedgeConfig, RetryBucket, RetryBudget, RetryBudgetConfig, RetryThrottle};
use damper_shuttle_tests::{Time, advance, check, check_flawed, random, time, timed, together};
use std::cell::Cell;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// For how long a deposit can be withdrawn, at most.
const TTL: Duration = Duration::from_secs(4);

/// Retries per call, in thousandths.
const RATIOS: [u64; 5] = [0, 100, 600, 1_000, 10_000];

/// A budget beside its history. The lock is held for no step of a model, so it adds none.
struct Calls<B> {
    budget: B,
    time: Time,
    /// Between which readings of the clock calls began, and retries were allowed.
    began: Mutex<Vec<[u64; 2]>>,
    retries: Mutex<Vec<[u64; 2]>>,
}

/// The promises of the settings.
#[derive(Clone, Copy)]
struct Promise {
    /// In thousandths, as the ratio is.
    ratio: u64,
    floor: u64,
    reserve: u64,
    /// For how long before an interval calls count, in nanoseconds.
    before: u64,
}

impl Promise {
    /// Of a random ratio, floor and reserve.
    fn random(before: Duration) -> Self {
        let floor = random(3);
        let reserve = floor.min(1) + random(3);
        Self { ratio: ratio(), floor, reserve, before: before.as_nanos() as u64 }
    }

    fn config(self) -> RetryBudgetConfig {
        let ratio = self.ratio as f64 / 1_000.0;
        let builder = RetryBudgetConfig::builder().ratio(ratio).floor(self.floor as u32).reserve(self.reserve as u32);
        builder.ttl(TTL).build().unwrap()
    }
}

fn ratio() -> u64 {
    RATIOS[random(RATIOS.len() as u64) as usize]
}

impl<B: Budget> Calls<B> {
    fn new(time: &Time, budget: B) -> Arc<Self> {
        Arc::new(Self { budget, time: Arc::clone(time), began: Mutex::default(), retries: Mutex::default() })
    }

    fn call(&self) {
        let (between, ()) = timed(&self.time, || self.budget.began());
        self.began.lock().unwrap().push(between);
    }

    fn retry(&self) -> bool {
        let (between, is_allowed) = timed(&self.time, || self.budget.try_withdraw());
        if is_allowed {
            self.retries.lock().unwrap().push(between);
        }
        is_allowed
    }

    /// Some calls, or some retries.
    fn calls_or_retries(&self) {
        let times = 1 + random(4);
        match random(2) {
            0 => (0..times).for_each(|_| self.call()),
            _ => (0..times).for_each(|_| _ = self.retry()),
        }
    }

    /// The bound of retries holds in any interval of readings.
    ///
    /// They are no more than the reserve, the tokens of the floor in the interval and one tick, and the ratio's part of
    /// the calls that may have begun in the interval or the time to live before it.
    fn keeps_to(&self, promise: Promise) {
        let (began, retries) = (self.began.lock().unwrap(), self.retries.lock().unwrap());
        for &[from, _] in retries.iter() {
            for &[_, to] in retries.iter().filter(|[_, to]| *to >= from) {
                let allowed = retries.iter().filter(|[begun, done]| *begun >= from && *done <= to).count() as u64;
                let since = from.saturating_sub(promise.before);
                let calls = began.iter().filter(|[begun, done]| *done >= since && *begun <= to).count() as u64;
                // In thousandths.
                let floor = (promise.floor * 1_000 * (to - from + 1)).div_ceil(SECOND);
                let bound = promise.reserve * 1_000 + floor + promise.ratio * calls;
                assert!(
                    allowed * 1_000 <= bound,
                    "over the budget: {allowed} retries from {from} to {to}, of {calls} calls"
                );
            }
        }
    }

    /// Withdraws all that is left. Then as many retries were allowed as the calls brought, to the last one.
    fn allowed_all_that_was_deposited(&self, ratio: u64, beside: u64) {
        while self.retry() {}
        let (calls, retries) = (self.began.lock().unwrap().len() as u64, self.retries.lock().unwrap().len() as u64);
        assert_eq!(retries, beside + ratio * calls / 1_000, "deposits are lost or withdrawn twice: {calls} calls");
    }
}

fn budget_within_its_bound() {
    let (time, promise) = (time(), Promise::random(TTL));
    let calls = Calls::new(&time, RetryBudget::with_clock(promise.config(), Arc::clone(&time)));
    together(4, 4, &calls, |calls, _| if random(5) == 0 { advance(&calls.time) } else { calls.calls_or_retries() });
    calls.keeps_to(promise);
}

/// Calls and retries of four threads while slices of time pass, at every ratio.
///
/// [Deposits of two slices before that count still; a word that is stored and not swapped.]
#[test]
fn budget_stays_within_its_bound() {
    check(10_000, budget_within_its_bound);
}

#[test]
#[should_panic(expected = "over the budget")]
fn budget_stays_within_its_bound_unless_flawed() {
    check_flawed(budget_within_its_bound);
}

/// One thread ends the slice of time at a random moment, and no later thread does.
///
/// So all deposits live.
fn all_deposits_withdrawn() {
    let (time, ratio) = (time(), ratio());
    let promise = Promise { ratio, floor: 0, reserve: 0, before: 0 };
    let calls = Calls::new(&time, RetryBudget::with_clock(promise.config(), Arc::clone(&time)));
    together(4, 4, &calls, |calls, place| {
        calls.calls_or_retries();
        if place == 0 && calls.time.now() < SECOND && random(2) == 0 {
            calls.time.advance(TTL / 2);
        }
    });
    calls.allowed_all_that_was_deposited(ratio, 0);
}

/// No deposit is lost and none is withdrawn twice, also while the slice of time ends.
///
/// [A thread whose reading is behind clears the deposits of the others; a word that is stored and not swapped.]
#[test]
fn budget_allows_every_deposit_once() {
    check(10_000, all_deposits_withdrawn);
}

#[test]
#[should_panic(expected = "lost or withdrawn twice")]
fn budget_allows_every_deposit_once_unless_flawed() {
    check_flawed(all_deposits_withdrawn);
}

fn bucket_within_its_bound() {
    let (time, promise) = (time(), Promise::random(Duration::ZERO));
    let calls = Calls::new(&time, RetryBucket::with_clock(promise.config(), Arc::clone(&time)));
    together(4, 4, &calls, |calls, _| if random(5) == 0 { advance(&calls.time) } else { calls.calls_or_retries() });
    calls.keeps_to(promise);
}

/// Calls and retries of four threads at a bucket that calls fill.
///
/// [A call that brings too much; a word that is stored and not swapped.]
#[test]
fn bucket_stays_within_its_bound() {
    check(10_000, bucket_within_its_bound);
}

#[test]
#[should_panic(expected = "over the budget")]
fn bucket_stays_within_its_bound_unless_flawed() {
    check_flawed(bucket_within_its_bound);
}

/// A bucket that is emptied first and is too large for what the calls bring.
fn all_of_the_bucket_withdrawn() {
    const RESERVE: u64 = 700;
    let (time, ratio) = (time(), ratio());
    let promise = Promise { ratio, floor: 0, reserve: RESERVE, before: 0 };
    let budget = RetryBucket::with_clock(promise.config(), Arc::clone(&time));
    (0..RESERVE).for_each(|_| assert!(budget.try_withdraw()));
    let calls = Calls::new(&time, budget);
    together(4, 4, &calls, |calls, _| calls.calls_or_retries());
    calls.allowed_all_that_was_deposited(ratio, 0);
}

/// Below its capacity no deposit is lost, and none is withdrawn twice. [A call that brings too much.]
#[test]
fn bucket_allows_every_deposit_once() {
    check(6_000, all_of_the_bucket_withdrawn);
}

#[test]
#[should_panic(expected = "lost or withdrawn twice")]
fn bucket_allows_every_deposit_once_unless_flawed() {
    check_flawed(all_of_the_bucket_withdrawn);
}

const MAX_TOKENS: u64 = 10;

/// gRPC's throttle, with its outcomes begun and recorded, in thousandths of a token.
struct Throttled {
    throttle: RetryThrottle,
    ratio: u64,
    failures: [AtomicU64; 2],
    successes: [AtomicU64; 2],
}

impl Throttled {
    fn record(&self, [begun, recorded]: &[AtomicU64; 2], outcome: impl FnOnce(&RetryThrottle), thousandths: u64) {
        begun.fetch_add(thousandths, Ordering::Relaxed);
        outcome(&self.throttle);
        recorded.fetch_add(thousandths, Ordering::Relaxed);
    }

    fn act(&self) {
        const MAX: u64 = MAX_TOKENS * 1_000;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        match random(4) {
            0 => self.record(&self.successes, Budget::succeeded, self.ratio),
            1 => self.record(&self.failures, Budget::failed, 1_000),
            _ => {
                let failures_before = read(&self.failures[1]);
                let is_allowed = self.throttle.try_withdraw();
                let (failures, successes) = (read(&self.failures[0]), read(&self.successes[0]));
                if is_allowed {
                    let most = (MAX + successes).saturating_sub(failures_before);
                    assert!(most > MAX / 2 || failures_before > MAX, "allowed with at most {most} thousandths");
                } else {
                    let least = MAX.saturating_sub(failures);
                    assert!(least <= MAX / 2, "refused with at least {least} thousandths");
                }
            }
        }
    }
}

fn throttle_of_outcomes() {
    let ratio = ratio();
    let throttle = RetryThrottle::new(MAX_TOKENS as u32, ratio as f64 / 1_000.0).unwrap();
    let throttled =
        Arc::new(Throttled { throttle, ratio, failures: Default::default(), successes: Default::default() });
    together(4, 6, &throttled, |throttled, _| throttled.act());
}

/// A retry needs more than half of the tokens, and is refused only if half may be gone.
///
/// [Retries while more than a quarter of the tokens are there.]
#[test]
fn throttle_allows_retries_by_its_outcomes() {
    check(6_000, throttle_of_outcomes);
}

/// Few outcomes, so that the count is neither full nor empty.
fn throttle_count() {
    let ratio = RATIOS[random(4) as usize];
    let throttle = RetryThrottle::new(1_000, ratio as f64 / 1_000.0).unwrap();
    (0..500).for_each(|_| throttle.failed());
    let throttled =
        Arc::new(Throttled { throttle, ratio, failures: Default::default(), successes: Default::default() });
    together(4, 6, &throttled, |throttled, _| match random(2) {
        0 => throttled.record(&throttled.successes, Budget::succeeded, throttled.ratio),
        _ => throttled.record(&throttled.failures, Budget::failed, 1_000),
    });
    let [failures, successes] =
        [&throttled.failures[1], &throttled.successes[1]].map(|count| count.load(Ordering::Relaxed));
    let expected = 500_000 + successes - failures;
    assert_eq!(u64::from(throttled.throttle.thousandths()), expected, "an outcome is not counted once");
}

/// Every outcome is counted once. [A word that is stored and not swapped.]
#[test]
fn throttle_counts_every_outcome() {
    check(6_000, throttle_count);
}

#[test]
#[should_panic(expected = "not counted once")]
fn throttle_counts_every_outcome_unless_flawed() {
    check_flawed(throttle_count);
}

/// The extra requests that a hedge saves up.
const CAPACITY: u64 = 10;

/// A hedge with a budget, and how many calls and extra requests there were.
struct Hedged {
    hedge: Hedge<Time, Arc<RetryBucket<Time>>>,
    budget: Arc<RetryBucket<Time>>,
    calls: AtomicU64,
    extra: AtomicU64,
}

impl Hedged {
    /// At most so many extra requests per call, in thousandths, and so many of the budget at all.
    fn new(max_extra: u64, of_the_budget: u64) -> Arc<Self> {
        let time = time();
        let config = HedgeConfig::builder().max_extra(max_extra as f64 / 1_000.0).max_attempts(5);
        let config = config.fixed_delay(Duration::from_secs(1)).build().unwrap();
        let promise = Promise { ratio: 1_000, floor: 0, reserve: of_the_budget, before: 0 };
        let budget = Arc::new(RetryBucket::with_clock(promise.config(), Arc::clone(&time)));
        let hedge = Hedge::with_clock(config, time).budget(Arc::clone(&budget));
        Arc::new(Self { hedge, budget, calls: AtomicU64::new(0), extra: AtomicU64::new(0) })
    }

    /// Fails until there may be no other attempt, and returns how many extra requests were made.
    fn call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let attempts = Cell::new(0);
        let call = self.hedge.run(|attempt| {
            attempts.set(attempt);
            async { Err::<(), _>(std::fmt::Error) }
        });
        let call = pin!(call.sleeping_by(|_| std::future::pending::<()>()));
        assert!(matches!(call.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Err(_))));
        let extra = u64::from(attempts.get()) - 1;
        self.extra.fetch_add(extra, Ordering::Relaxed);
        extra
    }
}

/// In thousandths.
fn max_extra() -> u64 {
    [1, 20, 100, 600, 1_000][random(5) as usize]
}

fn hedged_by_its_allowance() {
    let max_extra = max_extra();
    let hedged = Hedged::new(max_extra, 1_000);
    // The first call finds all there is, and there is no room for what it brings. Then each call takes what it brings.
    let drain = || while hedged.call() > max_extra / 1_000 {};
    drain();
    together(4, 3, &hedged, |hedged, _| _ = hedged.call());
    drain();
    let (calls, extra) = (hedged.calls.load(Ordering::Relaxed), hedged.extra.load(Ordering::Relaxed));
    let expected = CAPACITY + max_extra * (calls - 1) / 1_000;
    assert_eq!(extra, expected, "extra requests of {calls} calls, {max_extra} thousandths each");
}

/// Four threads make calls that all fail at once.
///
/// The extra requests are those of the allowance: none more, and none less. [An allowance that is stored and not
/// swapped.]
#[test]
fn hedges_take_what_calls_bring_once() {
    check(4_000, hedged_by_its_allowance);
}

#[test]
#[should_panic(expected = "extra requests of")]
fn hedges_take_what_calls_bring_once_unless_flawed() {
    check_flawed(hedged_by_its_allowance);
}

/// A budget that has less than the allowance, and then some more.
fn hedged_by_its_budget() {
    let of_the_budget = 3 + random(5);
    let hedged = Hedged::new(max_extra(), of_the_budget);
    let extra = || hedged.extra.load(Ordering::Relaxed);
    together(4, 3, &hedged, |hedged, _| _ = hedged.call());
    while hedged.call() > 0 {}
    assert_eq!(extra(), of_the_budget, "the budget is spent, and no more");
    (0..3).for_each(|_| hedged.budget.began());
    while hedged.call() > 0 {}
    assert_eq!(extra(), of_the_budget + 3, "the allowance is back");
}

/// No thread hedges beyond a budget that it shares with retries.
///
/// A refusal of the budget costs nothing of the allowance. [A hedge without the budget's leave; a refusal that is not
/// given back.]
#[test]
fn hedges_take_no_more_than_their_budget() {
    check(4_000, hedged_by_its_budget);
}
