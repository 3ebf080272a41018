//! Retry budgets: deposits and withdrawals that race.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::retry::{Budget, Failure, RetryBucket, RetryBudget, RetryBudgetConfig, RetryQuota, RetryThrottle};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

/// Calls bring a retry each, and nothing else does but a reserve.
fn config(reserve: u32) -> RetryBudgetConfig {
    RetryBudgetConfig::builder().ratio(1.0).floor(0).reserve(reserve).ttl(Duration::from_secs(2)).build().unwrap()
}

/// A call races two retries: its deposit and the previous one are withdrawn once each.
fn withdrawn_once_model() {
    let budget = Arc::new(RetryBudget::with_clock(config(0), Stopped(7)));
    budget.began();
    let rival = {
        let budget = Arc::clone(&budget);
        thread::spawn(move || {
            budget.began();
            u32::from(budget.try_withdraw())
        })
    };
    let mine = u32::from(budget.try_withdraw());
    let raced = mine + rival.join().unwrap();
    let left = u32::from(budget.try_withdraw()) + u32::from(budget.try_withdraw());
    assert_eq!(raced + left, 2, "two deposits, two withdrawals");
}

// WORD: The deposits of a retry budget
// CLAIM: RetryBudget
#[test]
fn a_deposit_is_withdrawn_once() {
    check(withdrawn_once_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "two deposits, two withdrawals")]
fn a_deposit_is_withdrawn_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, withdrawn_once_model);
}

/// Two calls of two threads, while a slice of time ends.
///
/// Neither deposit is lost, and both are there in the next slice.
fn no_deposit_lost_model() {
    let time = Time::at(7);
    let budget = Arc::new(RetryBudget::with_clock(config(0), time.clone()));
    let rival = {
        let budget = Arc::clone(&budget);
        thread::spawn(move || budget.began())
    };
    time.advance(Duration::from_secs(1));
    budget.began();
    rival.join().unwrap();
    let withdrawn = [budget.try_withdraw(), budget.try_withdraw(), budget.try_withdraw()];
    assert_eq!(withdrawn, [true, true, false], "no deposit is lost");
}

#[test]
fn no_deposit_is_lost() {
    check(no_deposit_lost_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "no deposit is lost")]
fn no_deposit_is_lost_unless_flawed() {
    check_flawed(Flaw::BlindExchange, no_deposit_lost_model);
}

/// Two retries race for a reserve of one.
// CLAIM: RetryBudget
#[test]
fn reserve_is_withdrawn_once() {
    check_preemptions(3, || {
        let budget = Arc::new(RetryBudget::with_clock(config(1), Stopped(7)));
        let rival = {
            let budget = Arc::clone(&budget);
            thread::spawn(move || u32::from(budget.try_withdraw()))
        };
        let mine = u32::from(budget.try_withdraw());
        assert_eq!(mine + rival.join().unwrap(), 1, "one in reserve, one withdrawal");
    });
}

/// Two calls and a retry race at a bucket that is empty.
///
/// The calls fill it, and by no more than they bring.
#[test]
fn calls_fill_the_bucket_once() {
    check_preemptions(2, || {
        let budget = Arc::new(RetryBucket::with_clock(config(2), Stopped(7)));
        assert!(budget.try_withdraw() && budget.try_withdraw());
        let rival = {
            let budget = Arc::clone(&budget);
            thread::spawn(move || {
                budget.began();
                u32::from(budget.try_withdraw())
            })
        };
        budget.began();
        let mine = u32::from(budget.try_withdraw());
        let raced = mine + rival.join().unwrap();
        let left = u32::from(budget.try_withdraw()) + u32::from(budget.try_withdraw());
        assert_eq!(raced + left, 2, "two calls, two withdrawals");
    });
}

/// Two failures and a success race: each is counted.
fn throttle_model() {
    let throttle = Arc::new(RetryThrottle::new(10, 0.5).unwrap());
    throttle.failed();
    let rival = {
        let throttle = Arc::clone(&throttle);
        thread::spawn(move || {
            throttle.failed();
            throttle.succeeded();
        })
    };
    throttle.failed();
    rival.join().unwrap();
    assert_eq!(throttle.thousandths(), 7_500, "every outcome is counted");
}

#[test]
fn throttle_counts_every_outcome() {
    check(throttle_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "every outcome is counted")]
fn throttle_counts_every_outcome_unless_flawed() {
    check_flawed(Flaw::BlindExchange, throttle_model);
}

/// Two retries race for the tokens of a quota, and one succeeds. None is spent twice, and none is lost.
fn quota_model() {
    let quota = Arc::new(RetryQuota::new(6).unwrap());
    let rival = {
        let quota = Arc::clone(&quota);
        thread::spawn(move || {
            let is_made = quota.try_withdraw();
            if is_made {
                quota.retry_succeeded(Failure::TRANSIENT);
            }
            is_made
        })
    };
    let mine = quota.try_withdraw();
    let theirs = rival.join().unwrap();
    assert!(mine || theirs, "one of them found five tokens");
    let left = if mine { 1 } else { 6 };
    assert_eq!(quota.tokens(), left, "each token is spent once");
}

// CLAIM: RetryBudget
#[test]
fn quota_spends_each_token_once() {
    check(quota_model);
}

/// [A word that is stored and not swapped.]
#[test]
#[should_panic(expected = "each token is spent once")]
fn quota_spends_each_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, quota_model);
}
