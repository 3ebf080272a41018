//! Waiting for the tokens of a key.
//!
//! Waiters are cancelled while others come, keys lose their slots, and threads block while tokens are given back. In
//! brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::keyed::KeyedReservation;
use damper_core::{Quota, WhenFull};
use damper_loom_tests::tables::{A, B, Limits, beside, check_flawed, sharing, taken_and_given_back, ways};
use damper_loom_tests::{Flaw, Stopped, check, check_preemptions};

/// A token an hour, and room for so many waiters.
fn quota(burst: u32) -> Quota {
    Quota::per_hour(1).burst(burst).max_debt(8)
}

/// When it is ready, in hours.
fn hours(reservation: &KeyedReservation<'_, Stopped>) -> u64 {
    let wait = reservation.ready_in().unwrap();
    assert_eq!(wait.as_secs() % 3_600, 0, "{wait:?}");
    wait.as_secs() / 3_600
}

fn reserve(limits: &Limits, key: u64, n: u32) -> Option<u64> {
    limits.reserve(&key, n).ok().map(|reservation| hours(&reservation))
}

/// Two waiters are cancelled, the later one first, while a third comes.
///
/// Tokens behind the third are given back, tokens before it count as used. Its wait stays the same, and no other waiter
/// has the same one.
///
/// [`cancel` without comparing the word; a `store` in place of the swap.]
#[test]
fn cancelled_waiter_of_a_key_keeps_others_in_place() {
    check_preemptions(3, || cancelled_waiter_of_a_key_keeps_others_in_place_model(true));
    check_preemptions(3, || cancelled_waiter_of_a_key_keeps_others_in_place_model(false));
}

#[test]
#[should_panic(expected = "of three are given back")]
fn cancelled_waiter_of_a_key_keeps_others_in_place_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || cancelled_waiter_of_a_key_keeps_others_in_place_model(true));
}

fn cancelled_waiter_of_a_key_keeps_others_in_place_model(last_first: bool) {
    let limits = ways(1, WhenFull::SharedOverflow, quota(1));
    limits.check(&A).unwrap();
    let [first, last] = [(); 2].map(|()| limits.reserve(&A, 1).unwrap());
    let third = beside(&limits, |limits| {
        let place = limits.reserve(&A, 1).unwrap();
        [hours(&place), hours(&place)]
    });
    let cancelled = if last_first { [last.cancel(), first.cancel()] } else { [first.cancel(), last.cancel()] };
    let waits = third.join().unwrap();
    let next = reserve(&limits, A, 1).unwrap();
    assert_eq!(waits, [next - 1; 2], "it has the last place, and keeps it");
    let given_back = cancelled.into_iter().filter(|cancelled| *cancelled).count() as u64;
    assert_eq!(next, 4 - given_back, "{given_back} of three are given back");
    assert!(given_back <= if last_first { 2 } else { 1 });
}

/// A waiter is cancelled while the limiter is cleared, and its key comes back to owe as much as before.
///
/// But for its version the word is the same again, and nothing of the new debt is given back.
///
/// [A version that stays when a slot is claimed.]
#[test]
fn cancel_beside_clear_gives_back_only_its_own() {
    check_preemptions(2, || {
        // All slots are vacant, so the key gets the same one again.
        let limits = ways(4, WhenFull::SharedOverflow, quota(1));
        limits.check(&A).unwrap();
        let waiter = limits.reserve(&A, 1).unwrap();
        let rival = beside(&limits, |limits| {
            limits.clear();
            limits.check(&A).unwrap();
            reserve(limits, A, 1)
        });
        waiter.cancel();
        assert_eq!(rival.join().unwrap(), Some(1));
        assert_eq!(reserve(&limits, A, 1), Some(2), "another's tokens were given back");
    });
}

/// A key comes to owe more than its burst while a newcomer wants its slot.
///
/// Either the newcomer has the slot with its old debt, or the waiter keeps its place.
///
/// [A slot that is claimed even if its word has changed.]
#[test]
fn waiter_keeps_its_place_beside_a_newcomer() {
    check_preemptions(2, || waiter_keeps_its_place_beside_a_newcomer_model(WhenFull::EvictLeastIndebted));
    check_preemptions(2, || waiter_keeps_its_place_beside_a_newcomer_model(WhenFull::SharedOverflow));
    check_preemptions(2, || waiter_keeps_its_place_beside_a_newcomer_model(WhenFull::DenyNew));
}

#[test]
#[should_panic(expected = "has a place")]
fn waiter_keeps_its_place_beside_a_newcomer_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || {
        waiter_keeps_its_place_beside_a_newcomer_model(WhenFull::EvictLeastIndebted);
    });
}

