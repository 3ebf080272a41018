//! Leases and stripes. In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::limit::LeasingBucket;
use damper_core::{Quota, RateLimiter, Striped};
use damper_loom_tests::holding::{BURST, Bug, Holding};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::sync::Arc as StdArc;
use std::time::Duration;

/// Ten a second; of a burst of `burst` the leases have `budget`.
fn leasing<C: damper_core::Clock>(burst: u32, budget: u32, clock: C) -> Arc<RateLimiter<LeasingBucket, C>> {
    Arc::new(RateLimiter::with_algorithm(
        LeasingBucket::new(Quota::per_second(10).burst(burst), budget).unwrap(),
        clock,
    ))
}

/// A lease is granted, refilled, spent from and dropped, beside a rival's check.
///
/// Each token is spent once, and what is not comes back.
fn grant_spend_and_drop() {
    let limiter = leasing(5, 2, Stopped(7));
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || u32::from(limiter.check().is_ok()))
    };
    let mut lease = limiter.lease(2).unwrap();
    let mine = u32::from(lease.check().is_ok());
    drop(lease);
    let all = mine + rival.join().unwrap();
    // Refused, a rival came while the lease held what was left.
    assert!(mine == 1 || all == 1, "{all} of three");
    assert_eq!(limiter.peek().remaining(), 3 - all, "what is not spent is there, once");
}

#[test]
fn lease_and_rival_spend_each_token_once() {
    check_preemptions(3, grant_spend_and_drop);
}

#[test]
#[should_panic(expected = "once")]
fn lease_and_rival_spend_each_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, grant_spend_and_drop);
}

/// Two threads want the whole budget: one has it.
fn race_for_the_budget() {
    let limiter = leasing(5, 2, Stopped(7));
    let rival = {
        let limiter = Arc::clone(&limiter);
        // Kept, so that it does not come back.
        thread::spawn(move || limiter.lease(2).map(std::mem::forget).is_ok())
    };
    let mine = limiter.lease(2).map(std::mem::forget).is_ok();
    assert!(mine ^ rival.join().unwrap(), "one budget, one lease");
}

#[test]
fn budget_is_leased_once() {
    check(race_for_the_budget);
}

#[test]
#[should_panic(expected = "one budget, one lease")]
fn budget_is_leased_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, race_for_the_budget);
}

/// A lease that holds a token ends, and another one begins, while time passes.
///
/// Both together never hold more than the budget, and so from any time on no more than the burst can be had at once.
///
/// [The budget returned before the tokens.]
#[test]
fn successor_stays_within_the_budget() {
    check(|| {
        let clock = Time::at(7);
        let limiter = StdArc::new(RateLimiter::with_algorithm(
            LeasingBucket::new(Quota::per_second(10).burst(3), 1).unwrap(),
            clock.clone(),
        ));
        let mut first = limiter.lease_owned(1).unwrap();
        first.check().unwrap();
        assert_eq!(first.held(), 1);
        // The successor finds tokens to hold.
        clock.advance(Duration::from_secs(1));
        let first = thread::spawn(move || drop(first));
        if let Ok(mut second) = limiter.lease_owned(1) {
            _ = second.check();
            clock.advance(Duration::from_secs(1));
            let mut all = u64::from(second.held()) + drain(&limiter);
            first.join().unwrap();
            all += drain(&limiter);
            assert!(all <= BURST, "more than the burst at once: {all}");
        } else {
            first.join().unwrap();
        }
    });
}

fn drain(limiter: &RateLimiter<LeasingBucket, Time>) -> u64 {
    (0..5).map(|_| u64::from(limiter.check().is_ok())).sum()
}

/// The same of the small copy.
fn successor(bug: Bug) {
    check_preemptions(3, move || {
        let holding = Arc::new(Holding::new(bug));
        assert!(holding.claim() && holding.take_up_to(1) == 1);
        let first = {
            let holding = Arc::clone(&holding);
            thread::spawn(move || holding.end_lease())
        };
        if holding.claim() {
            let held = holding.take_up_to(1);
            holding.fill();
            let mut all = held + holding.take_up_to(9);
            first.join().unwrap();
            all += holding.take_up_to(9);
            assert!(all <= BURST, "more than the burst at once: {all}");
        } else {
            first.join().unwrap();
        }
    });
}

#[test]
fn copied_successor_stays_within_the_budget() {
    successor(Bug::None);
}

#[test]
#[should_panic(expected = "more than the burst at once")]
fn model_notices_a_budget_returned_before_its_tokens() {
    successor(Bug::BudgetFirst);
}

/// The thread that gets a lease's budget finds the tokens that the lease gave back before.
#[test]
fn successor_finds_the_returned_tokens() {
    check(|| {
        let bucket = LeasingBucket::new(Quota::per_second(10).burst(4), 2).unwrap();
        let limiter = StdArc::new(RateLimiter::with_algorithm(bucket, Stopped(7)));
        let mut first = limiter.lease_owned(2).unwrap();
        first.check().unwrap();
        assert_eq!((first.held(), limiter.peek().remaining()), (1, 0));
        let first = thread::spawn(move || drop(first));
        if let Ok(mut second) = limiter.lease_owned(2) {
            assert!(second.check().is_ok(), "the token was there before the budget");
        }
        first.join().unwrap();
    });
}

