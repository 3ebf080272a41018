//! Changing the quota while others check.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::{Quota, RateLimiter, SetQuotaError, TokenBucket};
use damper_loom_tests::slowing::{Bug, FAST, Slowing};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

type Limiter = Arc<RateLimiter<TokenBucket, Time>>;

/// A limiter whose line has started, and its clock.
fn limiter(quota: Quota) -> (Limiter, Time) {
    let clock = Time::at(0);
    let limiter = Arc::new(RateLimiter::with_clock(quota, clock.clone()));
    limiter.check_n(0).unwrap();
    (limiter, clock)
}

/// A thread that reads the quota while it is changed twice reads one of the three, whole.
///
/// [`publish` without its Release fence, or `is_current` without its Acquire fence; the epoch stored or loaded
/// Relaxed.]
// CLAIM: a new quota
#[test]
fn record_is_read_whole() {
    check_preemptions(2, record_is_read_whole_model);
}

#[test]
#[should_panic]
fn record_is_read_whole_unless_flawed() {
    check_flawed(Flaw::NoFences, record_is_read_whole_model);
}

fn record_is_read_whole_model() {
    let quotas = [
        Quota::per_second(1).burst(2).max_debt(3),
        Quota::per_minute(4).burst(5).max_debt(6),
        Quota::per_hour(7).burst(8).max_debt(9),
    ];
    let (limiter, _) = limiter(quotas[0]);
    let changer = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || {
            limiter.set_quota(quotas[1]).unwrap();
            limiter.set_quota(quotas[2]).unwrap();
        })
    };
    let seen = limiter.quota();
    assert!(quotas.contains(&seen), "{seen:?}");
    changer.join().unwrap();
    assert_eq!(limiter.quota(), quotas[2]);
}

/// A check on the fast line, at a time after it was slowed a thousand times.
///
/// A debt is owed for no longer than a burst takes.
///
/// [The clock read after `is_current`.]
#[test]
fn slow_check_leaves_no_word_ahead_of_a_slower_line() {
    check_preemptions(3, || {
        let (limiter, clock) = limiter(Quota::per_second(1_000).burst(1));
        let checker = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.check().is_ok())
        };
        limiter.set_quota(Quota::per_second(1).burst(1)).unwrap();
        clock.advance(Duration::from_secs(5));
        assert!(checker.join().unwrap(), "a full bucket");
        // A unit is a millionth of a token here.
        let owed = limiter.peek().resets_in().unwrap();
        assert!(owed <= Duration::from_micros(1_000_010), "{owed:?}");
    });
}

/// Time passes and a check is made while the line is slowed a thousand times.
///
/// The time before the change has brought its tokens.
///
/// [Only one bend.]
// CLAIM: a new quota
#[test]
fn slowdown_leaves_no_word_ahead_of_the_line() {
    check_preemptions(3, || {
        let (limiter, clock) = limiter(Quota::per_second(1_000).burst(1));
        let checker = {
            let (limiter, clock) = (Arc::clone(&limiter), clock.clone());
            thread::spawn(move || {
                clock.advance(Duration::from_secs(5));
                limiter.check().is_ok()
            })
        };
        limiter.set_quota(Quota::per_second(1).burst(1)).unwrap();
        assert!(checker.join().unwrap(), "a full bucket");
        // A unit is a millionth of a token here.
        let owed = limiter.peek().resets_in().unwrap();
        assert!(owed <= Duration::from_micros(1_000_010), "{owed:?}");
    });
}

/// A check that still holds the older quota does not heal away a debt of the newer one.
///
/// [The word swapped Relaxed.]
// CLAIM: a new quota
#[test]
fn old_record_keeps_legal_debt() {
    check(old_record_keeps_legal_debt_model);
}

#[test]
#[should_panic]
fn old_record_keeps_legal_debt_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, old_record_keeps_legal_debt_model);
}

fn old_record_keeps_legal_debt_model() {
    // A clock that orders nothing, so that only the word does.
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(1).max_debt(0), Stopped(7)));
    limiter.check_n(0).unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || limiter.check().is_ok())
    };
    limiter.set_quota(Quota::per_second(1).burst(1).max_debt(10)).unwrap();
    let booked = limiter.charge(11);
    let taken = booked + u32::from(rival.join().unwrap());
    assert_eq!(taken, 11);
    assert_eq!(limiter.debt(), 10, "all of it is still owed");
}

/// Tokens taken on a fast line are not healed away while it is slowed.
///
/// [Healing between the two bends; healing by the deepest debt of the new quota.]
// CLAIM: a new quota
#[test]
fn quota_change_keeps_legal_debt() {
    check_preemptions(3, || {
        let (limiter, clock) = limiter(Quota::per_second(1_000).burst(2).max_debt(3));
        let rival = {
            let (limiter, clock) = (Arc::clone(&limiter), clock.clone());
            thread::spawn(move || {
                clock.advance(Duration::from_millis(2));
                let booked = limiter.charge(5);
                // Refused under either quota, and a refusal is what heals.
                (booked, limiter.check_n(2).is_ok())
            })
        };
        limiter.set_quota(Quota::per_second(1).burst(2).max_debt(0)).unwrap();
        let (booked, allowed) = rival.join().unwrap();
        assert!(!allowed);
        // Five under the old quota, two under the new one.
        match booked {
            5 => assert_eq!(limiter.debt(), 3, "all of it is still owed"),
            2 => assert_eq!(limiter.debt(), 0),
            _ => panic!("{booked}"),
        }
    });
}

