//! Every interleaving of the smallest race at packed words: two threads, one operation each.
//!
//! There is no bound on preemptions. `every_plain_interleaving.rs` has those that need one with each load a read-modify-write, and the
//! other files have larger models, of which some need one in both settings.
//! [The weakening under which each of these was seen to fail: a `store` in place of the swap.]
#![cfg(loom)]

use damper_core::breaker::{Permit, State, Window};
use damper_core::retry::{Budget, Hedge, HedgeConfig, RetryBudget, RetryBudgetConfig, RetrySchedule};
use damper_core::throttle::compared::CubicRate;
use damper_core::throttle::{Hints, Level, Pacer, Strategy};
use damper_core::time::{FixedFrequency, Seed};
use damper_core::words::{AtomicU64, WordTable};
use damper_core::{
    BreakerConfig, CircuitBreaker, CircuitBreaker32, Clock, Live, Plan, Quota, RateLimiter, RateLimiter32, Striped,
    WhenFull,
};
use damper_loom_tests::tables::{A, quota, ways};
use damper_loom_tests::{Flaw, Hand, OwnTime, Stopped, check, check_flawed};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

/// Runs one operation on each of two threads, and returns whether each succeeded.
fn race<T: Send + Sync + 'static>(word: T, operation: impl Fn(&T) -> bool + Copy + 'static) -> (bool, bool, Arc<T>) {
    let word = Arc::new(word);
    let rival = {
        let word = Arc::clone(&word);
        thread::spawn(move || operation(&word))
    };
    let mine = operation(&word);
    (mine, rival.join().unwrap(), word)
}

/// A clock that stands still, whose frequency is a constant.
#[derive(Clone, Copy, Debug)]
struct At(u64);

impl FixedFrequency for At {
    const HERTZ: u64 = 1_000;
}

impl Clock for At {
    fn now(&self) -> u64 {
        self.0
    }

    fn frequency(&self) -> u64 {
        Self::HERTZ
    }
}

/// Two calls race for the last token of a limiter of 32 bits: one of them gets it.
fn last_token_in_32_bits() {
    let limiter = RateLimiter32::new(Quota::per_second(1), At(7)).unwrap();
    let (mine, its, _) = race(limiter, |limiter| limiter.check().is_ok());
    assert!(mine ^ its, "one token, one winner");
}

#[test]
fn limiter_of_32_bits_gives_its_last_token_once() {
    check(last_token_in_32_bits);
}

#[test]
#[should_panic(expected = "one token, one winner")]
fn limiter_of_32_bits_gives_its_last_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, last_token_in_32_bits);
}

/// Two calls race for the last token of a limiter: one of them gets it.
///
/// They are its first, so that they also race for the start of its line.
fn last_token() {
    let limiter = RateLimiter::with_clock(Quota::per_second(1), Stopped(7));
    let (mine, its, _) = race(limiter, |limiter| limiter.check().is_ok());
    assert!(mine ^ its, "one token, one winner");
}

#[test]
fn limiter_gives_its_last_token_once() {
    check(last_token);
}

#[test]
#[should_panic(expected = "one token, one winner")]
fn limiter_gives_its_last_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, last_token);
}

/// Two failures race: both count, so the second one opens a breaker of 32 bits.
fn failures_in_32_bits() {
    let config = BreakerConfig::builder().failure_threshold(2).build().unwrap();
    let breaker = CircuitBreaker32::new(config, At(7)).unwrap();
    let (_, _, breaker) = race(breaker, |breaker| breaker.try_acquire().map(Permit::failure).is_ok());
    assert_eq!(breaker.state(), State::Open, "two failures count");
}

// WORD: A breaker of 32 bits
#[test]
fn breaker_of_32_bits_counts_both_failures() {
    check(failures_in_32_bits);
}

#[test]
#[should_panic(expected = "two failures count")]
fn breaker_of_32_bits_counts_both_failures_unless_flawed() {
    check_flawed(Flaw::BlindExchange, failures_in_32_bits);
}

/// The cooldown of a breaker of 32 bits is over: of two calls one is the probe.
fn probes_in_32_bits() {
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_secs(1));
    let breaker = CircuitBreaker32::new(config.build().unwrap(), OwnTime).unwrap();
    OwnTime::set(0);
    breaker.try_acquire().unwrap().failure();
    OwnTime::set(2);
    let (mine, its, _) = race(breaker, |breaker| {
        OwnTime::set(2);
        breaker.try_acquire().map(core::mem::forget).is_ok()
    });
    assert!(mine ^ its, "one probe");
}

// WORD: The PAYLOAD of 32 bits in the half-open state
#[test]
fn breaker_of_32_bits_admits_one_probe() {
    check(probes_in_32_bits);
}

#[test]
#[should_panic(expected = "one probe")]
fn breaker_of_32_bits_admits_one_probe_unless_flawed() {
    check_flawed(Flaw::BlindExchange, probes_in_32_bits);
}

