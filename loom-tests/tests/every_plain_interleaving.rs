//! Every interleaving of the smallest race at packed words, with the atomics as they are.
//!
//! With each load a read-modify-write there are many more of them, because two threads that only read the same words depend on each other there.
//! So these models have a bound on preemptions in that setting. `every_interleaving.rs` has the models without one.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::breaker::{OnStateChange, Permit, State, StateChange, Window};
use damper_core::concurrency::{AdaptiveLimit, LimitRule, WindowPlan, WindowSummary};
use damper_core::internal::WordNonces;
use damper_core::retry::{Hedge, HedgeConfig};
use damper_core::throttle::AdaptiveThrottle;
use damper_core::time::Seed;
use damper_core::words::{AtomicU64, Contents, Header};
use damper_core::{BreakerConfig, CircuitBreaker, KeyedLimiter, Plan, Quota, RateLimiter};
use damper_loom_tests::tables::{A, Identity, quota};
use damper_loom_tests::{Flaw, Hand, OwnTime, Stopped, check_flawed, check_rmw_preemptions};
use loom::thread;
use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Runs `operation` on another thread, and returns what it shares with this one.
fn beside<T: Send + Sync + 'static, R: 'static>(
    shared: T,
    operation: impl FnOnce(&T) -> R + 'static,
) -> (Arc<T>, thread::JoinHandle<R>) {
    let shared = Arc::new(shared);
    let its = Arc::clone(&shared);
    (shared, thread::spawn(move || operation(&its)))
}

/// A breaker that two failed calls of the last second open.
fn breaker_of_buckets() -> Arc<CircuitBreaker<Stopped>> {
    let config = BreakerConfig::builder().failure_threshold(u32::MAX).failure_rate(100).minimum_calls(2);
    let config = config.window(Window::last(secs(1))).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::with_clock(config, Stopped(7)));
    assert_eq!(breaker.status().calls(), 0, "computes what a tick is worth");
    breaker
}

/// Two failures race in a bucket: both count, so the second one reaches the rate.
fn failures_in_buckets() {
    let breaker = breaker_of_buckets();
    let [mine, its] = [(); 2].map(|()| breaker.try_acquire_owned().unwrap());
    let rival = thread::spawn(move || its.failure());
    mine.failure();
    rival.join().unwrap();
    assert_eq!(breaker.state(), State::Open, "two failures count");
}

// WORD: A bucket of a window of seconds
#[test]
fn buckets_count_both_failures() {
    check_rmw_preemptions(3, failures_in_buckets);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "two failures count")]
fn buckets_count_both_failures_unless_flawed() {
    check_flawed(Flaw::BlindExchange, failures_in_buckets);
}

/// A failure of the generation before a reset races one after it.
///
/// The line is that of the later generation.
fn late_failure_in_buckets() {
    let breaker = breaker_of_buckets();
    let late = breaker.try_acquire_owned().unwrap();
    let rival = thread::spawn(move || late.failure());
    breaker.reset();
    breaker.try_acquire().unwrap().failure();
    rival.join().unwrap();
    assert_eq!((breaker.status().calls(), breaker.state()), (1, State::Closed), "one call of this generation");
}

// WORD: The line of a window of seconds
#[test]
fn buckets_begin_the_later_generation() {
    check_rmw_preemptions(4, late_failure_in_buckets);
}

/// [No fence before the breaker's word is read again.]
#[test]
#[should_panic(expected = "one call of this generation")]
fn buckets_begin_the_later_generation_unless_flawed() {
    check_flawed(Flaw::NoFences, late_failure_in_buckets);
}

/// Keeps the reported changes, without an interleaving of its own.
#[derive(Clone, Debug, Default)]
struct Reported(Arc<Mutex<Vec<StateChange>>>);

impl OnStateChange for Reported {
    fn on_state_change(&self, change: StateChange) {
        self.0.lock().unwrap().push(change);
    }
}

