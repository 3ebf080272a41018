//! The token bucket. In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::{LimitSet, Quota, RateLimiter};
use damper_loom_tests::healing::{Bug, Healing};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

/// Three threads race for a burst of two: exactly two are allowed. [A `store` in place of the swap.]
// CLAIM: RateLimiter
#[test]
fn burst_is_never_exceeded() {
    check_preemptions(3, burst_is_never_exceeded_model);
}

#[test]
#[should_panic]
fn burst_is_never_exceeded_unless_flawed() {
    check_flawed(Flaw::BlindExchange, burst_is_never_exceeded_model);
}

fn burst_is_never_exceeded_model() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(2), Stopped(7)));
    limiter.check_n(0).unwrap(); // starts the line, which is another model's business
    let rivals: Vec<_> = (0..2)
        .map(|_| {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || u32::from(limiter.check().is_ok()))
        })
        .collect();
    let mine = u32::from(limiter.check().is_ok());
    let allowed: u32 = mine + rivals.into_iter().map(|rival| rival.join().unwrap()).sum::<u32>();
    assert_eq!(allowed, 2, "two tokens, two winners");
}

/// Tokens taken and tokens left add up.
///
/// Threads take different amounts, and time passes meanwhile. [A `store` in place of the swap.]
// CLAIM: RateLimiter
#[test]
fn every_token_can_be_taken() {
    check(every_token_can_be_taken_model);
}

#[test]
#[should_panic]
fn every_token_can_be_taken_unless_flawed() {
    check_flawed(Flaw::BlindExchange, every_token_can_be_taken_model);
}

fn every_token_can_be_taken_model() {
    let clock = Time::at(0);
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(5), clock.clone()));
    limiter.check_n(5).unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || if limiter.check_n(2).is_ok() { 2 } else { 0 })
    };
    clock.advance(Duration::from_secs(3));
    let mine = u32::from(limiter.check().is_ok());
    let taken = mine + rival.join().unwrap();
    assert_eq!(mine, 1, "three came before, and a rival takes two at the most");
    assert_eq!(limiter.peek().remaining(), 3 - taken);
}

/// First users that race agree on where the line starts: none of them adds or loses tokens.
///
/// [A start of its own for each: a store in place of the swap of `first`. Relaxed in place of the Release, or of the
/// Acquire, of the epoch.]
#[test]
fn first_users_agree_on_the_line() {
    check_preemptions(3, first_users_agree_on_the_line_model);
}

#[test]
#[should_panic]
fn first_users_agree_on_the_line_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, first_users_agree_on_the_line_model);
}

fn first_users_agree_on_the_line_model() {
    // Far from where a line that starts at tick 0 would be: half a circle.
    let clock = Time::at(1 << 62);
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(1), clock.clone()));
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || u32::from(limiter.check().is_ok()))
    };
    clock.advance(Duration::from_millis(500));
    let mine = u32::from(limiter.check().is_ok());
    assert_eq!(mine + rival.join().unwrap(), 1);
    let wait = limiter.check().unwrap_err().retry_after().unwrap();
    assert!(wait == Duration::from_secs(1) || wait == Duration::from_millis(500), "{wait:?}");
}

/// A thread that has used a limiter sees its own use when it looks.
///
/// Another first user may have claimed the line and not published it yet.
///
/// [A look that takes the limiter for unused until the line is published.]
#[test]
fn look_of_a_first_user_finds_its_own_use() {
    check_preemptions(3, || {
        let clock = Time::at(1 << 62);
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(3), clock.clone()));
        assert_eq!(limiter.peek().remaining(), 3, "a look is no use");
        let use_and_look = |limiter: &RateLimiter<damper_core::TokenBucket, Time>| {
            limiter.check().unwrap();
            assert!(limiter.peek().remaining() < 3, "the own use is seen");
        };
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || use_and_look(&limiter))
        };
        use_and_look(&limiter);
        rival.join().unwrap();
        assert_eq!(limiter.peek().remaining(), 1);
    });
}

/// A clock that stepped back is healed once, to the deepest debt, by whichever thread notices.
///
/// No token is added.
///
/// [Healing to full: in the code by hand, and in `copies`.]
#[test]
fn healing_mints_nothing() {
    check_preemptions(3, || {
        let clock = Time::at(1 << 50);
        let quota = Quota::per_second(1).burst(2).max_debt(1);
        let limiter = Arc::new(RateLimiter::with_clock(quota, clock.clone()));
        limiter.check().unwrap();
        clock.step_back(Duration::from_hours(1));
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.check().is_ok())
        };
        let allowed = [limiter.check().is_ok(), rival.join().unwrap()];
        assert_eq!(allowed, [false, false], "nothing is minted");
        assert_eq!(limiter.peek().resets_in(), Some(Duration::from_secs(3)), "the deepest debt");
    });
}

