//! The keyed table: slots that change their owners while others use them.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::sync::with_loads_as_rmw;
use damper_core::{FixedWindow, KeyedLimiter, Quota, WhenFull};
use damper_loom_tests::tables::{
    A, B, C, Identity, Limits, beside, builder, check_flawed, quota, sharing, taken_and_given_back, ways,
};
use damper_loom_tests::{Flaw, Stopped, check, check_preemptions};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::hash::BuildHasherDefault;

/// Takes all that is left of a key, one by one.
fn drain(limits: &Limits, key: u64) -> u32 {
    (0..20).map(|_| u32::from(limits.check(&key).is_ok())).sum()
}

/// Two threads see a key for the first time: it has one slot, and both spend of that.
///
/// [`first_sight` without looking again for a slot under the lock.]
#[test]
fn concurrent_first_sights_create_one_slot() {
    check_preemptions(3, concurrent_first_sights_create_one_slot_model);
}

#[test]
#[should_panic = "of one bucket"]
fn concurrent_first_sights_create_one_slot_unless_flawed() {
    check_flawed(Flaw::BlindExchange, concurrent_first_sights_create_one_slot_model);
}

fn concurrent_first_sights_create_one_slot_model() {
    let limits = ways(2, WhenFull::SharedOverflow, quota(2));
    let rival = beside(&limits, |limits| limits.check(&A).is_ok());
    assert!(limits.check(&A).is_ok() & rival.join().unwrap(), "there are two tokens");
    assert_eq!((limits.peek(&A).used(), limits.len()), (2, 3), "two of one bucket");
    assert!(limits.check(&A).is_err());
}

/// A table that counts by windows.
///
/// Two threads spend of one key that is there, and of one that neither has seen.
///
/// [A `store` in the place of the swap.]
// CLAIM: KeyedLimiter
#[test]
fn window_of_a_key_never_exceeds_its_limit() {
    check_preemptions(2, window_of_a_key_never_exceeds_its_limit_model);
}

#[test]
#[should_panic]
fn window_of_a_key_never_exceeds_its_limit_unless_flawed() {
    check_flawed(Flaw::BlindExchange, window_of_a_key_never_exceeds_its_limit_model);
}

fn window_of_a_key_never_exceeds_its_limit_model() {
    let limits = KeyedLimiter::<u64>::builder(Quota::per_hour(3))
        .capacity(1)
        .clock(Stopped(7))
        .hasher(BuildHasherDefault::<Identity>::default())
        .algorithm::<FixedWindow>()
        .build()
        .unwrap();
    limits.check(&A).unwrap();
    let limits = Arc::new(limits);
    let rival = {
        let limits = Arc::clone(&limits);
        thread::spawn(move || [limits.check_n(&A, 2).is_ok(), limits.check_n(&B, 2).is_ok()])
    };
    let mine = [limits.check_n(&A, 2).is_ok(), limits.check_n(&B, 2).is_ok()];
    let theirs = rival.join().unwrap();
    assert!(mine[0] ^ theirs[0], "two tokens, one winner");
    assert!(mine[1] ^ theirs[1], "two tokens, one winner");
    assert_eq!(limits.len(), 2);
}

/// A key spends while a newcomer takes its slot over: what both take is what the slot holds.
///
/// [The newcomer owes nothing but its own cost.]
// CLAIM: KeyedLimiter
#[test]
fn eviction_keeps_the_debt() {
    check_preemptions(2, eviction_keeps_the_debt_model);
}

#[test]
#[should_panic = "what the slot holds"]
fn eviction_keeps_the_debt_unless_flawed() {
    check_flawed(Flaw::BlindExchange, eviction_keeps_the_debt_model);
}

fn eviction_keeps_the_debt_model() {
    let limits = ways(1, WhenFull::EvictLeastIndebted, quota(4));
    limits.check(&A).unwrap();
    let rival = beside(&limits, |limits| u32::from(limits.check(&A).is_ok()));
    let taken = 1 + u32::from(limits.check(&B).is_ok()) + rival.join().unwrap();
    let left = drain(&limits, A) + drain(&limits, B);
    assert_eq!(taken + left, 4, "what the slot holds");
    assert_eq!(limits.len(), 4);
}

/// Two newcomers take over the slot of the same key.
///
/// Neither loses what was owed, nor pushes the other out before it has spent.
///
/// [As above; the newcomer published unspent, in the copy.]
#[test]
fn competing_newcomers_keep_the_debt() {
    check_preemptions(2, competing_newcomers_keep_the_debt_model);
}

#[test]
#[should_panic = "what the slot holds"]
fn competing_newcomers_keep_the_debt_unless_flawed() {
    check_flawed(Flaw::BlindExchange, competing_newcomers_keep_the_debt_model);
}

fn competing_newcomers_keep_the_debt_model() {
    let limits = ways(1, WhenFull::EvictLeastIndebted, quota(2));
    let rival = beside(&limits, |limits| u32::from(limits.check(&B).is_ok()));
    // A call that comes while the slot changes hands may be refused.
    let taken = u32::from(limits.check(&A).is_ok()) + rival.join().unwrap();
    assert!(taken > 0);
    assert_eq!(taken + drain(&limits, A) + drain(&limits, B), 2, "what the slot holds");
}

