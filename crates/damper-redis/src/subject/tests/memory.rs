//! Tests of how long a process acts on a denial, a loss or a reset, and of when it sends charges.

use super::fleet::{MILLISECOND, SECOND};
use super::steps::{Pair, carried};
use crate::script::{Command, Limit, Sighting, Take, Terms};
use crate::subject::{Answer, NextStep, Outcome, Subject};
use damper_core::Quota;

/// Returns the terms of a slow limit: a token in 90 seconds, and a burst of 1,000.
fn slow() -> Terms {
    Terms::new(Quota::per_hour(40).burst(1_000), 250).expect("a rate that can be counted")
}

/// With `N` processes, up to `(N - 1)/N` of a burst is admitted twice.
///
/// [`WhenDown`](crate::WhenDown) explains why: the first processes to return find tokens that the others have spent and not charged
/// yet.
#[test]
fn late_charges_admit_the_shares_of_the_others_twice_and_are_repaid() {
    // Four processes have spent their shares of the burst without the server.
    let terms = Terms::new(Quota::per_second(100), 0).expect("a rate that can be counted");
    let mut first = Pair::new(terms);
    let _ = first.subject.charge(25);
    let taken = (0..200).take_while(|_| first.takes(1)).count();
    assert_eq!(taken, 75, "its own charge comes with its first command");
    let limit = Limit { terms, seen: Sighting::default() };
    for process in 1..4 {
        let late = Take { cost: 0, charge: 25, refund: 0 };
        first.server.run(&Command::Take(vec![(limit, late)]), process, first.now);
    }
    // The debt of 75 tokens is repaid before a token is allowed again.
    first.wait(750 * MILLISECOND);
    assert!(!first.takes(1));
    first.wait(10 * MILLISECOND);
    assert!(first.takes(1) && !first.takes(1));
}

/// Resets the limit by a command of another process, of which this one hears nothing.
fn reset_elsewhere(pair: &mut Pair, terms: Terms) {
    let limit = Limit { terms, seen: Sighting::default() };
    pair.server.run(&Command::Reset(vec![limit]), 9, pair.now);
}

/// Takes all tokens, from a lease or one by one, and ends with a denial.
fn exhaust(pair: &mut Pair) {
    while pair.takes(1) {}
}

/// Returns two processes that have used up a slow limit: one by a lease, and one by two large takes.
fn exhausted() -> [Pair; 2] {
    let mut leasing = Pair::new(slow());
    leasing.lease();
    exhaust(&mut leasing);
    assert!(leasing.subject.holdings().is_leasing);
    let mut asking = Pair::new(slow());
    assert!(asking.takes(500) && asking.takes(500) && !asking.takes(1));
    assert!(!asking.subject.holdings().is_leasing);
    [leasing, asking]
}

#[test]
fn reset_by_another_process_is_noticed_after_five_seconds() {
    for mut pair in exhausted() {
        let Answer::Denied(denied) = pair.subject.check(1) else { panic!("it knows") };
        assert!(denied.retry_after() > Some(std::time::Duration::from_secs(80)), "the wait is the true one: {denied}");
        reset_elsewhere(&mut pair, slow());
        assert!(!pair.takes(1), "it has not heard of it");
        pair.wait(5 * SECOND);
        assert!((0..9).all(|_| pair.takes(1)));
    }
}