fn waiter_keeps_its_place_beside_a_newcomer_model(when_full: WhenFull) {
    let limits = ways(1, when_full, quota(2));
    limits.check(&A).unwrap();
    let rival = beside(&limits, |limits| limits.check(&B).is_ok());
    let waiter = limits.reserve(&A, 2).ok();
    let newcomer_came = rival.join().unwrap();
    match waiter {
        // It was there before the newcomer looked, or the newcomer spent of a shared bucket.
        Some(place) => {
            assert_eq!((hours(&place), limits.peek(&A).remaining()), (1, 0), "has a place");
            assert_eq!(newcomer_came, when_full == WhenFull::SharedOverflow);
        }
        None => assert!(newcomer_came && when_full == WhenFull::EvictLeastIndebted, "has a place"),
    }
    assert_eq!(limits.len(), 4);
}

/// Two threads come for a key that neither has seen: it has one slot, and each has a place of its own.
///
/// [`first_sight` without looking again for a slot under the lock.]
#[test]
fn concurrent_first_waiters_have_a_place_each() {
    check_preemptions(3, || {
        let limits = ways(2, WhenFull::SharedOverflow, quota(1));
        let rival = beside(&limits, |limits| reserve(limits, A, 1));
        let mut waits = [reserve(&limits, A, 1), rival.join().unwrap()];
        waits.sort_unstable();
        assert_eq!(waits, [Some(0), Some(1)], "places of one bucket");
        assert_eq!(limits.len(), 3);
    });
}

/// A key without a slot gives up its place in the shared bucket, while another key takes one there.
///
/// Each keeps a place of its own.
///
/// [A cancel without the bucket's lock.]
#[test]
fn cancel_in_a_shared_bucket_keeps_others_in_place() {
    check(|| {
        let limits = sharing(1, 0, WhenFull::SharedOverflow, quota(1));
        let [_, waiter] = [(); 2].map(|()| limits.reserve(&A, 1).unwrap());
        let rival = beside(&limits, |limits| reserve(limits, B, 1).unwrap());
        let is_given_back = waiter.cancel();
        let other = rival.join().unwrap();
        assert_eq!(other, if is_given_back { 1 } else { 2 });
        assert_eq!(reserve(&limits, A, 1), Some(other + 1), "the place behind the other");
    });
}

/// Moves the word of a key back.
fn gives_back(change: fn(&Limits)) {
    check_preemptions(2, move || {
        let never = Quota::per_second(0).burst(1).max_debt(2);
        let limits = ways(2, WhenFull::SharedOverflow, never);
        limits.check(&A).unwrap();
        let waiter = beside(&limits, |limits| limits.acquire(&A, 1).wait().unwrap());
        change(&limits);
        waiter.join().unwrap();
    });
}

/// A thread blocks for a token of a key that never drips in, while it is given back.
///
/// The thread is woken, whatever it was about to do.
///
/// [A refund that notifies no thread, or notifies before it moves the word; without the fence, there or in the waiter.]
#[test]
fn refund_wakes_a_waiter_of_a_key() {
    gives_back(|limits| assert_eq!(limits.refund(&A, 1), 1));
}

/// [A reset that notifies no thread.]
#[test]
fn reset_wakes_a_waiter_of_a_key() {
    // A reset before the thread comes leaves a token for it.
    gives_back(|limits| limits.reset(&A));
}

/// [A change of the quota that notifies no thread.]
#[test]
fn quota_change_wakes_a_waiter_of_a_key() {
    gives_back(|limits| limits.set_quota(Quota::per_second(0).burst(2).max_debt(2)).unwrap());
}

/// [A change of the tier that notifies no thread.]
#[test]
fn tier_change_wakes_a_waiter_of_a_key() {
    gives_back(|limits| limits.set_tier(&A, 1).unwrap());
}

/// A thread that blocks is woken by a refund or by a place that is given up.
///
/// The token of the refund is reserved at once, and then that place is given up. [A cancel that notifies no thread.]
#[test]
fn cancel_wakes_a_waiter_of_a_key() {
    check_preemptions(2, || {
        let never = Quota::per_second(0).burst(1).max_debt(4);
        let limits = ways(2, WhenFull::SharedOverflow, never);
        limits.check(&A).unwrap();
        // A thread that comes later than this waiter can be served only if that gives up.
        let first = limits.reserve(&A, 1).unwrap();
        let waiter = beside(&limits, |limits| limits.acquire(&A, 1).wait().is_ok());
        limits.refund(&A, 1);
        if first.cancel() {
            // The thread came later, or has seen the cancel.
            assert!(waiter.join().unwrap());
        } else {
            limits.refund(&A, 1);
            assert!(waiter.join().unwrap());
        }
    });
}

/// A call takes the last token of a key and then gives it back.
///
/// A thread that came between is woken. [A roll-back that notifies no thread.]
#[test]
fn roll_back_wakes_a_waiter_of_a_key() {
    check_preemptions(2, || {
        let never = Quota::per_second(0).burst(1).max_debt(1);
        let limits = ways(2, WhenFull::SharedOverflow, never);
        limits.check_n(&A, 0).unwrap();
        let waiter = beside(&limits, |limits| limits.acquire(&A, 1).wait().unwrap());
        taken_and_given_back(&limits, A, 1);
        waiter.join().unwrap();
        assert!(limits.check(&A).is_err(), "one token, and one waiter");
    });
}
