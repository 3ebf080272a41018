//! Several limits in one decision, through the public API.
//!
//! `token_bucket_operations.rs`, `algorithms.rs` and `sliding_log.rs` test how limits roll back.

use crate::models::bucket::ExactBucket;
use damper::limit::Algorithm;
use damper::{
    Clock, FixedWindow, KeyedLimiter, LeakyBucket, LeasingBucket, LimitSet, LimitSetDenied, LimitSetQuotaError,
    ManualClock, Quota, RateLimiter, SetQuotaError, SlidingCounter, SlidingLog, TokenBucket,
};
use proptest::prelude::*;
use std::cell::Cell;
use std::time::Duration;

#[test]
fn refusal_names_the_limit_and_the_wait() {
    let clock = ManualClock::new();
    let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_minute(15)], &clock);
    both.check_n(10).unwrap();
    let denied = both.check_n(2).unwrap_err();
    assert_eq!((denied.index(), denied.quota()), (0, Quota::per_second(10)));
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(200)));
    assert_eq!(denied.retry_after(), denied.denied().retry_after());
    assert_eq!(both.check_n(11).unwrap_err().retry_after(), None, "more than the burst is never there");
    clock.advance(Duration::from_secs(1));
    both.check_n(5).unwrap();
    let denied = both.check_n(1).unwrap_err();
    assert_eq!((denied.index(), denied.quota()), (1, Quota::per_minute(15)));
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(3)), "three of four seconds remain");
}

#[test]
fn each_limits_quota_can_be_changed() {
    let clock = ManualClock::new();
    let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_minute(600)], &clock);
    assert_eq!(both.set_quota(0, Quota::per_second(20)), Ok(()));
    assert_eq!(both.peek().map(|usage| usage.limit()), [20, 600]);
    both.check_n(20).unwrap();
    assert_eq!(both.set_quota(1, Quota::per_minute(20)), Ok(()));
    clock.advance(Duration::from_secs(1));
    assert_eq!(both.check_n(20).unwrap_err().index(), 1);
    let missing = both.set_quota(2, Quota::per_second(1)).unwrap_err();
    assert_eq!(missing, LimitSetQuotaError::NoSuchLimit { index: 2, limits: 2 });
    assert_eq!(missing.to_string(), "limit 3 does not exist, there are 2");
}

#[test]
fn unfit_quota_is_refused_and_the_old_one_stays() {
    let clock = ManualClock::new();
    let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_minute(15)], &clock);
    let refused = both.set_quota(1, Quota::per_second(1_000_000_000).burst(15));
    let error = SetQuotaError::TooFast { quota: Quota::per_second(1_000_000_000).burst(15), most: 476 };
    assert_eq!(refused, Err(LimitSetQuotaError::Refused { index: 1, error }));
    assert_eq!(refused.unwrap_err().to_string(), format!("limit 2: {error}"));
    assert_eq!(both.peek().map(|usage| usage.limit()), [10, 15]);
}

/// With every algorithm, the first limit keeps the tokens of a call that the second refuses.
#[test]
fn every_algorithm_keeps_its_tokens_when_another_limit_refuses() {
    fn keeps<A: Algorithm>(make: fn(Quota) -> A) {
        let clock = ManualClock::new();
        let both = LimitSet::with_algorithms([Quota::per_second(10), Quota::per_hour(12)].map(make), &clock);
        both.check_n(6).unwrap();
        clock.advance(Duration::from_secs(2));
        assert_eq!(both.check_n(8).unwrap_err().index(), 1);
        assert_eq!(both.peek()[0].used(), 0, "as before");
        assert_eq!(both.check_n(6).unwrap().remaining(), 0, "the second limit lost no tokens");
        assert_eq!(both.set_quota(1, Quota::per_minute(12)), Ok(()));
        assert_eq!(both.peek()[1].window(), Some(Duration::from_mins(1)));
    }
    keeps(TokenBucket::new);
    keeps(LeakyBucket::new);
    keeps(FixedWindow::new);
}

#[test]
fn leasing_buckets_can_form_a_limit_set() {
    let clock = ManualClock::new();
    let quotas = [Quota::per_second(12), Quota::per_hour(14)];
    let both = LimitSet::with_algorithms(quotas.map(|quota| LeasingBucket::new(quota, 2).unwrap()), &clock);
    both.check_n(6).unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(both.check_n(8).unwrap_err().index(), 1);
    assert_eq!(both.check_n(6).unwrap().remaining(), 0);
}

