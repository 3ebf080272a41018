//! Several limits in one decision: look at all, then take in one order.
//!
//! In brackets: the weakening of the code under which each model was seen to fail. `bucket` has the model of a set that takes
//! all or nothing, and `writes` that of refusals which write nothing.
#![cfg(loom)]

use damper_core::{KeyedLimiter, LimitSet, Quota, RateLimiter, TokenBucket, WhenFull};
use damper_loom_tests::tables::{A, B, Identity, beside, quota, ways};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::hash::BuildHasherDefault;
use std::time::Duration;

type Set = Arc<LimitSet<[TokenBucket; 2], Stopped>>;

/// Two limits of three tokens each, whose lines have started.
fn threes() -> Set {
    let set = LimitSet::with_clock([Quota::per_hour(1).burst(3); 2], Stopped(7));
    set.check_n(0).unwrap();
    Arc::new(set)
}

/// Two calls want more than there is of either limit: one of them is served, and never both.
///
/// [Swaps in another order for odd costs; a swap of any word.]
#[test]
fn one_of_two_calls_for_the_last_tokens_is_served() {
    check(one_of_two_calls_for_the_last_tokens_is_served_model);
}

#[test]
#[should_panic(expected = "one is served")]
fn one_of_two_calls_for_the_last_tokens_is_served_unless_flawed() {
    check_flawed(Flaw::BlindExchange, one_of_two_calls_for_the_last_tokens_is_served_model);
}

fn one_of_two_calls_for_the_last_tokens_is_served_model() {
    let set = threes();
    let rival = {
        let set = Arc::clone(&set);
        thread::spawn(move || set.check_n(3).is_ok())
    };
    let mine = set.check_n(2).is_ok();
    assert!(mine ^ rival.join().unwrap(), "one is served");
    assert_eq!(set.peek().map(|usage| usage.used()), [if mine { 2 } else { 3 }; 2]);
}

/// Two calls take different costs of each limit, and one is given back.
///
/// Each limit has what the other took.
///
/// [A roll-back of the cost of another limit.]
#[test]
fn roll_back_gives_back_each_cost() {
    check(roll_back_gives_back_each_cost_model);
}

#[test]
#[should_panic]
fn roll_back_gives_back_each_cost_unless_flawed() {
    check_flawed(Flaw::BlindExchange, roll_back_gives_back_each_cost_model);
}

fn roll_back_gives_back_each_cost_model() {
    let set = threes();
    let rival = {
        let set = Arc::clone(&set);
        thread::spawn(move || set.reserve([1, 3]).is_ok())
    };
    let mine = set.reserve([2, 1]).is_ok();
    assert!(mine ^ rival.join().unwrap(), "one is served");
    assert_eq!(set.peek().map(|usage| usage.used()), if mine { [2, 1] } else { [1, 3] });
}

/// A set is checked while its fast line is slowed a thousand times, and time passes.
///
/// A debt is owed for no longer than a burst takes. [A look that is judged without comparing the epoch.]
#[test]
fn look_leaves_no_word_ahead_of_a_slower_line() {
    check_preemptions(2, || {
        let clock = Time::at(0);
        let set = LimitSet::with_clock([Quota::per_second(1_000).burst(1)], clock.clone());
        set.check_n(0).unwrap();
        let set = Arc::new(set);
        let checker = {
            let set = Arc::clone(&set);
            thread::spawn(move || set.check().is_ok())
        };
        let ticker = {
            let clock = clock.clone();
            thread::spawn(move || clock.advance(Duration::from_secs(5)))
        };
        set.set_quota(0, Quota::per_second(1).burst(1)).unwrap();
        assert!(checker.join().unwrap(), "a full bucket");
        ticker.join().unwrap();
        let owed = set.peek()[0].resets_in().unwrap();
        assert!(owed <= Duration::from_micros(1_000_010), "{owed:?} are owed");
    });
}

/// The same holds for a key's limit and one for all.
///
/// [A slot that is judged without comparing the epoch.]
#[test]
fn look_at_a_key_leaves_no_word_ahead_of_a_slower_line() {
    check_preemptions(2, || {
        let clock = Time::at(0);
        let all = RateLimiter::with_clock(Quota::UNLIMITED, Stopped(7));
        let each = KeyedLimiter::<u64>::builder(Quota::per_second(1_000).burst(1)).capacity(1);
        let each = each.hasher(BuildHasherDefault::<Identity>::default()).clock(clock.clone()).build().unwrap();
        each.check(&7).unwrap();
        clock.advance(Duration::from_secs(1));
        let each = Arc::new(each);
        let checker = {
            let each = Arc::clone(&each);
            thread::spawn(move || each.check_n_with(&7, 1, &all).is_ok())
        };
        each.set_quota(Quota::per_second(1).burst(1)).unwrap();
        clock.advance(Duration::from_secs(5));
        assert!(checker.join().unwrap(), "a full bucket");
        let owed = each.peek(&7).resets_in().unwrap();
        assert!(owed <= Duration::from_micros(1_000_010), "{owed:?} are owed");
    });
}

/// A key and a limit for all have one token: of two calls of the key one is served.
///
/// Both limits have what it took.
///
/// [No roll-back; a swap of any word.]
#[test]
fn key_and_all_give_their_last_token_once() {
    check_preemptions(3, key_and_all_give_their_last_token_once_model);
}

#[test]
#[should_panic]
fn key_and_all_give_their_last_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, key_and_all_give_their_last_token_once_model);
}

fn key_and_all_give_their_last_token_once_model() {
    let all = Arc::new(RateLimiter::with_clock(Quota::per_hour(1).burst(1), Stopped(7)));
    let each = ways(4, WhenFull::SharedOverflow, quota(3));
    assert!(all.check_n(0).is_ok() && each.check(&A).is_ok());
    let rival = {
        let (each, all) = (Arc::clone(&each), Arc::clone(&all));
        thread::spawn(move || each.check_n_with(&A, 1, &all).is_ok())
    };
    let mine = each.check_n_with(&A, 1, &all).is_ok();
    assert!(mine ^ rival.join().unwrap(), "one is served");
    assert_eq!((each.peek(&A).used(), all.peek().used()), (2, 1));
}

/// A key gets the slot of an exhausted key while it is looked at.
///
/// No call is refused for the other key's debt.
///
/// [A refusal that does not look at the word again.]
#[test]
fn refusal_by_a_look_uses_only_its_own_keys_word() {
    check_preemptions(2, || {
        let free = || RateLimiter::with_clock(Quota::UNLIMITED, Stopped(7));
        let limits = ways(1, WhenFull::SharedOverflow, quota(2));
        limits.check_n(&A, 2).unwrap();
        let rival = beside(&limits, move |limits| limits.check_n_with(&B, 1, &free()).is_ok());
        // In another thread: a reset has a fence, which would order what this one writes next.
        let reset = beside(&limits, |limits| limits.reset(&A));
        let mine = limits.check_n_with(&B, 1, &free()).is_ok();
        assert!(mine & rival.join().unwrap(), "refused on another key's word");
        reset.join().unwrap();
    });
}