/// A key's tokens are charged, given back or forgotten while a newcomer takes its slot.
///
/// That counts before, or not at all, and the newcomer has what it took and what was owed.
fn beside_an_eviction(own: fn(&Limits) -> u32, owed: fn(u32) -> [u32; 2]) {
    let limits = ways(1, WhenFull::EvictLeastIndebted, quota(6));
    limits.check_n(&A, 2).unwrap();
    let rival = beside(&limits, own);
    limits.check_n(&B, 2).unwrap();
    let done = rival.join().unwrap();
    let used = limits.peek(&B).used();
    assert!(owed(done).map(|owed| owed + 2).contains(&used), "{done} and {used} on the newcomer's account");
    assert_eq!(limits.peek(&A).used(), 0);
}

fn charge(limits: &Limits) -> u32 {
    limits.charge(&A, 1)
}

fn refund(limits: &Limits) -> u32 {
    limits.refund(&A, 1);
    0
}

fn reset(limits: &Limits) -> u32 {
    limits.reset(&A);
    0
}

/// [The newcomer owes nothing but its own cost.]
#[test]
fn charge_beside_an_eviction_is_booked_or_reported() {
    check_preemptions(2, || beside_an_eviction(charge, |booked| [2 + booked; 2]));
}

#[test]
#[should_panic = "on the newcomer's account"]
fn charge_beside_an_eviction_is_booked_or_reported_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || beside_an_eviction(charge, |booked| [2 + booked; 2]));
}

/// [As above.]
#[test]
fn refund_beside_an_eviction_credits_only_its_key() {
    check_preemptions(2, || beside_an_eviction(refund, |_| [1, 2]));
}

#[test]
#[should_panic = "on the newcomer's account"]
fn refund_beside_an_eviction_credits_only_its_key_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || beside_an_eviction(refund, |_| [1, 2]));
}

/// [`word` Relaxed; the word published Relaxed; the owner not asked after the word.]
#[test]
fn reset_beside_an_eviction_fills_only_its_key() {
    check_preemptions(2, || beside_an_eviction(reset, |_| [0, 2]));
}

#[test]
#[should_panic = "on the newcomer's account"]
fn reset_beside_an_eviction_fills_only_its_key_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || beside_an_eviction(reset, |_| [0, 2]));
}

/// A key finds its slot while the slot changes its owner, from and to an exhausted key.
///
/// No call is refused for the other key's debt, or spends from the other key's bucket.
///
/// [`word` Relaxed; the word published Relaxed; the fingerprint published Relaxed; `owner` Relaxed where `is_current`
/// has no fence; a refusal that does not look again; the owner not asked after the word.]
#[test]
fn refusal_uses_only_its_own_keys_word() {
    check_preemptions(2, slot_from_an_exhausted_key_model);
    check_preemptions(2, slot_to_an_exhausted_key_model);
}

#[test]
#[should_panic = "on another key's word"]
fn refusal_uses_only_its_own_keys_word_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, slot_from_an_exhausted_key_model);
}

#[test]
#[should_panic = "on another key's word"]
fn spend_uses_only_its_own_keys_word_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, slot_to_an_exhausted_key_model);
}

fn slot_from_an_exhausted_key_model() {
    let limits = ways(1, WhenFull::SharedOverflow, quota(2));
    limits.check_n(&A, 2).unwrap();
    let rival = beside(&limits, |limits| limits.check(&B).is_ok());
    // In another thread: a reset has a fence, which would order what this one writes next.
    let reset = beside(&limits, |limits| limits.reset(&A));
    assert!(limits.check(&B).is_ok() & rival.join().unwrap(), "refused on another key's word");
    reset.join().unwrap();
}

fn slot_to_an_exhausted_key_model() {
    let limits = ways(1, WhenFull::SharedOverflow, quota(2));
    limits.check(&A).unwrap();
    limits.reset(&A);
    let rival = beside(&limits, |limits| limits.check(&A).is_ok());
    let all = limits.check_n(&B, 2).is_ok();
    assert!(rival.join().unwrap(), "refused on another key's word");
    // If the key's own spend was first, the newcomer shares a bucket; if the newcomer was, the key does.
    assert!(all, "spent on another key's word");
}

/// A key is charged while it takes over the slot of an exhausted key: the charge is booked.
///
/// [A decision of `visit_slot` that leaves the word unchanged and does not read it again.]
#[test]
fn charge_uses_only_its_own_keys_word() {
    check_preemptions(2, || {
        let limits = ways(1, WhenFull::SharedOverflow, quota(2));
        limits.check_n(&A, 2).unwrap();
        let rival = beside(&limits, |limits| limits.charge(&B, 1));
        limits.reset(&A);
        assert!(limits.check(&B).is_ok());
        assert_eq!(rival.join().unwrap(), 1, "dropped on another key's word");
    });
}

/// A key spends while its slot goes to another that then owes as much as it did.
///
/// But for its version the slot's word is the same again, and the spend is not booked on the new owner.
///
/// [A version that stays when a slot is claimed.]
#[test]
fn version_separates_equal_words_of_two_owners() {
    check_preemptions(2, || {
        let limits = ways(1, WhenFull::SharedOverflow, quota(3));
        limits.check(&A).unwrap();
        let rival = beside(&limits, |limits| limits.check(&A).is_ok());
        limits.reset(&A);
        assert!(limits.check(&B).is_ok() & rival.join().unwrap());
        assert!(limits.peek(&B).used() <= 1, "spent from another key's slot");
    });
}

/// A key is evicted, and spends at the same time.
///
/// It gets one other slot, however long the first takes to be handed over.
///
/// [`word` Relaxed.]
#[test]
fn evicted_key_gets_one_slot() {
    check_preemptions(2, || {
        let limits = ways(2, WhenFull::SharedOverflow, quota(2));
        for idle in [A, C] {
            limits.check(&idle).unwrap();
        }
        limits.reset(&A);
        limits.reset(&C);
        let rival = beside(&limits, |limits| limits.check(&B).is_ok());
        let taken = [2, 2, 1].map(|n| limits.check_n(&A, n).is_ok());
        assert_eq!(taken, [true, false, false], "one burst");
        assert!(rival.join().unwrap());
        assert_eq!(limits.len(), 4);
    });
}