/// A clock that moves by some milliseconds at each reading, and runs a callback at the next one.
#[derive(Default)]
struct Moving {
    now: Cell<u64>,
    step: Cell<u64>,
    callback: Cell<Option<Box<dyn Fn()>>>,
}

impl Moving {
    fn leaked() -> &'static Self {
        Box::leak(Box::default())
    }

    /// Runs `call` while each reading moves the clock by a millisecond, and returns the number of readings.
    fn readings(&self, call: impl FnOnce()) -> u64 {
        let before = self.now.get();
        self.step.set(1);
        call();
        self.step.set(0);
        self.now.get() - before
    }
}

impl Clock for Moving {
    fn now(&self) -> u64 {
        self.now.set(self.now.get() + self.step.get());
        if let Some(callback) = self.callback.take() {
            callback();
        }
        self.now.get()
    }
    fn frequency(&self) -> u64 {
        1_000
    }
}

/// A check reads the clock once, for all limits.
///
/// A refusal that the looks find leaves the words as they are.
#[test]
fn check_reads_the_clock_once_and_its_refusal_writes_nothing() {
    let clock = Moving::leaked();
    let both = LimitSet::with_clock([Quota::per_second(100), Quota::per_hour(60)], clock);
    both.check_n(0).unwrap();
    assert_eq!(clock.readings(|| assert!(both.check_n(50).is_ok())), 1);
    let resets_in = || both.peek().map(|usage| usage.resets_in().unwrap());
    let before = resets_in();
    let refused = || assert!(!both.check_n(20).unwrap_err().is_contended());
    let waited = Duration::from_millis(clock.readings(refused));
    assert_eq!(waited, Duration::from_millis(1));
    assert_eq!(resets_in().map(|time| time + waited), before, "nothing was taken, not even for a moment");
}

/// A key and a limit for all each read their own clock, and a refusal writes nothing there either.
#[test]
fn refusal_of_a_key_and_all_writes_nothing() {
    let clock = Moving::leaked();
    let all = RateLimiter::with_clock(Quota::per_hour(60), clock);
    let each = KeyedLimiter::<u64>::builder(Quota::per_second(100)).clock(clock).build().unwrap();
    assert!(each.check_n(&1, 0).is_ok() && all.check_n(0).is_ok());
    assert!(each.check_n_with(&1, 50, &all).is_ok());
    let before = each.peek(&1).resets_in().unwrap();
    let refused = || assert_eq!(each.check_n_with(&1, 20, &all).unwrap_err().index(), 1);
    let waited = Duration::from_millis(clock.readings(refused));
    assert_eq!(waited, Duration::from_millis(2));
    assert_eq!(each.peek(&1).resets_in().unwrap() + waited, before);
}

/// Another call takes the tokens of the second limit after the look.
///
/// The first gets its own back, and creates none.
#[test]
fn contended_refusal_gives_back_what_was_not_refilled() {
    let clock = Moving::leaked();
    let quotas = [Quota::per_second(100).burst(200), Quota::per_hour(60).burst(2_000)];
    let both: &LimitSet<_, _> = Box::leak(Box::new(LimitSet::with_clock(quotas, clock)));
    both.check_n(0).unwrap();
    for taken in 1..=3 {
        let left = both.peek()[1].remaining();
        clock.callback.set(Some(Box::new(|| assert!(both.check_n(30).is_ok()))));
        let denied = both.reserve([20, left]).unwrap_err();
        assert!(denied.is_contended() && denied.index() == 1, "{denied}");
        assert_eq!(both.peek().map(|usage| usage.used()), [30 * taken; 2]);
    }
    let readings = clock.readings(|| {
        let left = both.peek()[1].remaining();
        clock.callback.set(Some(Box::new(|| assert!(both.check_n(30).is_ok()))));
        assert!(both.reserve([20, left]).unwrap_err().is_contended());
    });
    let used = both.peek()[0].used();
    assert!(u64::from(used) + readings / 10 >= 120, "{used} after {readings} ms");
}