/// A stopped thread does not take a bucket for full that has been emptied since.
///
/// It was stopped between its reading of the clock and its swap. [The word loaded after the clock, and swapped even if it
/// has changed.]
#[test]
fn stale_reading_is_not_taken_for_a_full_bucket() {
    check(stale_reading_is_not_taken_for_a_full_bucket_model);
}

#[test]
#[should_panic(expected = "two were there, and one came")]
fn stale_reading_is_not_taken_for_a_full_bucket_unless_flawed() {
    check_flawed(Flaw::BlindExchange, stale_reading_is_not_taken_for_a_full_bucket_model);
}

fn stale_reading_is_not_taken_for_a_full_bucket_model() {
    let clock = Time::at(0);
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(2), clock.clone()));
    limiter.check_n(0).unwrap();
    let stale = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || if limiter.check_n(2).is_ok() { 2 } else { 0 })
    };
    clock.advance(Duration::from_secs(1));
    let mine = if limiter.check_n(2).is_ok() { 2 } else { 0 };
    let taken = mine + stale.join().unwrap();
    assert_eq!(taken, 2, "two were there, and one came");
    assert!(limiter.peek().remaining() <= 1);
}

/// A stopped thread takes no newer word for one from before a clock stepped back.
///
/// It was stopped between its readings of the word and of the clock. Taken tokens stay taken. [The clock read before
/// the word: in the code by hand, and in `copies`.]
#[test]
fn stale_reading_keeps_legal_debt() {
    check(|| {
        let clock = Time::at(0);
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(2).max_debt(0), clock.clone()));
        limiter.check_n(0).unwrap();
        let rival = {
            let limiter = Arc::clone(&limiter);
            // More than there ever are; and a refusal is what heals.
            thread::spawn(move || limiter.reserve(3).is_err())
        };
        clock.advance(Duration::from_secs(1));
        limiter.check_n(2).unwrap();
        assert!(rival.join().unwrap());
        assert_eq!(limiter.peek().remaining(), 0, "both are still taken");
    });
}

/// Tokens that are charged and given back while another thread checks: the books balance.
///
/// [A `store` in place of the swap.]
#[test]
fn charges_and_refunds_balance() {
    check(charges_and_refunds_balance_model);
}

#[test]
#[should_panic]
fn charges_and_refunds_balance_unless_flawed() {
    check_flawed(Flaw::BlindExchange, charges_and_refunds_balance_model);
}

fn charges_and_refunds_balance_model() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(4).max_debt(2), Stopped(7)));
    limiter.check_n(2).unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || limiter.charge(3))
    };
    assert_eq!(limiter.charge(1), 1);
    // Whether the bucket is in debt by then or not.
    assert_eq!(limiter.refund(1), 1);
    assert_eq!(rival.join().unwrap(), 3);
    assert_eq!(limiter.debt(), 1, "two taken and four charged, less one given back");
}

/// Two threads give back the two tokens that are missing: together no more than those.
///
/// [The offset moved by an addition in the place of the swap.]
#[test]
fn refunds_fill_a_bucket_once() {
    check(refunds_fill_a_bucket_once_model);
}

#[test]
#[should_panic(expected = "two were missing")]
fn refunds_fill_a_bucket_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, refunds_fill_a_bucket_once_model);
}

fn refunds_fill_a_bucket_once_model() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(3), Stopped(7)));
    limiter.check_n(2).unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || limiter.refund(2))
    };
    let given = limiter.refund(2) + rival.join().unwrap();
    assert_eq!(given, 2, "two were missing");
    assert_eq!(limiter.peek().remaining(), 3);
}

/// Each of two threads gives back what it took.
///
/// No token is lost, though one of them may see the other's refund.
///
/// [The offset read Relaxed before the word, or swapped Relaxed.]
#[test]
fn racing_refunds_all_arrive() {
    check(racing_refunds_all_arrive_model);
}

#[test]
#[should_panic(expected = "both are given back")]
fn racing_refunds_all_arrive_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, racing_refunds_all_arrive_model);
}

fn racing_refunds_all_arrive_model() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(3), Stopped(7)));
    limiter.check().unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || {
            limiter.check().unwrap();
            limiter.refund(1)
        })
    };
    let given = limiter.refund(1) + rival.join().unwrap();
    assert_eq!(given, 2, "both are given back");
    assert_eq!(limiter.peek().remaining(), 3);
}

