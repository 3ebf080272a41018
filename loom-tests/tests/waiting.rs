//! Waiting: cancelled waiters, and threads that block while the quota or the level changes.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::{Quota, RateLimiter};
use damper_loom_tests::waiting::{Bug, Door};
use damper_loom_tests::{Flaw, Stopped, check, check_flawed, check_preemptions};
use loom::thread;
use std::future::pending;
// loom's own panics a second time, in its drop, where a model deadlocks.
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

/// Two waiters are cancelled, the later one first, while a third comes.
///
/// Tokens behind the third are given back, tokens before it count as used. Its wait stays the same, and no other waiter
/// has the same one.
///
/// [`cancel` without comparing the word; a `store` in place of the swap.]
// CLAIM: its waiters
#[test]
fn cancelled_waiter_keeps_others_in_place() {
    check_preemptions(3, || cancelled_waiter_keeps_others_in_place_model(true));
}

/// The same, the earlier one first: its tokens are never given back, because another came after it.
#[test]
fn tokens_of_a_cancelled_earlier_waiter_count_as_used() {
    check(|| cancelled_waiter_keeps_others_in_place_model(false));
}

#[test]
#[should_panic(expected = "it has the last place, and keeps it")]
fn cancelled_waiter_keeps_others_in_place_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || cancelled_waiter_keeps_others_in_place_model(true));
}

fn cancelled_waiter_keeps_others_in_place_model(last_first: bool) {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(1), Stopped(7)));
    limiter.check().unwrap();
    let mut waiting = [(); 2].map(|()| Box::pin(limiter.acquire(1).sleeping_by(|_| pending::<()>())));
    for ready in &mut waiting {
        assert!(ready.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let third = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || {
            let slot = limiter.reserve(1).unwrap();
            [slot.ready_in(), slot.ready_in()]
        })
    };
    let [first, last] = waiting;
    if last_first {
        drop(last);
        drop(first);
    } else {
        drop(first);
        drop(last);
    }
    let waits = third.join().unwrap();
    let places = limiter.debt();
    assert_eq!(waits, [Some(Duration::from_secs(places.into())); 2], "it has the last place, and keeps it");
    let least = if last_first { 1 } else { 2 };
    assert!((least..=3).contains(&places), "{places} of three");
}

/// A change of the quota wakes a thread that blocks, whatever it was about to do.
///
/// By the old quota its tokens never come, by the new one they are there. [Without `raise`, with `raise` before the
/// change, and with the changes counted after the look at the quota: in the code by hand, and in `copies`.]
#[test]
fn quota_change_wakes_a_waiter() {
    check(|| {
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(0).burst(1), Stopped(7)));
        limiter.check().unwrap();
        let waiter = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.acquire(1).wait().unwrap())
        };
        // Nothing drips in, but what is missing is less than the burst now.
        limiter.set_quota(Quota::per_second(0).burst(2)).unwrap();
        waiter.join().unwrap();
        assert_eq!((limiter.debt(), limiter.peek().remaining()), (0, 0));
    });
}

/// One change wakes two blocked threads. [`notify_one`, in the code by hand.]
#[test]
fn quota_change_wakes_all_waiters() {
    check_preemptions(2, || {
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(0).burst(1).max_debt(2), Stopped(7)));
        limiter.check().unwrap();
        let waiters = [(); 2].map(|()| {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.acquire(1).wait().unwrap())
        });
        limiter.set_quota(Quota::per_second(0).burst(3)).unwrap();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

/// A thread blocks for a token that never drips in, while it is given back.
///
/// The thread is woken, whatever it was about to do.
///
/// [A refund that notifies no thread, or notifies before it moves the line; without the fence, there or in the waiter;
/// a waiter that counts itself after its look.]
#[test]
fn refund_wakes_a_waiter() {
    check(|| {
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(0).burst(1), Stopped(7)));
        limiter.check().unwrap();
        let waiter = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.acquire(1).wait().unwrap())
        };
        assert_eq!(limiter.refund(1), 1);
        waiter.join().unwrap();
        // Whether it had to wait for the token or came after it was given back.
        assert_eq!((limiter.debt(), limiter.peek().remaining()), (0, 0));
    });
}

/// The model of waking on the small copy of `waiting`.
///
/// The copy passes it as it is and fails with each of its bugs.
mod copies {
    use super::{Arc, Bug, Door, check_preemptions, thread};

    fn quota_change_wakes_a_waiter(bug: Bug) {
        check_preemptions(3, move || {
            let door = Arc::new(Door::new(bug));
            let waiter = {
                let door = Arc::clone(&door);
                thread::spawn(move || door.wait())
            };
            door.open();
            waiter.join().unwrap();
        });
    }

    #[test]
    fn copy_behaves_like_the_original() {
        quota_change_wakes_a_waiter(Bug::None);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn model_notices_changes_counted_late() {
        quota_change_wakes_a_waiter(Bug::LateCount);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn model_notices_a_change_counted_without_the_lock() {
        quota_change_wakes_a_waiter(Bug::NoLock);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn model_notices_a_change_counted_early() {
        quota_change_wakes_a_waiter(Bug::EarlyRaise);
    }
}