/// Two failures race: both count, so the second one opens a breaker of 64 bits.
fn failures_in_64_bits() {
    let config = BreakerConfig::builder().failure_threshold(2).build().unwrap();
    let breaker = CircuitBreaker::with_clock(config, Stopped(7));
    let (_, _, breaker) = race(breaker, |breaker| breaker.try_acquire().map(Permit::failure).is_ok());
    assert_eq!(breaker.state(), State::Open, "two failures count");
}

// WORD: A breaker of 64 bits
#[test]
fn breaker_of_64_bits_counts_both_failures() {
    check(failures_in_64_bits);
}

#[test]
#[should_panic(expected = "two failures count")]
fn breaker_of_64_bits_counts_both_failures_unless_flawed() {
    check_flawed(Flaw::BlindExchange, failures_in_64_bits);
}

/// Two calls race for the last token of a key that has a slot: one of them gets it.
fn last_token_of_a_key() {
    let limits = ways(1, WhenFull::SharedOverflow, quota(2));
    limits.check(&A).unwrap();
    let (mine, its, _) = race(limits, |limits| limits.check(&A).is_ok());
    assert!(mine ^ its, "one token, one winner");
}

// WORD: A slot of the keyed table
#[test]
fn slot_gives_its_last_token_once() {
    check(last_token_of_a_key);
}

#[test]
#[should_panic(expected = "one token, one winner")]
fn slot_gives_its_last_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, last_token_of_a_key);
}

/// Ends two calls on two threads at once.
fn end_at_once<P: Send + 'static>([mine, its]: [P; 2], end: fn(P)) {
    let rival = thread::spawn(move || end(its));
    end(mine);
    rival.join().unwrap();
}

/// Two failures race in a window: both count, so the second one reaches the rate.
fn failures_in(window: Window) {
    let config = BreakerConfig::builder().failure_threshold(u32::MAX).failure_rate(100).minimum_calls(2);
    // Slow calls, of which there are none, so that a ring has fewer outcomes in a word.
    let config = config.slow_rate(100, Duration::from_secs(1_000)).window(window).build().unwrap();
    let breaker = std::sync::Arc::new(CircuitBreaker::with_clock(config, Stopped(7)));
    assert_eq!(breaker.status().calls(), 0, "computes what a tick is worth");
    end_at_once([(); 2].map(|()| breaker.try_acquire_owned().unwrap()), Permit::failure);
    assert_eq!(breaker.state(), State::Open, "two failures count");
}

fn failures_in_a_register() {
    failures_in(Window::last_calls(4));
}

fn failures_in_a_ring() {
    failures_in(Window::last_calls(25));
}

// WORD: A window of at most 48 calls
#[test]
fn register_counts_both_failures() {
    check(failures_in_a_register);
}

#[test]
#[should_panic(expected = "two failures count")]
fn register_counts_both_failures_unless_flawed() {
    check_flawed(Flaw::BlindExchange, failures_in_a_register);
}

// WORD: The head of a window of at most 4,096 calls
// WORD: A word of the ring of such a window
#[test]
fn ring_counts_both_failures() {
    check(failures_in_a_ring);
}

#[test]
#[should_panic(expected = "two failures count")]
fn ring_counts_both_failures_unless_flawed() {
    check_flawed(Flaw::BlindExchange, failures_in_a_ring);
}

/// Two processes race for the last token of a key that has a slot in a table on words: one gets it.
fn last_token_in_a_word_table() {
    let words: [AtomicU64; 10] = std::array::from_fn(|_| AtomicU64::new(0));
    let check = |words: &[AtomicU64; 10]| {
        let plan = Plan::new(Quota::per_second(2)).unwrap();
        WordTable::<u64, _>::new(words, plan, Stopped(7_000_000_000), Seed::new(1, 2)).unwrap().check(&5).is_ok()
    };
    assert!(check(&words));
    let (mine, its, _) = race(words, check);
    assert!(mine ^ its, "one token, one winner");
}

// WORD: A slot of a table of words
#[test]
fn word_table_gives_its_last_token_once() {
    check(last_token_in_a_word_table);
}

#[test]
#[should_panic(expected = "one token, one winner")]
fn word_table_gives_its_last_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, last_token_in_a_word_table);
}

/// Two calls race for the last token of a limiter in stripes, of which there is one: one gets it.
fn last_token_of_a_stripe() {
    let limiter = Striped::with_stripes(Quota::per_second(4), 2, 1, Stopped(7)).unwrap();
    assert!(limiter.check().is_ok());
    let (mine, its, _) = race(limiter, |limiter| limiter.check().is_ok());
    assert!(mine ^ its, "one token, one winner");
}

// WORD: A stripe
#[test]
fn stripe_gives_its_last_token_once() {
    check(last_token_of_a_stripe);
}

#[test]
#[should_panic(expected = "one token, one winner")]
fn stripe_gives_its_last_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, last_token_of_a_stripe);
}

