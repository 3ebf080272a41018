//! Every interleaving of the smallest race at packed words: two threads, one operation each.
//!
//! There is no bound on preemptions. The other files have larger models, of which some need one.
//! [The weakening under which each of these was seen to fail: a `store` in place of the swap.]
#![cfg(loom)]

use damper_core::breaker::{Permit, State, Window};
use damper_core::time::{FixedFrequency, Seed};
use damper_core::words::{AtomicU64, WordTable};
use damper_core::{
    BreakerConfig, CircuitBreaker, CircuitBreaker32, Clock, Plan, Quota, RateLimiter, RateLimiter32, Striped, WhenFull,
};
use damper_loom_tests::tables::{A, quota, ways};
use damper_loom_tests::{Flaw, Stopped, check, check_flawed};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

/// Runs one operation on each of two threads, and returns whether each succeeded.
fn race<T: Send + Sync + 'static>(word: T, operation: fn(&T) -> bool) -> (bool, bool, Arc<T>) {
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

#[test]
fn breaker_of_32_bits_counts_both_failures() {
    check(failures_in_32_bits);
}

#[test]
#[should_panic(expected = "two failures count")]
fn breaker_of_32_bits_counts_both_failures_unless_flawed() {
    check_flawed(Flaw::BlindExchange, failures_in_32_bits);
}

/// Two failures race: both count, so the second one opens a breaker of 64 bits.
fn failures_in_64_bits() {
    let config = BreakerConfig::builder().failure_threshold(2).build().unwrap();
    let breaker = CircuitBreaker::with_clock(config, Stopped(7));
    let (_, _, breaker) = race(breaker, |breaker| breaker.try_acquire().map(Permit::failure).is_ok());
    assert_eq!(breaker.state(), State::Open, "two failures count");
}

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

#[test]
fn register_counts_both_failures() {
    check(failures_in_a_register);
}

#[test]
#[should_panic(expected = "two failures count")]
fn register_counts_both_failures_unless_flawed() {
    check_flawed(Flaw::BlindExchange, failures_in_a_register);
}

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

#[test]
fn stripe_gives_its_last_token_once() {
    check(last_token_of_a_stripe);
}

#[test]
#[should_panic(expected = "one token, one winner")]
fn stripe_gives_its_last_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, last_token_of_a_stripe);
}