/// A token is given back while the line is slowed a thousand times.
///
/// All of it, for the slow line has not brought what is missing.
///
/// [A refund that does not check again whether the quota is the same.]
#[test]
fn refund_beside_a_quota_change_arrives() {
    check_preemptions(3, || {
        let (limiter, clock) = limiter(Quota::per_second(1_000).burst(10));
        limiter.check_n(10).unwrap();
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.refund(1))
        };
        limiter.set_quota(Quota::per_second(1).burst(10)).unwrap();
        clock.advance(Duration::from_secs(5));
        assert_eq!(rival.join().unwrap(), 1, "five are missing");
        let missing = limiter.peek().resets_in().unwrap();
        // A unit is a millionth of a token here.
        assert!(missing.abs_diff(Duration::from_secs(4)) <= Duration::from_micros(10), "{missing:?}");
    });
}

/// Each of two changers succeeds or is refused as busy.
///
/// One of their quotas is in force. [`set` without the claim.]
// WORD: The sizes of a quota
// WORD: The shape of a quota's line
#[test]
fn changers_exclude_one_another() {
    check(changers_exclude_one_another_model);
}

#[test]
#[should_panic]
fn changers_exclude_one_another_unless_flawed() {
    check_flawed(Flaw::BlindExchange, changers_exclude_one_another_model);
}

fn changers_exclude_one_another_model() {
    let quotas = [Quota::per_second(5).burst(6), Quota::per_minute(7).burst(8)];
    let (limiter, _) = limiter(Quota::per_second(1));
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || limiter.set_quota(quotas[1]))
    };
    let results = [limiter.set_quota(quotas[0]), rival.join().unwrap()];
    assert!(results.iter().all(|result| matches!(result, Ok(()) | Err(SetQuotaError::Busy))));
    assert!(results.contains(&Ok(())));
    assert!(quotas.contains(&limiter.quota()));
}

/// The three models above on the small copy of `slowing`.
///
/// The copy passes them as it is and fails with each of its bugs.
mod copies {
    use super::{Arc, Bug, Duration, FAST, Slowing, Time, check_preemptions, thread};

    fn slow_check_leaves_no_word_ahead_of_a_slower_line(bug: Bug) {
        let clock = Time::at(0);
        let bucket = Arc::new(Slowing::new(bug, clock.clone()));
        let checker = {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || bucket.take(1, 1))
        };
        bucket.slow();
        clock.advance(Duration::from_secs(5));
        assert!(checker.join().unwrap().is_some());
        assert!(bucket.owed() <= 1, "{} ahead", bucket.owed());
    }

    fn slowdown_leaves_no_word_ahead_of_the_line(bug: Bug) {
        let clock = Time::at(0);
        let bucket = Arc::new(Slowing::new(bug, clock.clone()));
        let checker = {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || {
                clock.advance(Duration::from_secs(5));
                bucket.take(1, 1)
            })
        };
        bucket.slow();
        assert!(checker.join().unwrap().is_some());
        assert!(bucket.owed() <= 1, "{} ahead", bucket.owed());
    }

    fn quota_change_keeps_legal_debt(bug: Bug) {
        let clock = Time::at(0);
        let bucket = Arc::new(Slowing::new(bug, clock.clone()));
        let rival = {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || {
                clock.advance(Duration::from_millis(2));
                // Five are owed, and one more is refused.
                let rate = bucket.take(5, 5).unwrap();
                assert_eq!(bucket.take(1, 2), None);
                rate
            })
        };
        bucket.slow();
        // If the five were taken on the slow line, the second bend brings what the fast one had produced by then.
        let owed = if rival.join().unwrap() == FAST { 5..=5 } else { 3..=5 };
        assert!(owed.contains(&bucket.owed()), "{} are owed", bucket.owed());
    }

    #[test]
    fn copy_behaves_like_the_original() {
        check_preemptions(3, || slow_check_leaves_no_word_ahead_of_a_slower_line(Bug::None));
        check_preemptions(3, || slowdown_leaves_no_word_ahead_of_the_line(Bug::None));
        check_preemptions(3, || quota_change_keeps_legal_debt(Bug::None));
    }

    #[test]
    #[should_panic = "ahead"]
    fn model_notices_a_late_reading() {
        check_preemptions(3, || slow_check_leaves_no_word_ahead_of_a_slower_line(Bug::LateReading));
    }

    #[test]
    #[should_panic = "ahead"]
    fn model_notices_a_single_bend() {
        check_preemptions(3, || slowdown_leaves_no_word_ahead_of_the_line(Bug::OneBend));
    }

    #[test]
    #[should_panic = "owed"]
    fn model_notices_healing_between_the_bends() {
        check_preemptions(3, || quota_change_keeps_legal_debt(Bug::HealingBetween));
    }
}

/// A quota is set while another thread is the first user: the quota stays.
#[test]
fn first_use_keeps_a_changed_quota() {
    check_preemptions(2, || {
        let quota = Quota::per_minute(7).burst(8);
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1), Stopped(7)));
        let first = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || _ = limiter.check())
        };
        let set = limiter.set_quota(quota);
        first.join().unwrap();
        assert!(set == Err(SetQuotaError::Busy) || limiter.quota() == quota, "it stays");
    });
}

/// A share grows while another thread takes all that is there: no token is added.
///
/// [The tokens charged after the larger share is published.]
#[test]
fn larger_share_adds_no_tokens() {
    check_preemptions(1, || {
        let whole = Quota::per_hour(1).burst(3);
        let limiter = Arc::new(RateLimiter::with_clock(whole, Stopped(7)));
        limiter.set_share(Some(whole.burst(1))).unwrap();
        let taker = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.take_up_to(3))
        };
        limiter.set_share(Some(whole)).unwrap();
        let taken = taker.join().unwrap() + limiter.take_up_to(3);
        assert_eq!(taken, 1, "tokens of a bucket that had one");
    });
}