/// A breaker is tripped while another thread reads its recent changes.
///
/// The reader finds that change whole, or none.
fn change_beside_a_reader() {
    let reported = Reported::default();
    let breaker = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, Stopped(7)).with_listener(reported.clone());
    assert_eq!(breaker.status().calls(), 0, "computes what a tick is worth");
    let (breaker, rival) = beside(breaker, CircuitBreaker::trip);
    let shown =
        |breaker: &CircuitBreaker<_, _>| breaker.recent_changes().iter().map(|(change, _)| change).collect::<Vec<_>>();
    let during = shown(&breaker);
    rival.join().unwrap();
    let made = reported.0.lock().unwrap().clone();
    assert!(during.is_empty() || during == made, "a change that was not made: {during:?}");
    assert_eq!(shown(&breaker), made, "a change is missing");
}

/// [A change that is stored in two steps.]
// WORD: A recent change of a breaker's state
#[test]
fn recent_change_is_read_whole_or_not_at_all() {
    check_rmw_preemptions(3, change_beside_a_reader);
}

std::thread_local! {
    /// The calls of all windows of an adaptive limit.
    ///
    /// All threads of a model run on one thread of the system.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Plans windows of one call and ten seconds at least, and sums up their calls.
#[derive(Clone, Copy, Debug)]
struct Windows;

impl LimitRule for Windows {
    fn first(&self) -> WindowPlan {
        WindowPlan { samples: 1, length: secs(10), ..WindowPlan::new(5) }
    }

    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        CALLS.set(CALLS.get() + window.successes + window.overloaded);
        self.first()
    }
}

/// A call succeeds in a window while another one ends that window.
///
/// The other one is refused at a time after the window. Both count once.
fn samples() {
    let limit = Arc::new(AdaptiveLimit::with_rule(Windows, OwnTime));
    OwnTime::set(0);
    limit.try_acquire().unwrap().success();
    CALLS.set(0);
    let [mine, its] = [(); 2].map(|()| limit.try_acquire_owned().unwrap());
    let rival = thread::spawn(move || {
        OwnTime::set(1);
        its.success();
    });
    OwnTime::set(20);
    // Counted beside the bank's word of successes, which only the end of the window writes on this thread.
    mine.overloaded();
    rival.join().unwrap();
    // A sample that came late is in a later window.
    for second in [40, 60] {
        OwnTime::set(second);
        limit.try_acquire().unwrap().success();
    }
    assert_eq!(CALLS.get(), 4, "every sample is counted once");
}

// WORD: A bank of an adaptive limit's samples
// WORD: The header of an adaptive limit's window
#[test]
fn banks_count_every_sample_once() {
    check_rmw_preemptions(1, samples);
}

/// [A bank that is read and then emptied, and not swapped.]
#[test]
#[should_panic(expected = "every sample is counted once")]
fn banks_count_every_sample_once_unless_flawed() {
    check_flawed(Flaw::SplitUpdate, samples);
}

/// A call that takes no time.
fn call(hedge: &Hedge<Hand>) {
    let call = hedge.run(|_| async { Ok::<_, Infallible>(()) });
    let call = pin!(call.sleeping_by(|_| pending::<()>()));
    assert!(matches!(call.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(()))));
}

/// Two calls end at once, after one before.
///
/// With all three there are enough to say what is slow. (For models three are.)
fn latencies() {
    let hand = Hand::default();
    let hedge = Hedge::with_clock(HedgeConfig::DEFAULT, hand.clone());
    call(&hedge);
    let (hedge, rival) = beside(hedge, call);
    call(&hedge);
    rival.join().unwrap();
    hand.advance(secs(1));
    assert!(hedge.delay().is_some(), "all calls are counted");
}

#[test]
fn latencies_count_every_call() {
    check_rmw_preemptions(4, latencies);
}

/// [A count that is read and then stored.]
#[test]
#[should_panic(expected = "all calls are counted")]
fn latencies_count_every_call_unless_flawed() {
    check_flawed(Flaw::SplitUpdate, latencies);
}