/// Two answers race for what a pacer has learned.
///
/// Later calls get the places that they get after two answers on one thread. After one answer they get others.
fn answers<S: Strategy + Copy + Send + Sync + 'static>(strategy: S, hints: Hints) {
    let prepared = || {
        let hand = Hand::default();
        let pacer = Pacer::with_clock(strategy, hand.clone(), 1);
        _ = pacer.answered(&hints);
        hand.advance(Duration::from_secs(10));
        (pacer, hand)
    };
    let places = |pacer: &Pacer<S, Hand>, hand: &Hand| {
        hand.advance(Duration::from_secs(1));
        _ = pacer.answered(&Hints::REJECTED);
        [(); 3].map(|()| pacer.before_call())
    };
    let [after_one, after_two] = [1, 2].map(|answers| {
        let (pacer, hand) = prepared();
        (0..answers).for_each(|_| _ = pacer.answered(&hints));
        places(&pacer, &hand)
    });
    assert_ne!(after_one, after_two, "an answer that is lost shows");
    let (pacer, hand) = prepared();
    let (_, _, pacer) = race(pacer, move |pacer| pacer.answered(&hints).is_some());
    assert_eq!(places(&pacer, &hand), after_two, "both answers are learned from");
}

fn answers_of_a_cubic_rate() {
    answers(CubicRate::new(Quota::per_second(100)), Hints::ACCEPTED);
}

fn answers_of_level() {
    answers(Level::new(Quota::per_hour(4_500)), Hints::REJECTED);
}

// WORD: The word `learned` of a cubic rate
#[test]
fn cubic_rate_learns_from_both_answers() {
    check(answers_of_a_cubic_rate);
}

#[test]
#[should_panic(expected = "both answers are learned from")]
fn cubic_rate_learns_from_both_answers_unless_flawed() {
    check_flawed(Flaw::BlindExchange, answers_of_a_cubic_rate);
}

// WORD: The state of the pacing strategy Level
#[test]
fn level_learns_from_both_answers() {
    check(answers_of_level);
}

#[test]
#[should_panic(expected = "both answers are learned from")]
fn level_learns_from_both_answers_unless_flawed() {
    check_flawed(Flaw::BlindExchange, answers_of_level);
}

/// Two threads set a schedule and read it: each reads one of them, whole.
///
/// [None: nothing is swapped or ordered.]
// WORD: The schedule of a retry policy
#[test]
fn schedule_is_read_whole() {
    check(|| {
        let schedules = [RetrySchedule::new(2), RetrySchedule::new(3).base_delay(Duration::from_secs(1))];
        let live = Arc::new(Live::new(RetrySchedule::new(1)));
        let rival = {
            let live = Arc::clone(&live);
            thread::spawn(move || {
                live.set(schedules[0]);
                live.get()
            })
        };
        live.set(schedules[1]);
        let seen = [live.get(), rival.join().unwrap()];
        assert!(seen.iter().all(|seen| schedules.contains(seen)), "one schedule, whole");
        assert!(seen.contains(&live.get()), "the last one stays");
    });
}

/// The settings of a hedge are read while another thread sets them.
///
/// [None: nothing is swapped or ordered.]
// WORD: The settings of a hedge, without its delays
#[test]
fn settings_of_a_hedge_are_read_whole() {
    check(|| {
        let config = |extra, attempts| {
            let config = HedgeConfig::builder().max_extra(extra).max_attempts(attempts);
            config.fixed_delay(Duration::from_secs(1)).build().unwrap()
        };
        let configs = [config(0.1, 2), config(0.2, 3)];
        let hedge = Arc::new(Hedge::with_clock(configs[0], Stopped(7)));
        let rival = {
            let hedge = Arc::clone(&hedge);
            thread::spawn(move || hedge.set_config(&configs[1]))
        };
        assert!(configs.contains(&hedge.config()), "one configuration, whole");
        rival.join().unwrap();
        assert_eq!(hedge.config(), configs[1]);
    });
}

/// A call makes its deposit while the settings of a budget change.
///
/// The deposit is that of one of both. [None: nothing is swapped or ordered.]
// WORD: The settings of a retry budget
#[test]
fn deposit_is_of_one_configuration() {
    check(|| {
        let config = |ratio, seconds| {
            let config = RetryBudgetConfig::builder().ratio(ratio).floor(0).reserve(0);
            config.ttl(Duration::from_secs(seconds)).build().unwrap()
        };
        let budget = Arc::new(RetryBudget::with_clock(config(1.0, 2), Stopped(7)));
        budget.began();
        let rival = {
            let budget = Arc::clone(&budget);
            thread::spawn(move || budget.began())
        };
        budget.set_config(config(3.0, 4)).unwrap();
        rival.join().unwrap();
        assert!([2, 4].contains(&budget.retries_left()), "a deposit of one configuration");
    });
}
