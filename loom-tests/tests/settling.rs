//! Costs that are settled, and sets whose quotas change.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::{Bulkhead, LimitSet, Quota, RateLimiter, TokenBucket, WhenFull};
use damper_loom_tests::tables::{self, A};
use damper_loom_tests::{Flaw, Stopped, check, check_flawed, check_preemptions};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

const NOW: Stopped = Stopped(7);

/// A call is settled while another looks for a free slot.
///
/// The other finds the tokens that were given back before the slot. [The slot freed first.]
#[test]
fn next_call_finds_settled_tokens() {
    check(|| {
        let set = LimitSet::with_clock([Quota::per_hour(1).burst(2)], NOW).with_bulkhead(Bulkhead::with_clock(1, NOW));
        let set = Arc::new(set);
        let call = set.reserve_owned([2]).unwrap();
        let rival = {
            let set = Arc::clone(&set);
            thread::spawn(move || {
                if set.bulkhead().in_flight() == 0 {
                    assert!(set.reserve([2]).is_ok(), "the tokens are there with the slot");
                }
            })
        };
        call.settle([0]);
        rival.join().unwrap();
    });
}

/// Two calls race for the last slot: the one that gets none gives its tokens back.
///
/// [No roll-back when the bulkhead is full.]
#[test]
fn call_without_a_slot_takes_no_tokens() {
    check_preemptions(3, call_without_a_slot_takes_no_tokens_model);
}

#[test]
#[should_panic]
fn call_without_a_slot_takes_no_tokens_unless_flawed() {
    check_flawed(Flaw::BlindExchange, call_without_a_slot_takes_no_tokens_model);
}

fn call_without_a_slot_takes_no_tokens_model() {
    let set = LimitSet::with_clock([Quota::per_hour(1).burst(3)], NOW).with_bulkhead(Bulkhead::with_clock(1, NOW));
    let set = Arc::new(set);
    let rival = {
        let set = Arc::clone(&set);
        thread::spawn(move || set.reserve_owned([1]).ok())
    };
    let mine = set.reserve([1]).ok();
    let other = rival.join().unwrap();
    assert!(mine.is_some() ^ other.is_some(), "one slot, one call");
    assert_eq!((set.peek()[0].remaining(), set.bulkhead().in_flight()), (2, 1));
}

/// A reservation is settled before its tokens are there, while another is made.
///
/// The rest is given back only if it was the last, so that the other's wait stays the same. [Withdrawn without
/// comparing the word.]
#[test]
fn settled_reservation_keeps_others_in_place() {
    check(settled_reservation_keeps_others_in_place_model);
}

#[test]
#[should_panic]
fn settled_reservation_keeps_others_in_place_unless_flawed() {
    check_flawed(Flaw::BlindExchange, settled_reservation_keeps_others_in_place_model);
}

fn settled_reservation_keeps_others_in_place_model() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(2), NOW));
    limiter.check_n(2).unwrap();
    let first = limiter.reserve(2).unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || {
            let slot = limiter.reserve(1).unwrap();
            [slot.ready_in(), slot.ready_in()]
        })
    };
    first.settle(1);
    let waits = rival.join().unwrap();
    let owed = limiter.debt();
    assert_eq!(waits, [Some(Duration::from_secs(owed.into())); 2], "{owed} are owed");
    assert!((2..=3).contains(&owed));
}

/// A reservation of a key is settled while another is made: both count, with what they use.
///
/// [An answer without the swap; a `store` in place of the swap.]
#[test]
fn settled_reservation_of_a_key_gives_back_what_it_did_not_use() {
    check_preemptions(3, settled_reservation_of_a_key_gives_back_what_it_did_not_use_model);
}

#[test]
#[should_panic]
fn settled_reservation_of_a_key_gives_back_what_it_did_not_use_unless_flawed() {
    tables::check_flawed(Flaw::BlindExchange, settled_reservation_of_a_key_gives_back_what_it_did_not_use_model);
}