/// A key without a slot spends from the shared bucket while a slot becomes idle, which it then gets.
///
/// One burst in all.
///
/// [The newcomer does not owe what the shared bucket does; the fingerprint published Relaxed.]
#[test]
fn slot_after_overflow_starts_with_the_shared_debt() {
    check_preemptions(2, slot_after_overflow_starts_with_the_shared_debt_model);
}

#[test]
#[should_panic = "one burst"]
fn slot_after_overflow_starts_with_the_shared_debt_unless_flawed() {
    check_flawed(Flaw::BlindExchange, slot_after_overflow_starts_with_the_shared_debt_model);
}

fn slot_after_overflow_starts_with_the_shared_debt_model() {
    let limits = ways(1, WhenFull::SharedOverflow, quota(2));
    limits.check_n(&A, 2).unwrap();
    let rival = beside(&limits, |limits| u32::from(limits.check(&B).is_ok()) + u32::from(limits.check(&B).is_ok()));
    limits.reset(&A);
    let taken = u32::from(limits.check(&B).is_ok()) + rival.join().unwrap();
    assert_eq!(taken, 2, "one burst");
    assert_eq!(drain(&limits, B), 0, "one burst");
}

/// A key spends and is moved to another tier: what it spent counts in the one or in the other.
///
/// [`move_to` that swaps the word even if it has changed.]
#[test]
fn change_of_tier_keeps_the_debt() {
    check_preemptions(3, change_of_tier_keeps_the_debt_model);
}

#[test]
#[should_panic = "is owed"]
fn change_of_tier_keeps_the_debt_unless_flawed() {
    check_flawed(Flaw::BlindExchange, change_of_tier_keeps_the_debt_model);
}

fn change_of_tier_keeps_the_debt_model() {
    let limits = ways(2, WhenFull::SharedOverflow, quota(4));
    limits.check(&A).unwrap();
    let rival = beside(&limits, |limits| limits.check(&A).unwrap().remaining());
    limits.set_tier(&A, 1).unwrap();
    let remaining = rival.join().unwrap();
    let usage = limits.peek(&A);
    assert_eq!(usage.limit(), 8, "all of it is owed");
    // An hour for a token of tier 0, which brings two of tier 1.
    match remaining {
        2 => assert_eq!(usage.remaining(), 4, "all of it is owed"),
        5 => assert_eq!(usage.remaining(), 5, "all of it is owed"),
        other => panic!("{other} left"),
    }
}

/// A key is assigned a tier during its first sight: afterwards it is in that tier.
///
/// [The tier read before the lock.]
#[test]
fn first_sight_uses_the_assigned_tier() {
    check_preemptions(3, || {
        let limits = ways(2, WhenFull::SharedOverflow, quota(2));
        let rival = beside(&limits, |limits| limits.check(&A).is_ok());
        limits.set_tier(&A, 1).unwrap();
        assert!(rival.join().unwrap());
        assert_eq!((limits.peek(&A).limit(), limits.len()), (4, 3), "the tier that it was given");
    });
}

/// One thread assigns a tier to a key while another clears it.
///
/// The key's slot is in the tier that is remembered.
///
/// [The tier stored outside the lock under which the key is moved.]
#[test]
fn key_is_in_the_remembered_tier() {
    check(|| {
        let limits = ways(2, WhenFull::SharedOverflow, quota(2));
        limits.check(&A).unwrap();
        let rival = beside(&limits, |limits| limits.clear_tier(&A));
        limits.set_tier(&A, 1).unwrap();
        rival.join().unwrap();
        let limit = limits.peek(&A).limit();
        limits.clear();
        assert_eq!(limits.peek(&A).limit(), limit, "the tier that is remembered");
    });
}

/// A key without a slot spends in a tier that was just added, while it is moved back to its own.
///
/// Tokens that it spent there count in its own tier: it takes one burst.
///
/// [`elsewhere` in the tiers that the limiter was built with.]
#[test]
fn spend_in_an_added_tier_counts_in_the_others() {
    check_preemptions(2, || {
        let limits = sharing(8 + 2, 0, WhenFull::SharedOverflow, quota(2));
        let rival = beside(&limits, |limits| u32::from(limits.check(&A).is_ok()));
        let added = limits.add_tier(quota(2)).unwrap();
        limits.set_tier(&A, added).unwrap();
        let taken = u32::from(limits.check(&A).is_ok()) + rival.join().unwrap();
        limits.set_tier(&A, 0).unwrap();
        assert_eq!(taken + drain(&limits, A), 2, "one burst");
    });
}

/// Two threads add a tier each: each gets a number of its own, with its own quota.
///
/// [A place that is looked at, and then set.]
#[test]
fn added_tiers_get_numbers_of_their_own() {
    check(|| {
        let limits = ways(1, WhenFull::SharedOverflow, quota(2));
        let rival = beside(&limits, |limits| limits.add_tier(quota(5)).unwrap());
        let mine = limits.add_tier(quota(7)).unwrap();
        assert_eq!(limits.tier_quota(mine), Some(quota(7)), "the quota of the tier");
        let other = rival.join().unwrap();
        assert_eq!(
            (limits.tier_quota(mine), limits.tier_quota(other)),
            (Some(quota(7)), Some(quota(5))),
            "of the tier"
        );
        assert_eq!(mine + other, 2 + 3, "their numbers");
    });
}