/// A token is given back while one thread waits and another checks.
///
/// The waiter gets it, and the newcomer does not overtake.
///
/// [The word moved back in the place of the line forward.]
#[test]
fn refund_serves_the_waiter_first() {
    check(|| {
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(1), Stopped(7)));
        limiter.check().unwrap();
        let waiter = limiter.reserve(1).unwrap();
        let newcomer = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.check().is_ok())
        };
        assert_eq!(limiter.refund(1), 1);
        assert!(!newcomer.join().unwrap(), "no call overtakes the waiter");
        assert_eq!(waiter.ready_in(), Some(Duration::ZERO), "the waiter is served");
        assert_eq!(limiter.peek().remaining(), 0);
    });
}

/// Two tokens are taken, given back while two threads check, and taken again.
///
/// In all no more than the burst and what was given back.
///
/// [A `store` in place of the swap.]
#[test]
fn refund_beside_checks_stays_in_the_envelope() {
    check_preemptions(3, refund_beside_checks_stays_in_the_envelope_model);
}

#[test]
#[should_panic(expected = "in the envelope")]
fn refund_beside_checks_stays_in_the_envelope_unless_flawed() {
    check_flawed(Flaw::BlindExchange, refund_beside_checks_stays_in_the_envelope_model);
}

fn refund_beside_checks_stays_in_the_envelope_model() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(2), Stopped(7)));
    limiter.check_n(2).unwrap();
    let rivals: Vec<_> = (0..2)
        .map(|_| {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || u32::from(limiter.check().is_ok()))
        })
        .collect();
    let given = limiter.refund(1);
    let taken: u32 = rivals.into_iter().map(|rival| rival.join().unwrap()).sum();
    assert_eq!(given, 1);
    assert!(taken <= given, "in the envelope");
    assert_eq!(limiter.peek().remaining(), given - taken);
}

/// The word of a refund is not taken for one from before a clock stepped back.
///
/// Taken tokens stay taken. [The offset read before the word; the word swapped Relaxed.]
#[test]
fn old_offset_keeps_legal_debt() {
    check_preemptions(2, old_offset_keeps_legal_debt_model);
}

#[test]
#[should_panic(expected = "what is taken stays taken")]
fn old_offset_keeps_legal_debt_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, old_offset_keeps_legal_debt_model);
}

fn old_offset_keeps_legal_debt_model() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(2).max_debt(0), Stopped(7)));
    limiter.check_n(2).unwrap();
    let refused = {
        let limiter = Arc::clone(&limiter);
        // More than there ever are; and a refusal is what heals.
        thread::spawn(move || limiter.reserve(3).is_err())
    };
    let taker = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || if limiter.check_n(2).is_ok() { 2 } else { 0 })
    };
    assert_eq!(limiter.refund(2), 2);
    assert!(refused.join().unwrap());
    let taken = taker.join().unwrap();
    assert_eq!(limiter.peek().remaining(), 2 - taken, "what is taken stays taken");
}

/// A reservation is cancelled while another is made.
///
/// It is given back only if it was the last, so that the other's wait stays the same.
///
/// [`cancel` without comparing the word; taking off the cost in place.]
#[test]
fn cancelled_reservation_keeps_others_in_place() {
    check(cancelled_reservation_keeps_others_in_place_model);
}

#[test]
#[should_panic]
fn cancelled_reservation_keeps_others_in_place_unless_flawed() {
    check_flawed(Flaw::BlindExchange, cancelled_reservation_keeps_others_in_place_model);
}

fn cancelled_reservation_keeps_others_in_place_model() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(1), Stopped(7)));
    limiter.check().unwrap();
    let first = limiter.reserve(1).unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || {
            let slot = limiter.reserve(1).unwrap();
            [slot.ready_in(), slot.ready_in()]
        })
    };
    let cancelled = first.cancel();
    let wait = Some(Duration::from_secs(if cancelled { 1 } else { 2 }));
    assert_eq!(rival.join().unwrap(), [wait, wait]);
    assert_eq!(limiter.debt(), if cancelled { 1 } else { 2 });
}

/// Two calls through two limits, of which the second has room for one.
///
/// One is allowed or, while the other is being taken back, none; never both, and what the refused one took from the
/// first limit is there again.
///
/// [No roll-back; a roll-back that stores.]
#[test]
fn limit_set_takes_all_or_nothing() {
    check(limit_set_takes_all_or_nothing_model);
}