fn settled_reservation_of_a_key_gives_back_what_it_did_not_use_model() {
    let limits = tables::ways(1, WhenFull::SharedOverflow, Quota::per_second(1).burst(2).max_debt(8));
    limits.check_n(&A, 2).unwrap();
    let first = limits.reserve(&A, 2).unwrap();
    let rival = tables::beside(&limits, |limits| {
        let wait = limits.reserve(&A, 1).unwrap().ready_in().unwrap();
        assert!((2..=3).contains(&wait.as_secs()), "with one or two before it: {wait:?}");
    });
    first.settle(1);
    rival.join().unwrap();
    let wait = limits.reserve(&A, 1).unwrap().ready_in();
    assert_eq!(wait, Some(Duration::from_secs(3)), "one each");
}

/// Two threads change the quotas of a set: those of one are left, or each finds the other at work.
///
/// [Each quota changed before the next is claimed.]
#[test]
fn quotas_of_a_set_change_together() {
    check(|| {
        let set = Arc::new(LimitSet::with_clock([Quota::per_second(1), Quota::per_second(1)], NOW));
        set.check_n(0).unwrap(); // starts the lines
        let change = |limit| [Quota::per_second(limit), Quota::per_second(limit)];
        let rival = {
            let set = Arc::clone(&set);
            thread::spawn(move || set.set_quotas(change(2)).is_ok())
        };
        let mine = set.set_quotas(change(3)).is_ok();
        assert!(rival.join().unwrap() | mine, "one of them is first");
        let limits = set.peek().map(|usage| usage.limit());
        assert!(matches!(limits, [2, 2] | [3, 3]), "one of the two: {limits:?}");
    });
}

/// A set of one limit of eight tokens, of which half a burst may be unsettled.
fn half_a_burst() -> Arc<LimitSet<[TokenBucket; 1], Stopped>> {
    let set = LimitSet::with_clock([Quota::per_hour(1).burst(8)], NOW).unsettled(0.5).unwrap();
    set.check_n(0).unwrap(); // starts the line
    Arc::new(set)
}

/// Two reservations of a set take up all that may be unsettled: a third one gives nothing back.
///
/// [A `store` in the place of the swap that counts; counts beyond the bound.]
// WORD: A word of unsettled reservations
// CLAIM: LimitSet
#[test]
fn unsettled_reservations_of_a_set_stay_within_the_bound() {
    check(unsettled_reservations_of_a_set_stay_within_the_bound_model);
}

#[test]
#[should_panic]
fn unsettled_reservations_of_a_set_stay_within_the_bound_unless_flawed() {
    check_flawed(Flaw::BlindExchange, unsettled_reservations_of_a_set_stay_within_the_bound_model);
}

fn unsettled_reservations_of_a_set_stay_within_the_bound_model() {
    let set = half_a_burst();
    let reserve = |set: &LimitSet<_, _>| std::mem::forget(set.reserve([2]).unwrap());
    let rival = {
        let set = Arc::clone(&set);
        thread::spawn(move || reserve(&set))
    };
    reserve(&set);
    rival.join().unwrap();
    set.reserve([2]).unwrap().settle([0]);
    assert_eq!(set.peek()[0].used(), 6, "half a burst is unsettled for ever");
}

/// A reservation is settled while another is made.
///
/// From then on, no more than the bound is given back: room is free only after a refund. [Freed before the refund.]
// CLAIM: LimitSet
#[test]
fn room_for_the_unsettled_is_free_after_the_refund() {
    check(|| {
        let set = half_a_burst();
        let first = set.reserve_owned([4]).unwrap();
        let rival = {
            let set = Arc::clone(&set);
            thread::spawn(move || {
                let call = set.reserve_owned([2]).unwrap();
                let used = set.peek()[0].used();
                (call, used)
            })
        };
        first.settle([0]);
        let (call, used) = rival.join().unwrap();
        call.settle([0]);
        let given_back = used.saturating_sub(set.peek()[0].used());
        assert!(given_back <= 4, "{given_back} were unsettled");
    });
}