/// Tiers by a plan that changes: `plan` is the tier of every key.
fn planned(plan: &Arc<AtomicUsize>) -> Limits {
    let plan = Arc::clone(plan);
    let limits = KeyedLimiter::<u64>::builder(quota(2))
        .tiers([quota(4)], move |_| plan.load(Ordering::Relaxed))
        .capacity(1)
        .shared_buckets(2)
        .clock(Stopped(7))
        .hasher(BuildHasherDefault::default())
        .build()
        .unwrap();
    Arc::new(limits)
}

/// A key is first seen while its plan changes and `retier` is called: it is then in the new tier.
///
/// [`of` without a look at the count; the count added to or loaded Relaxed.]
#[test]
fn retier_reaches_a_key_that_is_just_seen() {
    check_preemptions(2, retier_reaches_a_key_that_is_just_seen_model);
}

#[test]
#[should_panic = "the tier of the new plan"]
fn retier_reaches_a_key_that_is_just_seen_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, retier_reaches_a_key_that_is_just_seen_model);
}

fn retier_reaches_a_key_that_is_just_seen_model() {
    let plan = Arc::new(AtomicUsize::new(0));
    let limits = planned(&plan);
    let rival = beside(&limits, |limits| limits.check(&A).is_ok());
    plan.store(1, Ordering::Relaxed);
    limits.retier(&A);
    assert!(rival.join().unwrap());
    assert_eq!((limits.peek(&A).limit(), limits.len()), (4, 1), "the tier of the new plan");
}

/// Two threads call `retier`, one of them before the plan changes: the key is in the new tier.
///
/// [`of` without a look at the count.]
#[test]
fn last_retier_stands() {
    check_preemptions(2, || {
        let plan = Arc::new(AtomicUsize::new(0));
        let limits = planned(&plan);
        limits.check(&A).unwrap();
        let rival = beside(&limits, |limits| limits.retier(&A));
        plan.store(1, Ordering::Relaxed);
        limits.retier(&A);
        rival.join().unwrap();
        assert_eq!(limits.peek(&A).limit(), 4, "the tier of the new plan");
    });
}

/// Two quotas change together while another thread changes one of them: both change, or none.
///
/// [Each change published as soon as it is prepared.]
#[test]
fn quotas_change_together_or_not_at_all() {
    check_preemptions(2, || {
        let limits = ways(4, WhenFull::SharedOverflow, quota(2));
        let old = [0, 1].map(|tier| limits.tier_quota(tier).unwrap());
        let rival = beside(&limits, |limits| limits.set_tier_quota(1, quota(9)).is_ok());
        let result = limits.set_tier_quotas([(0, quota(5)), (1, quota(7))]);
        let rival_changed = rival.join().unwrap();
        let now = [0, 1].map(|tier| limits.tier_quota(tier).unwrap());
        match result {
            Ok(()) => assert!(now == [quota(5), quota(7)] || rival_changed && now == [quota(5), quota(9)], "{now:?}"),
            Err(_) => assert_eq!((now, rival_changed), ([old[0], quota(9)], true), "none has changed"),
        }
    });
}

/// A key is first seen under a new, larger quota while another thread still holds the old one.
///
/// That thread does not mistake what was taken for a bucket from before the clock circled.
///
/// [Nothing ordered.]
#[test]
fn first_sight_survives_a_stale_quota() {
    check_preemptions(2, first_sight_survives_a_stale_quota_model);
}

#[test]
#[should_panic = "one burst"]
fn first_sight_survives_a_stale_quota_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, first_sight_survives_a_stale_quota_model);
}

fn first_sight_survives_a_stale_quota_model() {
    let limits = ways(1, WhenFull::SharedOverflow, quota(1));
    let rival = beside(&limits, |limits| u32::from(limits.check(&A).is_ok()));
    limits.set_quota(quota(9)).unwrap();
    let taken = 8 * u32::from(limits.check_n(&A, 8).is_ok()) + rival.join().unwrap();
    assert_eq!(taken, 9, "one burst");
    assert_eq!(drain(&limits, A), 0, "one burst");
}

/// The same for a known key. [`replace` Relaxed.]
#[test]
fn spend_survives_a_stale_quota() {
    check_preemptions(2, spend_survives_a_stale_quota_model);
}

#[test]
#[should_panic = "one burst"]
fn spend_survives_a_stale_quota_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, spend_survives_a_stale_quota_model);
}

fn spend_survives_a_stale_quota_model() {
    let limits = ways(1, WhenFull::SharedOverflow, quota(2));
    limits.check(&A).unwrap();
    // It spends in a thread of its own: a change has fences, which would order what its thread writes next. This thread makes
    // the change, so that loom runs it first. Where a change has to interrupt a thread that has read the epoch, loom does not visit
    // every history that follows.
    let spender = beside(&limits, |limits| 7 * u32::from(limits.check_n(&A, 7).is_ok()));
    let rival = beside(&limits, |limits| u32::from(limits.check(&A).is_ok()));
    limits.set_quota(quota(9)).unwrap();
    let taken = 1 + spender.join().unwrap() + rival.join().unwrap();
    assert_eq!(taken + drain(&limits, A), 9, "one burst");
}

/// The same for a shared bucket, whose lock orders the two threads. [A charge without the lock.]
#[test]
fn shared_debt_survives_a_stale_quota() {
    check_preemptions(2, shared_debt_survives_a_stale_quota_model);
}

#[test]
#[should_panic = "one burst"]
fn shared_debt_survives_a_stale_quota_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, shared_debt_survives_a_stale_quota_model);
}