#[test]
#[should_panic]
fn limit_set_takes_all_or_nothing_unless_flawed() {
    check_flawed(Flaw::BlindExchange, limit_set_takes_all_or_nothing_model);
}

fn limit_set_takes_all_or_nothing_model() {
    let quotas = [Quota::per_second(1).burst(2), Quota::per_hour(1).burst(1)];
    let both = Arc::new(LimitSet::with_clock(quotas, Stopped(7)));
    both.check_n(0).unwrap();
    let rival = {
        let both = Arc::clone(&both);
        thread::spawn(move || u32::from(both.check().is_ok()))
    };
    let allowed = u32::from(both.check().is_ok()) + rival.join().unwrap();
    assert_eq!(allowed, 1);
    assert_eq!(both.peek().map(|usage| usage.remaining()), [1, 0]);
}

/// A bucket that keeps a clock reading over the loop around its swap, as better-bucket 1.0 did.
///
/// Its own model had a clock that stood still, under which the bug cannot show. Time that passes in the model shows it.
mod stale_readings {
    use super::{Arc, Duration, Quota, RateLimiter, Stopped, Time, check_preemptions, thread};
    use damper_loom_tests::check;
    use damper_loom_tests::stale::Stale;

    /// A second passes beside a call, after which there is one token for two calls.
    fn one_token_a_second(clock: &Time, check: impl Fn() -> bool + Clone + Send + 'static) {
        let rival = thread::spawn({
            let check = check.clone();
            move || check()
        });
        clock.advance(Duration::from_secs(1));
        let taken = [check(), rival.join().unwrap()];
        assert_ne!(taken, [true, true], "one token a second");
    }

    #[test]
    fn reading_from_before_admits_nothing_more() {
        check_preemptions(3, || {
            let clock = Time::at(0);
            let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(5), clock.clone()));
            limiter.check_n(5).unwrap();
            one_token_a_second(&clock, move || limiter.check().is_ok());
        });
    }

    #[test]
    #[should_panic(expected = "one token a second")]
    fn model_notices_a_stale_reading() {
        check_preemptions(3, || {
            let clock = Time::at(0);
            let bucket = Arc::new(Stale::new(0, 5, clock.clone()));
            one_token_a_second(&clock, move || bucket.check());
        });
    }

    /// The model of better-bucket 1.0, which passes.
    #[test]
    fn stopped_clock_hides_a_stale_reading() {
        check(|| {
            let bucket = Arc::new(Stale::new(1, 5, Stopped(7_000_000)));
            let rival = thread::spawn({
                let bucket = Arc::clone(&bucket);
                move || bucket.check()
            });
            assert_ne!([bucket.check(), rival.join().unwrap()], [true, true], "one token");
        });
    }
}

/// The models of healing on the small copy of `healing`.
///
/// The copy passes them as it is and fails with each of its bugs.
mod copies {
    use super::{Arc, Bug, Duration, Healing, Time, check_preemptions, thread};

    fn healing_mints_nothing(bug: Bug) {
        let clock = Time::at(1 << 50);
        let bucket = Arc::new(Healing::new(bug, clock.clone(), 2, 3));
        assert!(bucket.take(1));
        clock.step_back(Duration::from_hours(1));
        let rival = {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || bucket.take(1))
        };
        let taken = [bucket.take(1), rival.join().unwrap()];
        assert_eq!(taken, [false, false], "nothing is minted");
        assert_eq!(bucket.owed(), 3, "the deepest debt");
    }

    fn stale_reading_keeps_legal_debt(bug: Bug) {
        let clock = Time::at(0);
        let bucket = Arc::new(Healing::new(bug, clock.clone(), 2, 2));
        let rival = {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || bucket.take(3))
        };
        clock.advance(Duration::from_secs(1));
        assert!(bucket.take(2));
        assert!(!rival.join().unwrap());
        assert_eq!(bucket.owed(), 2, "both are still taken");
    }

    #[test]
    fn copy_behaves_like_the_original() {
        check_preemptions(3, || healing_mints_nothing(Bug::None));
        check_preemptions(3, || stale_reading_keeps_legal_debt(Bug::None));
    }

    #[test]
    #[should_panic(expected = "nothing is minted")]
    fn model_notices_healing_to_full() {
        check_preemptions(3, || healing_mints_nothing(Bug::ToFull));
    }

    #[test]
    #[should_panic(expected = "both are still taken")]
    fn model_notices_an_early_reading() {
        check_preemptions(3, || stale_reading_keeps_legal_debt(Bug::EarlyReading));
    }
}