/// Two calls find the slice of time that two old calls were counted in.
///
/// One of them clears it, and the old ones are gone.
fn old_latencies() {
    let hand = Hand::default();
    let hedge = Hedge::with_clock(HedgeConfig::DEFAULT, hand.clone());
    call(&hedge);
    call(&hedge);
    hand.advance(secs(30));
    let (hedge, rival) = beside(hedge, call);
    call(&hedge);
    rival.join().unwrap();
    hand.advance(secs(1));
    assert!(hedge.delay().is_none(), "the old calls are gone");
}

/// [A slice that is not cleared.]
#[test]
fn latencies_of_an_old_slice_are_cleared() {
    check_rmw_preemptions(4, old_latencies);
}

/// The service accepts calls again, and two threads find that at times a second apart.
///
/// The recovery begins once.
fn recovery() {
    OwnTime::set(0);
    let throttle = AdaptiveThrottle::with_clock(OwnTime, 1);
    for _ in 0..10 {
        throttle.try_acquire().unwrap().rejected();
    }
    for second in 10..13 {
        OwnTime::set(second);
        throttle.try_acquire().unwrap().accepted();
    }
    let (throttle, rival) = beside(throttle, |throttle| {
        OwnTime::set(12);
        drop(throttle.try_acquire());
    });
    OwnTime::set(13);
    drop(throttle.try_acquire());
    let refused = throttle.status().share_refused();
    rival.join().unwrap();
    assert_eq!(throttle.status().share_refused(), refused, "a recovery begins once");
}

// WORD: The phase of a throttle
#[test]
fn phase_of_a_throttle_is_that_of_the_first_thread() {
    check_rmw_preemptions(3, recovery);
}

/// [A phase that is stored and not swapped.]
#[test]
#[should_panic(expected = "a recovery begins once")]
fn phase_of_a_throttle_is_that_of_the_first_thread_unless_flawed() {
    check_flawed(Flaw::BlindExchange, recovery);
}

/// Two processes create a header at once: each finds the same one.
fn headers() {
    let words: [AtomicU64; 8] = std::array::from_fn(|_| AtomicU64::new(0));
    let create = |words: &[AtomicU64; 8], seed| {
        let contents = Contents::version(1).number(5);
        Header::create(words, &contents, seed, &Stopped(7_000_000_000)).unwrap().seed().hash_one(5)
    };
    let (words, rival) = beside(words, move |words| create(words, Seed::new(8, 16)));
    let mine = create(&words, Seed::new(1, 2));
    assert_eq!(mine, rival.join().unwrap(), "all processes have one seed");
}

// WORD: The first word of a header
#[test]
fn header_is_created_once() {
    check_rmw_preemptions(2, headers);
}

/// [Words that are stored and not swapped.]
#[test]
#[should_panic(expected = "all processes have one seed")]
fn header_is_created_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, headers);
}

/// Two threads of a process that has drawn so many nonces draw one each.
///
/// Another process draws one too, and all differ.
fn nonces(drawn: u32) {
    let blocks: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let nonces = WordNonces::new(blocks);
    (0..drawn).for_each(|_| _ = nonces.draw());
    let (nonces, rival) = beside(nonces, WordNonces::draw);
    let mine = nonces.draw();
    let its = rival.join().unwrap();
    let others = WordNonces::new(blocks).draw();
    assert!(mine != its && mine != others && its != others, "every nonce is drawn once: {mine}, {its}, {others}");
}

/// Two processes draw a nonce each: they take blocks of their own.
fn blocks_of_nonces() {
    let draw = |blocks: &AtomicU64| WordNonces::new(blocks).draw();
    let (blocks, rival) = beside(AtomicU64::new(0), draw);
    assert_ne!(draw(&blocks), rival.join().unwrap(), "every nonce is drawn once");
}

// WORD: A nonce
#[test]
fn no_nonce_is_drawn_twice() {
    check_rmw_preemptions(5, || nonces(0));
    check_rmw_preemptions(5, || nonces(1));
    check_rmw_preemptions(5, blocks_of_nonces);
}

/// [A count that is stored and not swapped.]
#[test]
#[should_panic(expected = "every nonce is drawn once")]
fn no_nonce_is_drawn_twice_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || nonces(1));
}