/// Another call takes the tokens of all after the look at a key: the key gets its own back.
#[test]
fn contended_refusal_of_all_gives_back_to_the_key() {
    let clock = Moving::leaked();
    let all: &RateLimiter<_, _> = Box::leak(Box::new(RateLimiter::with_clock(Quota::per_hour(2), clock)));
    let each = KeyedLimiter::<u64>::builder(Quota::per_hour(10)).clock(ManualClock::new()).build().unwrap();
    assert!(each.check_n_with(&1, 1, all).is_ok());
    clock.callback.set(Some(Box::new(|| assert!(all.check().is_ok()))));
    let denied = each.check_n_with(&1, 1, all).unwrap_err();
    assert!(denied.is_contended() && denied.index() == 1, "{denied}");
    assert_eq!(each.peek(&1).used(), 1);
    assert!(!each.check_n_with(&1, 1, all).unwrap_err().is_contended());
}

/// A limit heals a word that a clock left far ahead, although another limit refuses too.
#[test]
fn refusal_heals_each_limit_after_a_step_back() {
    fn heals<A: Algorithm>(make: fn(Quota) -> A) {
        let clock = ManualClock::new();
        clock.advance(Duration::from_hours(2_000));
        let both = LimitSet::with_algorithms([Quota::per_hour(1), Quota::per_minute(1)].map(make), &clock);
        both.check().unwrap();
        clock.step_back(Duration::from_hours(1_000));
        assert_eq!(both.check().unwrap_err().index(), 0);
        // The deepest debt is eleven tokens, and a window lasts for an hour.
        clock.advance(Duration::from_hours(11));
        assert!(both.check().is_ok(), "no longer than the deepest debt");
    }
    heals(TokenBucket::new);
    heals(LeakyBucket::new);
    heals(FixedWindow::new);
    heals(|quota| SlidingCounter::new(quota).unwrap());
    heals(|quota| SlidingLog::new(quota).unwrap());
}

/// The error names the longest wait among the limits that refuse.
///
/// Limits that allow the call do not count.
#[test]
fn refusal_names_the_longest_wait() {
    let clock = ManualClock::new();
    let three = LimitSet::with_clock(
        [Quota::per_second(10).burst(5), Quota::per_minute(6).burst(5), Quota::per_second(1).burst(5)],
        &clock,
    );
    three.check_n(5).unwrap();
    let denied = three.check().unwrap_err();
    assert_eq!((denied.index(), denied.retry_after()), (1, Some(Duration::from_secs(10))));
    assert_eq!(denied.to_string(), "limit 2 (6/min burst 5): rate limit exceeded, retry in 10 s");
    // A limit that never allows the call outlasts every wait, whatever its place.
    let once = LimitSet::with_clock([Quota::per_hour(1), Quota::per_second(0).burst(1)], &clock);
    once.check().unwrap();
    let denied = once.check().unwrap_err();
    assert_eq!((denied.index(), denied.retry_after(), denied.denied().exceeds_burst()), (1, None, false));
    let denied = once.check_n(2).unwrap_err();
    assert_eq!((denied.index(), denied.denied().exceeds_burst()), (0, true));
    let narrow = LimitSet::with_clock([Quota::per_hour(3), Quota::per_second(9).burst(2)], &clock);
    narrow.check_n(2).unwrap();
    let denied = narrow.check_n(3).unwrap_err();
    assert_eq!((denied.index(), denied.denied().exceeds_burst()), (1, true));
}

/// A keyed limit and a limit for all keys do the same, even on different clocks.
#[test]
fn keyed_refusal_names_the_longest_wait() {
    let (fine, coarse) = (ManualClock::new(), ManualClock::with_frequency(10));
    let all = RateLimiter::with_clock(Quota::per_minute(2), &coarse);
    let each = KeyedLimiter::<str>::builder(Quota::per_second(2)).clock(&fine).build().unwrap();
    each.check_n_with("alice", 2, &all).unwrap();
    let denied = each.check_n_with("alice", 1, &all).unwrap_err();
    assert_eq!((denied.index(), denied.quota()), (1, Quota::per_minute(2)));
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(30)));
    let denied = each.check_n_with("alice", 3, &all).unwrap_err();
    assert_eq!((denied.index(), denied.denied().exceeds_burst()), (0, true));
    coarse.advance(Duration::from_secs(30));
    let denied = each.check_n_with("alice", 1, &all).unwrap_err();
    assert_eq!((denied.index(), denied.retry_after()), (0, Some(Duration::from_millis(500))));
}