fn shared_debt_survives_a_stale_quota_model() {
    let limits = sharing(1, 0, WhenFull::SharedOverflow, quota(1));
    let rival = beside(&limits, |limits| u32::from(limits.check(&A).is_ok()));
    limits.set_quota(Quota::per_hour(1).burst(1).max_debt(8)).unwrap();
    // Booked tokens count as taken.
    let taken = limits.charge(&B, 9) + rival.join().unwrap();
    assert_eq!(taken, 9, "one burst, and the deepest debt");
    assert_eq!(drain(&limits, A) + limits.charge(&B, 9), 0, "one burst, and the deepest debt");
}

/// The same where a newcomer spends from the shared bucket under the new quota.
#[test]
fn newcomers_shared_spend_survives_a_stale_quota() {
    check_preemptions(2, || {
        let limits = sharing(1, 0, WhenFull::SharedOverflow, quota(1));
        let rival = beside(&limits, |limits| u32::from(limits.check(&A).is_ok()));
        limits.set_quota(quota(9)).unwrap();
        let taken = 8 * u32::from(limits.check_n(&B, 8).is_ok()) + rival.join().unwrap();
        assert_eq!(taken, 9, "one burst");
        assert_eq!(drain(&limits, A), 0, "one burst");
    });
}

/// A newcomer does not mistake a moved debt for a clock that stepped back.
///
/// A key that owes more than a key of the fast tier ever could is moved there while the newcomer looks for a slot. It
/// keeps its slot. [The moved debts read before the words.]
#[test]
fn key_with_a_moved_debt_keeps_its_slot() {
    check_preemptions(2, || {
        let fast = Quota::per_second(1_000).burst(4).max_debt(0);
        let limits = KeyedLimiter::<u64>::builder(quota(4))
            .tiers([fast], |key| usize::from(*key != A))
            .capacity(1)
            .shared_buckets(6)
            .clock(Stopped(7))
            .hasher(BuildHasherDefault::<Identity>::default())
            .build()
            .unwrap();
        limits.check_n(&A, 4).unwrap();
        (101..104).for_each(|other| assert!(limits.check_n(&other, 4).is_ok()));
        let limits = Arc::new(limits);
        let rival = {
            let limits = Arc::clone(&limits);
            thread::spawn(move || limits.check(&B).is_ok())
        };
        limits.set_tier(&A, 1).unwrap();
        assert!(rival.join().unwrap(), "from the shared bucket");
        assert!(limits.check(&A).is_err(), "four hours are owed");
    });
}

/// A known key keeps its slot and its debt while a newcomer looks under the old quota.
///
/// By the old quota the debt is out of range. [A newcomer that does not check that its quota is current.]
#[test]
fn indebted_key_keeps_its_slot_under_a_stale_quota() {
    check_preemptions(2, || {
        let limits = ways(1, WhenFull::SharedOverflow, quota(1));
        limits.check(&A).unwrap();
        let rival = beside(&limits, |limits| limits.check(&B).is_ok());
        limits.set_quota(quota(9)).unwrap();
        let taken = 1 + 8 * u32::from(limits.check_n(&A, 8).is_ok());
        assert!(rival.join().unwrap());
        assert_eq!(taken + drain(&limits, A), 9, "one burst");
    });
}

/// Two keys whose home is the first word of a line of two, and two whose home is the second.
///
/// The tag of a key follows from its hash.
const FIRST: [u64; 2] = [1, 2];
const SECOND: [u64; 2] = [16, 19];

/// A table without room, whose only line has two words beside its header.
fn two_words(burst: u32) -> Limits {
    sharing(4, 0, WhenFull::SharedOverflow, quota(burst))
}

/// Keys without a slot displace one another's debts while one of them is looked at.
///
/// A look shows at least what the key owed when it began.
///
/// [`peek` without the lock.]
#[test]
fn peek_beside_a_displacement_finds_the_debt() {
    check_preemptions(2, || {
        let limits = two_words(4);
        FIRST.iter().for_each(|key| assert!(limits.check_n(key, 2).is_ok()));
        // The second of these keys stands at the home of this one, and goes home.
        let rival = beside(&limits, |limits| limits.check(&SECOND[0]).is_ok());
        for key in &FIRST {
            assert_eq!(limits.peek(key).remaining(), 2, "the debt");
        }
        assert!(rival.join().unwrap());
    });
}

/// A key rolls back a spend while other keys displace its debt: each key takes at most one burst.
///
/// [A roll-back that does not compare the generation.]
#[test]
fn roll_back_beside_a_displacement_keeps_other_debts() {
    check_preemptions(2, || {
        let limits = two_words(4);
        assert!(limits.check_n(&FIRST[0], 2).is_ok());
        let rival = beside(&limits, |limits| taken_and_given_back(limits, FIRST[1], 2));
        let taken = [3, 1].map(|n| n * u32::from(limits.check_n(&SECOND[usize::from(n == 1)], n).is_ok()));
        rival.join().unwrap();
        assert!(2 + drain(&limits, FIRST[0]) <= 4, "one burst");
        for (key, taken) in SECOND.iter().zip(taken) {
            assert!(taken + drain(&limits, *key) <= 4, "one burst");
        }
    });
}

/// One key rolls back a spend from a shared bucket while another key spends there.
///
/// The other spend stays.
///
/// [A roll-back without the lock.]
#[test]
fn roll_back_of_a_shared_bucket_keeps_other_spends() {
    check_preemptions(2, || {
        let limits = sharing(1, 0, WhenFull::SharedOverflow, quota(6));
        let rival = beside(&limits, |limits| taken_and_given_back(limits, A, 1));
        assert!(limits.check_n(&B, 2).is_ok());
        rival.join().unwrap();
        assert_eq!(limits.peek(&B).used(), 2, "what the other key spent");
    });
}