/// [A block that is read and then stored.]
#[test]
#[should_panic(expected = "every nonce is drawn once")]
fn no_block_of_nonces_is_drawn_twice_unless_flawed() {
    check_flawed(Flaw::SplitUpdate, blocks_of_nonces);
}

/// A quota is read while it is changed: it is one of both, whole.
fn quota_beside_a_change() {
    let quotas = [Quota::per_second(1).burst(2).max_debt(3), Quota::per_minute(4).burst(5).max_debt(6)];
    let limiter = RateLimiter::with_clock(quotas[0], Stopped(7));
    limiter.check_n(0).unwrap();
    let (limiter, changer) = beside(limiter, move |limiter| limiter.set_quota(quotas[1]).unwrap());
    let seen = limiter.quota();
    assert!(quotas.contains(&seen), "one quota, whole: {seen:?}");
    changer.join().unwrap();
    assert_eq!(limiter.quota(), quotas[1]);
}

// WORD: The sizes of a quota
// WORD: The shape of a quota's line
#[test]
fn quota_is_read_whole() {
    check_rmw_preemptions(3, quota_beside_a_change);
}

/// [An epoch that is published without an ordering.]
#[test]
#[should_panic(expected = "one quota, whole")]
fn quota_is_read_whole_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, quota_beside_a_change);
}

/// A breaker whose settings are changed while another thread records a call of `latency` seconds.
fn call_beside_a_change(
    [first, second]: [BreakerConfig; 2],
    latency: u64,
    end: fn(Permit<&CircuitBreaker<OwnTime>>),
) -> Arc<CircuitBreaker<OwnTime>> {
    let breaker = CircuitBreaker::with_clock(first, OwnTime);
    assert_eq!(breaker.status().calls(), 0, "computes what a tick is worth");
    let (breaker, caller) = beside(breaker, move |breaker| {
        let permit = breaker.try_acquire().unwrap();
        OwnTime::set(latency);
        end(permit);
    });
    breaker.set_config(&second).unwrap();
    caller.join().unwrap();
    breaker
}

/// A failure races a change of when the breaker opens and for how long.
///
/// It is counted and does not open the breaker, by the first settings, or it opens it for 15 s, by the second ones.
fn failure_beside_a_change() {
    let configs = [(2, 30, 20), (1, 10, 15)].map(|(failures, cooldown, most)| {
        let config = BreakerConfig::builder().failure_threshold(failures).cooldown(secs(cooldown));
        config.max_retry_after(secs(most)).build().unwrap()
    });
    let breaker = call_beside_a_change(configs, 0, |permit| permit.failure_with_retry_after(secs(100)));
    let status = breaker.status();
    let seen = (status.consecutive_failures(), status.next_probe_in());
    assert!([(1, None), (0, Some(secs(15)))].contains(&seen), "one configuration: {seen:?}");
}

// WORD: The numbers of a breaker's settings
// WORD: The half-open state of a breaker's settings
// WORD: A time of a breaker's settings, and half of the length of its ramp
#[test]
fn failure_is_counted_by_one_configuration() {
    check_rmw_preemptions(4, failure_beside_a_change);
}

/// [An epoch that is published without an ordering.]
#[test]
#[should_panic(expected = "one configuration")]
fn failure_is_counted_by_one_configuration_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, failure_beside_a_change);
}

/// A call of 10 s races a change of when calls are slow and how many a rate needs.
///
/// No configuration opens the breaker by it.
fn slow_call_beside_a_change() {
    let configs = [(1, 1_000), (2, 1)]
        .map(|(calls, slow)| BreakerConfig::builder().slow_rate(100, secs(slow)).minimum_calls(calls).build().unwrap());
    let breaker = call_beside_a_change(configs, 10, |permit| permit.success());
    assert_eq!(breaker.state(), State::Closed, "one configuration");
    assert_eq!(breaker.status().calls(), 1, "the call counts");
}

// WORD: The window of a breaker's settings and its rates
// WORD: The slow calls of a breaker's settings and the base of its buckets
#[test]
fn slow_call_is_judged_by_one_configuration() {
    check_rmw_preemptions(3, slow_call_beside_a_change);
}