/// A refusal reads the other limits without writing, so none of them records it.
#[test]
fn refusal_takes_nothing_from_later_limits() {
    let clock = ManualClock::new();
    let both = LimitSet::with_algorithms(
        [Quota::per_hour(2), Quota::per_second(9)].map(|q| SlidingLog::new(q).unwrap()),
        &clock,
    );
    both.check_n(2).unwrap();
    for _ in 0..20 {
        assert_eq!(both.check().unwrap_err().index(), 0);
    }
    assert_eq!(both.peek().map(|usage| usage.used()), [2, 2]);
}

/// A call on several limits: the time before it, and its number of tokens.
type Call = (Duration, u32);

/// Makes the calls, and retries after each stated wait: it succeeds then, and not a tick sooner.
fn retries_after_the_stated_wait<const N: usize, A: Algorithm>(layers: [A; N], calls: &[Call]) {
    let clock = ManualClock::new();
    let tick = Duration::from_nanos(1);
    let mut models: Vec<_> = layers.iter().map(|layer| ExactBucket::new(layer.quota(), clock.frequency())).collect();
    let is_bucket = std::any::type_name::<A>() == std::any::type_name::<TokenBucket>();
    let layered = LimitSet::with_algorithms(layers, &clock);
    let pass = |models: &mut [ExactBucket], time: Duration| {
        clock.advance(time);
        for model in models.iter_mut() {
            model.pass(u64::try_from(time.as_nanos()).unwrap());
        }
    };
    let check = |models: &mut [ExactBucket], n: u32| -> Result<(), LimitSetDenied> {
        layered.check_n(n)?;
        for model in models.iter_mut() {
            model.take(n);
        }
        Ok(())
    };
    for &(time, n) in calls {
        pass(&mut models, time);
        let Err(denied) = check(&mut models, n) else { continue };
        let Some(wait) = denied.retry_after() else { continue };
        if is_bucket {
            let longest = models.iter().filter_map(|model| model.wait(n)).max().unwrap();
            let stated = i128::try_from(wait.as_nanos()).unwrap();
            assert!(
                (longest - 1..=longest).contains(&stated),
                "the stated wait is {stated}, but the longest wait is {longest}"
            );
        }
        pass(&mut models, wait.checked_sub(tick).unwrap());
        assert!(check(&mut models, n).is_err(), "{n} were there a tick before {denied:?}");
        pass(&mut models, tick);
        assert!(check(&mut models, n).is_ok(), "{n} were not there after {denied:?}");
    }
}

fn layer_quotas<const N: usize>() -> impl Strategy<Value = [Quota; N]> {
    let window = prop_oneof![Just(1_000_000u64), Just(1_000_000_000), Just(60_000_000_000), 1_000..1_000_000_000u64];
    let quota = (1..30u32, window, 0..10u32)
        .prop_map(|(limit, window, more)| Quota::per(limit, Duration::from_nanos(window)).unwrap().burst(limit + more));
    proptest::array::uniform(quota)
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let time = prop_oneof![Just(0u64), 0..1_000_000u64, 0..2_000_000_000u64];
    proptest::collection::vec((time.prop_map(Duration::from_nanos), 1..8u32), 1..40)
}

fn retries_on_every_algorithm<const N: usize>(quotas: [Quota; N], calls: &[Call]) {
    retries_after_the_stated_wait(quotas.map(TokenBucket::new), calls);
    retries_after_the_stated_wait(quotas.map(LeakyBucket::new), calls);
    retries_after_the_stated_wait(quotas.map(FixedWindow::new), calls);
    retries_after_the_stated_wait(quotas.map(|quota| SlidingCounter::new(quota).unwrap()), calls);
    retries_after_the_stated_wait(quotas.map(|quota| SlidingLog::new(quota).unwrap()), calls);
    // One token of each burst is leased, so the burst is one larger.
    retries_after_the_stated_wait(
        quotas.map(|quota| LeasingBucket::new(quota.burst(quota.burst_size() + 1), 1).unwrap()),
        calls,
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn retry_succeeds_after_the_stated_wait(two in layer_quotas::<2>(), three in layer_quotas::<3>(), four in layer_quotas::<4>(), calls in calls()) {
        retries_on_every_algorithm(two, &calls);
        retries_on_every_algorithm(three, &calls);
        retries_on_every_algorithm(four, &calls);
    }
}