/// A key that owes more than a key of the fast tier ever could is moved there beside a check.
///
/// The debt counts in either tier.
///
/// [The debt announced after the key was moved.]
#[test]
fn debt_survives_a_move_beside_a_check() {
    check_preemptions(3, || {
        let fast = Quota::per_second(1_000).burst(4).max_debt(0);
        let limits = KeyedLimiter::<u64>::builder(quota(4))
            .tiers([fast], |_| 0)
            .capacity(1)
            .clock(Stopped(7))
            .hasher(BuildHasherDefault::<Identity>::default())
            .build()
            .unwrap();
        limits.check_n(&A, 4).unwrap();
        let limits = Arc::new(limits);
        let rival = {
            let limits = Arc::clone(&limits);
            thread::spawn(move || limits.check(&A).is_ok())
        };
        limits.set_tier(&A, 1).unwrap();
        assert!(!rival.join().unwrap(), "four hours are owed");
        limits.set_tier(&A, 0).unwrap();
        assert!(limits.check(&A).is_err(), "four hours are owed");
    });
}

/// `clear` runs while a key spends, and another key gets its slot.
///
/// The spend counts before or after the clear, and never for the other key.
///
/// [`word` Relaxed; the word published Relaxed; the owner not asked after the word.]
#[test]
fn check_beside_clear_counts_before_or_after_it() {
    check_preemptions(2, check_beside_clear_counts_before_or_after_it_model);
}

#[test]
#[should_panic = "before or after"]
fn check_beside_clear_counts_before_or_after_it_unless_flawed() {
    check_flawed(Flaw::BlindExchange, check_beside_clear_counts_before_or_after_it_model);
}

fn check_beside_clear_counts_before_or_after_it_model() {
    let limits = ways(4, WhenFull::SharedOverflow, quota(3));
    limits.check(&A).unwrap();
    let rival = beside(&limits, |limits| limits.check(&A).unwrap().remaining());
    limits.clear();
    assert_eq!(limits.check_n(&B, 3).unwrap().remaining(), 0, "before or after");
    let remaining = rival.join().unwrap();
    assert!([1, 2].contains(&remaining), "before or after");
    assert_eq!(limits.peek(&B).used(), 3, "before or after");
    assert!(limits.peek(&A).used() <= 1, "before or after");
}

/// `clear` runs during a first sight: the key's slot is counted as long as it has one.
///
/// [`claim` that stores without comparing.]
#[test]
fn clear_beside_a_first_sight_keeps_the_slot_count() {
    check_preemptions(2, clear_beside_a_first_sight_keeps_the_slot_count_model);
}

#[test]
#[should_panic = "the slots that are taken"]
fn clear_beside_a_first_sight_keeps_the_slot_count_unless_flawed() {
    check_flawed(Flaw::BlindExchange, clear_beside_a_first_sight_keeps_the_slot_count_model);
}

fn clear_beside_a_first_sight_keeps_the_slot_count_model() {
    let limits = ways(4, WhenFull::SharedOverflow, quota(2));
    limits.check(&A).unwrap();
    limits.reset(&A);
    let rival = beside(&limits, |limits| limits.check(&B).is_ok());
    limits.clear();
    assert!(rival.join().unwrap());
    assert_eq!(limits.len(), limits.peek(&B).used() as usize, "the slots that are taken");
    limits.clear();
    assert_eq!(limits.len(), 0, "the slots that are taken");
}

/// `clear` runs while a newcomer takes the slot of another key.
///
/// A claimed slot is left to the newcomer, and counted.
///
/// [A `clear` that claims a claimed slot.]
///
/// Only with loads as read-modify-writes: otherwise loom lets the newcomer see all four slots claimed for ever.
#[test]
fn clear_beside_an_eviction_leaves_the_slot_to_the_newcomer() {
    with_loads_as_rmw(|| {
        builder(2).check(|| {
            let limits = ways(4, WhenFull::SharedOverflow, quota(2));
            limits.check(&A).unwrap();
            // Under the locks of A and C: under that of B they would make `clear` wait until the newcomer has its slot.
            for other in [102, 103, 105] {
                limits.check_n(&other, 2).unwrap();
            }
            limits.reset(&A);
            let rival = beside(&limits, |limits| limits.check(&B).is_ok());
            limits.clear();
            assert!(rival.join().unwrap());
            // While `clear` claims the slot of A, the newcomer finds no free slot. It then spends in a shared word.
            let in_slot = if limits.overflows() == 0 { limits.peek(&B).used() } else { 0 };
            assert_eq!(limits.len(), in_slot as usize, "the slots that are taken");
        });
    });
}

/// A call gives back what it took, while a newcomer takes the slot of the call's key.
///
/// The roll-back credits only that key.
///
/// [The newcomer owes nothing but its own cost.]
#[test]
fn roll_back_beside_an_eviction_credits_only_its_key() {
    check_preemptions(2, roll_back_beside_an_eviction_credits_only_its_key_model);
}

#[test]
#[should_panic = "on the newcomer's account"]
fn roll_back_beside_an_eviction_credits_only_its_key_unless_flawed() {
    check_flawed(Flaw::BlindExchange, roll_back_beside_an_eviction_credits_only_its_key_model);
}

fn roll_back_beside_an_eviction_credits_only_its_key_model() {
    let limits = ways(1, WhenFull::EvictLeastIndebted, quota(6));
    limits.check_n(&A, 1).unwrap();
    let rival = beside(&limits, |limits| taken_and_given_back(limits, A, 1));
    limits.check_n(&B, 2).unwrap();
    rival.join().unwrap();
    // The evicted key may have evicted the newcomer in turn.
    let used = limits.peek(&A).used() + limits.peek(&B).used();
    assert!([3, 4].contains(&used), "{used} on the newcomer's account");
}