/// The quota is lowered while a lease is refilled, and the thread that lowered it takes a token.
///
/// The lease gets all that the bucket had before the change, or what it has after it. Its tokens stay.
///
/// [The epoch not checked again.]
#[test]
fn refill_is_before_or_after_a_quota_change() {
    check(|| {
        let limiter = leasing(5, 2, Stopped(7));
        _ = limiter.check_n(0);
        let changer = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || {
                limiter.set_quota(Quota::per_second(10).burst(3)).unwrap();
                u32::from(limiter.check().is_ok())
            })
        };
        let mut lease = limiter.lease(2).unwrap();
        let mine = u32::from(lease.check().is_ok()) + lease.held();
        let both = (mine, changer.join().unwrap());
        assert!([(3, 0), (1, 0), (0, 1)].contains(&both), "neither before nor after: {both:?}");
        while lease.check().is_ok() {}
        assert_eq!((lease.held(), limiter.quota().burst_size(), limiter.check().is_err()), (0, 3, true));
    });
}

/// Two threads spend from stripes of their own or the same: no token is spent twice, and none is lost.
fn two_stripes() {
    let limiter = Arc::new(Striped::with_stripes(Quota::per_second(10).burst(5), 2, 2, Stopped(7)).unwrap());
    _ = limiter.check_n(0);
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || u32::from(limiter.check().is_ok()))
    };
    let mut all = u32::from(limiter.check().is_ok());
    all += rival.join().unwrap();
    assert_eq!(limiter.peek().remaining(), 3 - all, "what is not spent is there");
    all += (0..4).map(|_| u32::from(limiter.check().is_ok())).sum::<u32>();
    assert_eq!(all, 3, "the bucket had three");
}

#[test]
fn stripes_spend_each_token_once() {
    check_preemptions(3, two_stripes);
}

#[test]
#[should_panic(expected = "what is not spent is there")]
fn stripes_spend_each_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, two_stripes);
}

/// A cost is gathered from a stripe and the bucket while a rival takes.
///
/// All or nothing, and nothing is lost.
#[test]
fn tokens_gathered_in_vain_are_put_back() {
    check_preemptions(3, || {
        let limiter = Arc::new(Striped::with_stripes(Quota::per_second(10).burst(4), 1, 1, Stopped(7)).unwrap());
        // One on the stripe, one in the bucket.
        limiter.check().unwrap();
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || u32::from(limiter.check().is_ok()))
        };
        let mut all = if limiter.check_n(2).is_ok() { 2 } else { 0 };
        all += rival.join().unwrap();
        all += (0..2).map(|_| u32::from(limiter.check().is_ok())).sum::<u32>();
        assert_eq!(all, 2, "one of each");
    });
}

/// A thread refills a stripe while time passes.
///
/// From any time on no more than the burst can be had at once.
///
/// [A refill that does not claim the room.]
#[test]
fn stripe_holds_at_most_its_share() {
    check_preemptions(3, || {
        let clock = Time::at(7);
        let limiter = Arc::new(Striped::with_stripes(Quota::per_second(10).burst(3), 1, 1, clock.clone()).unwrap());
        limiter.check_n(0).unwrap();
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || _ = limiter.check())
        };
        clock.advance(Duration::from_secs(1));
        _ = limiter.check();
        clock.advance(Duration::from_secs(1));
        rival.join().unwrap();
        let all = (0..5).filter(|_| limiter.check().is_ok()).count();
        assert!((1..=3).contains(&all), "more than the burst at once: {all}");
    });
}

/// A cost is being gathered from a stripe and the bucket while another thread refills that stripe.
///
/// The room for what may be put back stays free, and so from any time on no more than the burst can be had at once.
///
/// [A stripe's `borrow` that keeps no room.]
#[test]
fn tokens_put_back_find_their_room() {
    check_preemptions(3, || {
        let clock = Time::at(7);
        let limiter = Arc::new(Striped::with_stripes(Quota::per_second(10).burst(3), 1, 1, clock.clone()).unwrap());
        // One on the stripe, none in the bucket; then one there too.
        limiter.check().unwrap();
        clock.advance(Duration::from_millis(100));
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || _ = limiter.check_n(2))
        };
        clock.advance(Duration::from_secs(1));
        _ = limiter.check();
        rival.join().unwrap();
        clock.advance(Duration::from_secs(1));
        let all = (0..5).filter(|_| limiter.check().is_ok()).count();
        assert!((2..=3).contains(&all), "more than the burst at once: {all}");
    });
}

/// The same of the small copy.
fn share(bug: Bug) {
    check_preemptions(3, move || {
        let holding = Arc::new(Holding::new(bug));
        let rival = {
            let holding = Arc::clone(&holding);
            thread::spawn(move || _ = holding.check())
        };
        holding.fill();
        holding.check();
        holding.fill();
        rival.join().unwrap();
        let all: u64 = (0..5).map(|_| holding.check()).sum();
        assert!(all <= BURST, "more than the burst at once: {all}");
    });
}

#[test]
fn copied_stripe_holds_at_most_its_share() {
    share(Bug::None);
}

#[test]
#[should_panic(expected = "more than the burst at once")]
fn model_notices_a_stripe_that_claims_no_room() {
    share(Bug::NoRoom);
}