#[test]
fn denials_of_an_exhausted_limit_send_a_command_every_five_seconds() {
    for mut pair in exhausted() {
        let mut commands = 0;
        for _ in 0..60_000 {
            pair.wait(MILLISECOND);
            match pair.subject.check(1) {
                Answer::Ask(dispatch) => {
                    commands += 1;
                    let _ = pair.run(*dispatch);
                }
                Answer::Denied(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert!((10..=13).contains(&commands), "{commands} in a minute");
    }
}

#[test]
fn check_that_asks_again_in_vain_is_followed_by_another_one() {
    let endings = [Subject::lost, Subject::undeliverable, Subject::cancelled, Subject::unsent];
    for end in endings {
        let [_, mut pair] = exhausted();
        pair.wait(5 * SECOND);
        end(&pair.subject, *pair.asked(1));
        pair.wait(21 * MILLISECOND);
        let dispatch = pair.asked(1);
        assert!(matches!(pair.run(*dispatch), Outcome::Denied(_)));
        pair.wait(21 * MILLISECOND);
        assert!(matches!(pair.subject.check(1), Answer::Denied(_)), "the server has decided");
    }
}

/// The budget allows the check that asks again no command.
#[test]
fn check_that_the_budget_denies_is_followed_by_another_one() {
    let [mut pair, _] = exhausted();
    pair.wait(5 * SECOND);
    (0..20).for_each(|_| pair.subject.cancelled(*pair.subject.look()));
    // No lease can hold as many tokens.
    assert!(matches!(pair.subject.check(300), Answer::Denied(_)));
    pair.wait(150 * MILLISECOND);
    assert!(matches!(pair.subject.check(300), Answer::Ask(_)));
}

#[test]
fn own_reset_opens_the_limit_at_once() {
    for mut pair in exhausted() {
        let dispatch = pair.subject.reset();
        assert_eq!(pair.run(*dispatch), Outcome::Again);
        assert!((0..9).all(|_| pair.takes(1)));
    }
}

#[test]
fn refund_is_not_hidden_by_the_denial_before_it() {
    let mut pair = Pair::new(slow());
    assert!(pair.takes(500) && pair.takes(500) && !pair.takes(1));
    let _ = pair.subject.refund(5);
    pair.wait(100 * MILLISECOND);
    let NextStep::Send(dispatch) = pair.subject.due() else { panic!("it is time to tell the server") };
    let _ = pair.run(*dispatch);
    assert!((0..5).all(|_| pair.takes(1)));
    assert!(!pair.takes(1));
}

/// After a lost command the next one goes out in 20 ms, although the limit is exhausted.
///
/// Otherwise [`WhenDown`](crate::WhenDown) would decide until an exhausted limit is asked again, which takes five seconds.
#[test]
fn lost_command_makes_the_policy_decide_for_20_ms_only() {
    let [mut pair, _] = exhausted();
    pair.wait(5 * SECOND);
    let dispatch = pair.asked(1);
    let _ = pair.run(*dispatch);
    // After the reply the process knows that the limit is empty, so its next request is seconds away. The lost command has to bring
    // that request forward.
    let dispatch = pair.subject.look();
    pair.subject.lost(*dispatch);
    pair.wait(20 * MILLISECOND);
    assert!(!matches!(pair.subject.check(1), Answer::Down));
}

/// A cancelled caller is no sign that the server fails.
#[test]
fn cancelled_check_does_not_hand_the_limit_to_the_policy() {
    let mut pair = Pair::new(super::fleet::terms(1_000, 1_000));
    pair.lease();
    let _ = pair.subject.charge(200);
    let dispatch = pair.asked(300);
    assert_eq!(carried(&dispatch), (200, 0));
    pair.subject.cancelled(*dispatch);
    let dispatch = pair.asked(300);
    assert_eq!(carried(&dispatch), (0, 0), "the server may have the charge, so it waits for a reply");
    pair.subject.lost(*dispatch);
    assert!(matches!(pair.subject.check(300), Answer::Down), "no reply does say something");
}

#[test]
fn no_tokens_are_allowed_whatever_is_known() {
    for mut pair in exhausted() {
        // The lease has expired, so no check can spend from it, not even a check of 0 tokens.
        pair.wait(2 * SECOND);
        assert!(matches!(pair.subject.check(0), Answer::Allowed(_)));
    }
}

#[test]
fn charges_that_keep_coming_are_told_within_100_ms() {
    let mut pair = Pair::new(slow());
    let mut told = 0;
    for _ in 0..100 {
        let _ = pair.subject.charge(1);
        pair.wait(50 * MILLISECOND);
        if let NextStep::Send(dispatch) = pair.subject.due() {
            told += carried(&dispatch).0;
            let _ = pair.run(*dispatch);
        }
    }
    assert!(told >= 98, "{told} of 100");
}

/// Charges that the lease cannot pay go to the server before the usual time of the next request.
///
/// With an even load there is a request only twice a second.
#[test]
fn leasing_process_tells_of_charges_within_200_ms() {
    let mut pair = Pair::new(super::fleet::terms(1_000, 1_000));
    pair.lease();
    let (mut charged_at, mut told_at) = (0, 0);
    for step in 0..1_000 {
        pair.wait(MILLISECOND);
        if step % 15 == 0 {
            let _ = pair.takes(1);
        }
        if let NextStep::Send(dispatch) = pair.subject.due() {
            if carried(&dispatch).0 > 0 {
                told_at = pair.now;
            }
            let _ = pair.run(*dispatch);
            if step > 300 && charged_at == 0 {
                let _ = pair.subject.charge(200);
                charged_at = pair.now;
            }
        }
    }
    assert!(charged_at > 0 && told_at > charged_at, "charged at {charged_at}, told at {told_at}");
    let late = told_at - charged_at;
    assert!(late <= 200 * MILLISECOND, "{late} µs");
}

/// The next request for tokens of an exhausted limit is seconds away.
///
/// Charges and refunds do not wait for it.
#[test]
fn process_whose_lease_is_used_up_tells_of_charges_and_refunds_within_200_ms() {
    for (charge, refund) in [(7, 0), (0, 7)] {
        let [mut pair, _] = exhausted();
        pair.wait(400 * MILLISECOND);
        assert!(!pair.takes(1) && matches!(pair.subject.due(), NextStep::At(_)));
        let _ = if charge > 0 { pair.subject.charge(charge) } else { pair.subject.refund(refund) };
        let booked_at = pair.now;
        let told = loop {
            match pair.subject.due() {
                NextStep::Send(dispatch) => break carried(&dispatch),
                NextStep::At(_) | NextStep::Nothing => pair.wait(MILLISECOND),
            }
        };
        assert_eq!(told, (charge.into(), refund.into()));
        let late = pair.now - booked_at;
        assert!(late <= 200 * MILLISECOND, "{late} µs");
    }
}

/// Tokens that arrive too late have expired, so a lease would make every check wait for its deadline.
#[test]
fn server_that_is_too_slow_for_leases_decides_each_check() {
    for slow in [SECOND * 9 / 10, SECOND * 2] {
        let mut pair = Pair::new(super::fleet::terms(10_000, 10_000));
        let (mut leases, mut allowed) = (0, 0);
        for _ in 0..100 {
            match pair.subject.check(1) {
                Answer::Ask(dispatch) => {
                    leases += u32::from(dispatch.is_lease());
                    let wait = if dispatch.is_lease() { slow } else { MILLISECOND };
                    pair.wait(wait);
                    if matches!(pair.subject.due(), NextStep::Send(_)) {
                        panic!("nothing is due");
                    }
                    allowed += u32::from(matches!(pair.run(*dispatch), Outcome::Allowed(_)));
                }
                Answer::Down => pair.wait(MILLISECOND),
                other => panic!("{other:?}"),
            }
        }
        assert!(leases == 1 && allowed >= 70, "{leases} requests, {allowed} allowed");
    }
}

/// The second request brings tokens for all checks that wait for a lease, however many there are.
#[test]
fn next_request_asks_for_the_checks_that_wait() {
    let mut pair = Pair::new(super::fleet::terms(10_000, 10_000));
    let mut dispatch = pair.asked(1);
    while !dispatch.is_lease() {
        let _ = pair.run(*dispatch);
        dispatch = pair.asked(1);
    }
    for _ in 0..1_000 {
        assert!(matches!(pair.subject.check(1), Answer::Join));
        assert!(pair.subject.join(1));
    }
    let _ = pair.run(*dispatch);
    assert!(!pair.subject.join(1), "it has an outcome");
    let mut taken = 0;
    let dispatch = loop {
        match pair.subject.check(1) {
            Answer::Ask(dispatch) => break dispatch,
            Answer::Allowed(_) | Answer::Low(_) => taken += 1,
            other => panic!("a limit with tokens: {other:?}"),
        }
    };
    let Command::Lease(_, ask) = dispatch.command() else { panic!("{dispatch:?}") };
    assert!(taken + ask.want >= 1_000, "{taken} taken, {} wanted", ask.want);
}

/// If more checks wait than a lease can serve, one joint take brings the tokens of all others.
///
/// Tokens that no check takes in time are given back.
#[test]
fn server_takes_the_tokens_of_all_checks_that_wait() {
    let mut pair = Pair::new(super::fleet::terms(1_000, 1_000));
    let mut dispatch = pair.asked(1);
    while !dispatch.is_lease() {
        let _ = pair.run(*dispatch);
        dispatch = pair.asked(1);
    }
    for _ in 0..600 {
        assert!(matches!(pair.subject.check(1), Answer::Join) && pair.subject.join(1));
    }
    let _ = pair.run(*dispatch);
    let held = pair.subject.holdings().tokens;
    assert!((0..held).all(|_| matches!(pair.subject.check(1), Answer::Allowed(_) | Answer::Low(_))));
    let dispatch = pair.asked(1);
    assert!(dispatch.is_joint() && !dispatch.is_lease());
    let left = 600 - held;
    let Command::Take(limits) = dispatch.command() else { panic!("{dispatch:?}") };
    assert_eq!(limits[0].1.cost, left);
    assert!(matches!(pair.subject.check(1), Answer::Join), "it has no outcome yet");
    assert_eq!(pair.run(*dispatch), Outcome::Again);
    assert!((0..left - 5).all(|_| matches!(pair.subject.check(1), Answer::Taken(_))));
    pair.wait(6 * MILLISECOND);
    let dispatch = pair.asked(1);
    assert_eq!(carried(&dispatch), (0, 5), "the rest has ended");
}

#[test]
fn limit_that_has_filled_again_is_not_taken_for_used_up() {
    let terms = super::fleet::terms(1_000, 1_000);
    let mut pair = Pair::new(terms);
    pair.lease();
    exhaust(&mut pair);
    reset_elsewhere(&mut pair, terms);
    pair.wait(900 * MILLISECOND);
    let allowed = (0..600).take_while(|_| pair.takes(1)).count();
    assert_eq!(allowed, 600, "more than one lease, though the limit was empty within a second");
}

#[test]
fn lost_joint_take_leaves_the_decision_to_the_policy() {
    let mut pair = Pair::new(super::fleet::terms(1_000, 1_000));
    pair.lease();
    for _ in 0..9 {
        let dispatch = loop {
            match pair.subject.check(1) {
                Answer::Allowed(_) | Answer::Low(_) | Answer::Taken(_) => {}
                Answer::Ask(dispatch) => break dispatch,
                other => panic!("{other:?}"),
            }
        };
        if !dispatch.is_lease() {
            pair.subject.lost(*dispatch);
            assert!(matches!(pair.subject.check(1), Answer::Down));
            return;
        }
        (0..600).for_each(|_| assert!(pair.subject.join(1)));
        let _ = pair.run(*dispatch);
    }
    panic!("no joint take");
}