/// The claims above on the small copy of the table, which breaks one with each of its bugs.
mod copies {
    use super::{A, Arc, B, C, check_preemptions, thread};
    use damper_loom_tests::table_copy::{Bug, CopyWhenFull, TableCopy};

    /// As many versions as there really are.
    const VERSIONS: u64 = 16;
    const OTHER: u64 = 9;

    /// Two slots, of which all but so many are used up.
    fn ways(ways: u64, bug: Bug, when_full: CopyWhenFull, versions: u64, burst: u64) -> Arc<TableCopy> {
        let slots = TableCopy::new(bug, when_full, versions, burst);
        for _ in ways..2 {
            assert!(slots.check(OTHER, burst));
        }
        Arc::new(slots)
    }

    fn beside<T: 'static>(
        slots: &Arc<TableCopy>,
        rival: impl FnOnce(&TableCopy) -> T + 'static,
    ) -> thread::JoinHandle<T> {
        let slots = Arc::clone(slots);
        thread::spawn(move || rival(&slots))
    }

    fn concurrent_first_sights_create_one_slot(bug: Bug) {
        let slots = ways(2, bug, CopyWhenFull::Share, VERSIONS, 2);
        let rival = beside(&slots, |slots| slots.check(A, 1));
        assert!(slots.check(A, 1) & rival.join().unwrap());
        assert_eq!((slots.slots_of(A), slots.used(A)), (1, Some(2)), "one slot");
    }

    fn slot_from_an_exhausted_key(bug: Bug) {
        let slots = ways(1, bug, CopyWhenFull::Share, VERSIONS, 2);
        assert!(slots.check(A, 2));
        let rival = beside(&slots, |slots| slots.check(B, 1));
        slots.reset(A);
        assert!(slots.check(B, 1) & rival.join().unwrap(), "refused on another key's word");
    }

    fn slot_to_an_exhausted_key(bug: Bug) {
        let slots = ways(1, bug, CopyWhenFull::Share, VERSIONS, 2);
        assert!(slots.check(A, 1));
        slots.reset(A);
        let rival = beside(&slots, |slots| slots.check(A, 1));
        assert!(slots.check(B, 2) & rival.join().unwrap(), "refused on another key's word");
    }

    fn spend_beside_an_eviction(bug: Bug) {
        let slots = ways(1, bug, CopyWhenFull::Evict, VERSIONS, 4);
        assert!(slots.check(A, 1));
        let rival = beside(&slots, |slots| u64::from(slots.check(A, 1)));
        let taken = 1 + u64::from(slots.check(B, 1)) + rival.join().unwrap();
        let used = [A, B].map(|key| slots.used(key).unwrap_or(0));
        assert_eq!(used[0] + used[1], taken, "what the slot holds");
    }

    fn newcomers_evict_each_other_once(bug: Bug) {
        let slots = ways(1, bug, CopyWhenFull::Evict, VERSIONS, 9);
        // A call that comes while the slot changes its owner may be refused.
        let rival = beside(&slots, |slots| u64::from(slots.check(B, 1)));
        let taken = u64::from(slots.check(A, 1)) + rival.join().unwrap();
        let used = [A, B].map(|key| slots.used(key).unwrap_or(0));
        assert_eq!(used[0] + used[1], taken, "what the slot holds");
    }

    fn evicted_key_gets_one_slot(bug: Bug) {
        let slots = ways(2, bug, CopyWhenFull::Share, VERSIONS, 2);
        for idle in [A, C] {
            assert!(slots.check(idle, 1));
        }
        slots.reset(A);
        slots.reset(C);
        let rival = beside(&slots, |slots| slots.check(B, 1));
        let taken = [2, 2].map(|n| slots.check(A, n));
        assert_eq!(taken, [true, false], "one burst");
        assert!(rival.join().unwrap());
    }

    fn slot_after_overflow(bug: Bug) {
        let slots = ways(1, bug, CopyWhenFull::Share, VERSIONS, 2);
        assert!(slots.check(A, 2));
        let rival = beside(&slots, |slots| u64::from(slots.check(B, 1)));
        slots.reset(A);
        let taken = u64::from(slots.check(B, 1)) + rival.join().unwrap() + u64::from(slots.check(B, 1));
        assert_eq!(taken, 2, "one burst");
    }

    /// A key spends while its slot goes to two others, one after the other.
    ///
    /// A reset can make the word the same again.
    fn two_owners_later(versions: u64, between: fn(&TableCopy)) {
        let slots = Arc::new(TableCopy::new(Bug::None, CopyWhenFull::Share, versions, 2));
        // The first of the slots, which is the first to be free again.
        assert!(slots.check(A, 1) && slots.check(OTHER, 2));
        let rival = beside(&slots, |slots| slots.check(A, 1));
        between(&slots);
        assert!(slots.check(B, 1));
        assert!(rival.join().unwrap());
        // Unless the newcomer itself took two, and spent from the shared bucket.
        assert!(slots.used(B) != Some(2) || slots.shared() > 0, "on another key's account");
    }

    /// Clears the table, which is one change of the owner.
    ///
    /// The next owner spends as much as the one before: two changes.
    fn clear(slots: &TableCopy) {
        slots.clear();
    }

    /// Hands the slot to two idle keys, one after the other.
    fn reset(slots: &TableCopy) {
        slots.reset(A);
        assert!(slots.check(C, 1));
        slots.reset(C);
    }

    /// The newcomers owe what was owed before, so that no word comes again.
    fn two_evictions_later(versions: u64) {
        let slots = ways(1, Bug::None, CopyWhenFull::Evict, versions, 9);
        assert!(slots.check(A, 1));
        let rival = beside(&slots, |slots| slots.check(A, 1));
        let taken = 1 + [B, C].map(|key| u64::from(slots.check(key, 1))).iter().sum::<u64>();
        let taken = taken + u64::from(rival.join().unwrap());
        let used = [A, B, C].map(|key| slots.used(key).unwrap_or(0));
        assert_eq!(used.iter().sum::<u64>(), taken, "what the slot holds");
    }

    #[test]
    fn copy_keeps_the_claims() {
        for model in [
            concurrent_first_sights_create_one_slot,
            slot_from_an_exhausted_key,
            slot_to_an_exhausted_key,
            spend_beside_an_eviction,
            newcomers_evict_each_other_once,
            evicted_key_gets_one_slot,
            slot_after_overflow,
        ] {
            check_preemptions(3, move || model(Bug::None));
        }
    }

    /// With one version bit two changes of the owner repeat the word, if the debt was repaid between them.
    #[test]
    #[should_panic = "on another key's account"]
    fn one_version_bit_misses_a_clear() {
        check_preemptions(3, || two_owners_later(2, clear));
    }

    #[test]
    #[should_panic = "on another key's account"]
    fn one_version_bit_misses_a_reset() {
        check_preemptions(3, || two_owners_later(2, reset));
    }

    /// With the real width that many changes do not repeat it.
    #[test]
    fn four_version_bits_notice_both() {
        check_preemptions(3, || two_owners_later(VERSIONS, clear));
        check_preemptions(3, || two_owners_later(VERSIONS, reset));
    }

    /// Where no debt is repaid, even one bit is enough.
    #[test]
    fn evictions_alone_repeat_no_word() {
        check_preemptions(3, || two_evictions_later(2));
    }

    #[test]
    #[should_panic = "one slot"]
    fn first_sight_without_the_lock_is_noticed() {
        check_preemptions(3, || concurrent_first_sights_create_one_slot(Bug::NoLock));
    }

    #[test]
    #[should_panic = "refused on another key's word"]
    fn refusal_without_a_recheck_is_noticed() {
        check_preemptions(3, || slot_from_an_exhausted_key(Bug::NoSecondLook));
    }

    #[test]
    #[should_panic = "refused on another key's word"]
    fn fingerprint_before_the_claim_is_noticed() {
        check_preemptions(3, || slot_to_an_exhausted_key(Bug::FingerprintFirst));
    }

    #[test]
    #[should_panic = "refused on another key's word"]
    fn word_before_the_fingerprint_is_noticed() {
        check_preemptions(3, || slot_to_an_exhausted_key(Bug::WordFirst));
    }

    #[test]
    #[should_panic = "evicted again and again"]
    fn newcomer_published_unspent_is_noticed() {
        check_preemptions(5, || newcomers_evict_each_other_once(Bug::Unspent));
    }

    #[test]
    #[should_panic = "one burst"]
    fn claimed_slot_that_hides_another_is_noticed() {
        check_preemptions(3, || evicted_key_gets_one_slot(Bug::Hidden));
    }

    #[test]
    #[should_panic = "one burst"]
    fn fresh_burst_after_overflow_is_noticed() {
        check_preemptions(3, || slot_after_overflow(Bug::FreshFromOverflow));
    }
}