/// [An epoch that is published without an ordering.]
#[test]
#[should_panic(expected = "one configuration")]
fn slow_call_is_judged_by_one_configuration_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, slow_call_beside_a_change);
}

/// Two threads charge a token each to a key without a slot: both count.
///
/// Before that `before` has spent from the only word that keys share. Keys from 200 on are in another tier.
fn charges_without_a_slot(before: Option<u64>) {
    let limits = KeyedLimiter::<u64>::builder(quota(2)).tiers([quota(2)], |key| usize::from(*key >= 200));
    let limits = limits.capacity(1).shared_buckets(1).clock(Stopped(7));
    let limits = limits.hasher(BuildHasherDefault::<Identity>::default()).build().unwrap();
    for owner in 100..104 {
        limits.check_n(&owner, 2).unwrap();
    }
    if let Some(key) = before {
        assert_eq!(limits.charge(&key, 1), 1);
    }
    let (limits, rival) = beside(limits, |limits| limits.charge(&A, 1));
    assert_eq!(limits.charge(&A, 1) + rival.join().unwrap(), 2);
    assert_eq!(limits.peek(&A).used(), 2, "both charges count");
}

/// [A charge without the lock: `weakenings/keyed`.]
// WORD: A word of keys without a slot in the keyed table
#[test]
fn shared_word_counts_both_charges() {
    check_rmw_preemptions(3, || charges_without_a_slot(None));
}

/// A key of another tier has the shared word, so the key's tier spends in a word of its own. [The same.]
// WORD: A fixed word of the keyed table, below its LEVEL
#[test]
fn fixed_word_counts_both_charges() {
    check_rmw_preemptions(3, || charges_without_a_slot(Some(200)));
}

/// Two calls race for the last token of a key whose quota comes with the call: one of them gets it.
fn last_token_by_plan() {
    let limits = KeyedLimiter::<u64>::by_plan().capacity(1).clock(Stopped(7));
    let limits = limits.hasher(BuildHasherDefault::<Identity>::default()).build().unwrap();
    let plan = Plan::new(Quota::per_second(2)).unwrap();
    limits.check_with(&A, &plan, 1).unwrap();
    let (limits, rival) = beside(limits, move |limits| limits.check_with(&A, &plan, 1).is_ok());
    assert!(limits.check_with(&A, &plan, 1).is_ok() ^ rival.join().unwrap(), "one token, one winner");
}

// WORD: A level of a bucket by plan
#[test]
fn bucket_by_plan_gives_its_last_token_once() {
    check_rmw_preemptions(4, last_token_by_plan);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "one token, one winner")]
fn bucket_by_plan_gives_its_last_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, last_token_by_plan);
}

/// A call finds that a cooldown is over while the breaker is tripped again.
///
/// The newer half-open state begins at its own time.
fn start_of_a_state() {
    OwnTime::set(0);
    let config = BreakerConfig::builder().max_half_open(secs(10)).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::with_clock(config, OwnTime));
    breaker.trip_for(secs(1));
    let rival = {
        let breaker = Arc::clone(&breaker);
        thread::spawn(move || {
            OwnTime::set(1);
            _ = breaker.try_acquire().map(core::mem::forget);
        })
    };
    OwnTime::set(1);
    breaker.trip_for(secs(1));
    OwnTime::set(2);
    _ = breaker.try_acquire().map(core::mem::forget);
    rival.join().unwrap();
    // The other call records the start too, at its own time, if it finds none.
    OwnTime::set(10);
    assert_eq!(breaker.state(), State::HalfOpen, "in its own time");
    OwnTime::set(12);
    assert_eq!(breaker.state(), State::Open, "in its own time");
}

// WORD: The word beside a breaker's
#[test]
fn half_open_state_has_a_start_of_its_own() {
    check_rmw_preemptions(2, start_of_a_state);
}

/// [A start that is stored and not swapped.]
#[test]
#[should_panic(expected = "in its own time")]
fn half_open_state_has_a_start_of_its_own_unless_flawed() {
    check_flawed(Flaw::BlindExchange, start_of_a_state);
}