/// A key is charged while another thread first sees it.
///
/// The charge is booked on the key, wherever its bucket is by then.
///
/// [A `charge` that does not look for a slot again under the lock.]
#[test]
fn charge_beside_a_first_sight_is_booked_on_the_key() {
    check_preemptions(3, || {
        let limits = ways(2, WhenFull::SharedOverflow, quota(3));
        let rival = beside(&limits, |limits| limits.check(&A).is_ok());
        assert_eq!(limits.charge(&A, 2), 2, "there are three tokens");
        assert!(rival.join().unwrap(), "there are three tokens");
        assert_eq!(limits.peek(&A).used(), 3, "the charge is on the key's account");
    });
}

/// A call that took tokens of a fast tier is rolled back after its key was moved to a slower one.
///
/// Positions of the one tier say nothing in the other, and nothing is given back.
///
/// [A roll-back that ignores the tier.]
#[test]
fn roll_back_after_a_change_of_tier_keeps_other_debts() {
    check_preemptions(3, roll_back_after_a_change_of_tier_keeps_other_debts_model);
}

#[test]
#[should_panic]
fn roll_back_after_a_change_of_tier_keeps_other_debts_unless_flawed() {
    check_flawed(Flaw::BlindExchange, roll_back_after_a_change_of_tier_keeps_other_debts_model);
}

fn roll_back_after_a_change_of_tier_keeps_other_debts_model() {
    let limits = ways(2, WhenFull::SharedOverflow, quota(4));
    // Tier 1 has two tokens an hour, tier 0 has one.
    limits.set_tier(&A, 1).unwrap();
    limits.check_n(&A, 4).unwrap();
    let rival = beside(&limits, |limits| taken_and_given_back(limits, A, 4));
    limits.set_tier(&A, 0).unwrap();
    rival.join().unwrap();
    let usage = limits.peek(&A);
    // Two tokens of tier 0 take two hours to refill. The refused call took two more, and keeps them if the key changed its
    // tier before the roll-back.
    assert!(usage.limit() == 4 && usage.used() >= 2, "two tokens are owed at least, not {}", usage.used());
}
