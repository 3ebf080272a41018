//! The word of a lease that ends.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::Clock;
use damper_core::internal::{ExpiringLease, Report};
use damper_loom_tests::{Flaw, Stopped, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// A clock whose ticks are the units of a lease's end.
///
/// It shows no more of other threads than its reading, as a processor's counter does.
#[derive(Clone, Debug)]
struct Counter(Arc<AtomicU64>);

impl Counter {
    fn at(tick: u64) -> Self {
        Self(Arc::new(AtomicU64::new(tick)))
    }

    fn set(&self, tick: u64) {
        self.0.store(tick, Ordering::Relaxed);
    }
}

impl Clock for Counter {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn frequency(&self) -> u64 {
        1_000
    }
}

/// A clock that stands still before all ends.
const STILL: Stopped = Stopped(0);

/// A lease with so many tokens, on a clock that stands still.
fn lease(tokens: u32) -> Arc<ExpiringLease> {
    let lease = Arc::new(ExpiringLease::new(STILL.frequency()));
    lease.renew(0, tokens, 1 << 30, &STILL);
    lease
}

fn spend(lease: &ExpiringLease, n: u32) -> u32 {
    if lease.spend(n, &STILL).is_some() { n } else { 0 }
}

/// Two threads spend while a third one's renewal drops a token and brings two.
///
/// Together they spend no more than was granted.
///
/// [A swap whose failure is ignored.]
fn spends_beside_a_renewal() {
    let lease = lease(2);
    let rival = {
        let lease = Arc::clone(&lease);
        thread::spawn(move || spend(&lease, 1) + spend(&lease, 1))
    };
    let renewer = {
        let lease = Arc::clone(&lease);
        thread::spawn(move || lease.renew(1, 2, 1 << 30, &STILL))
    };
    let mut all = spend(&lease, 2);
    all += rival.join().unwrap();
    renewer.join().unwrap();
    all += lease.held(&STILL);
    // The dropped token may be one that was spent already.
    assert!(all == 3 || all == 4, "{all} of the tokens that were granted");
}

#[test]
fn spends_never_exceed_grants() {
    check_preemptions(3, spends_beside_a_renewal);
}

#[test]
#[should_panic(expected = "of the tokens that were granted")]
fn spends_never_exceed_grants_unless_flawed() {
    check_flawed(Flaw::BlindExchange, spends_beside_a_renewal);
}

/// A request takes out what is beyond a part to keep, while another thread spends.
///
/// Each token is reported as unspent, given back, or spent: once.
///
/// [What is left looked at before it is taken out.]
// WORD: An expiring lease
#[test]
fn report_counts_each_token_once() {
    check(|| {
        let lease = lease(3);
        let rival = {
            let lease = Arc::clone(&lease);
            thread::spawn(move || spend(&lease, 1) + spend(&lease, 1))
        };
        let Report { back, unspent } = lease.report(1, &STILL);
        let spent = rival.join().unwrap();
        let held = lease.held(&STILL);
        assert!(unspent <= 1 && back + spent + held == 3, "{back} back, {spent} spent, {held} held");
        // The server counts what is not reported as spent before the request.
        assert!(held <= unspent && 3 - back - unspent <= spent, "{unspent} of {held} unspent, {spent} spent");
    });
}

/// A refund fills the lease up to a bound while another thread spends: no token is lost or made.
///
/// [A bound that is compared with a word of before.]
#[test]
fn refund_keeps_within_its_bound() {
    check(|| {
        let lease = lease(1);
        let rival = {
            let lease = Arc::clone(&lease);
            thread::spawn(move || spend(&lease, 1))
        };
        let refunded = lease.refund(2, 2, &STILL);
        let held = lease.held(&STILL);
        assert!((1..=2).contains(&refunded) && held <= 2, "{refunded} refunded, {held} held");
        let spent = rival.join().unwrap();
        assert_eq!(lease.held(&STILL) + spent, 1 + refunded, "what was refunded is there");
    });
}

/// Time passes, and the lease is renewed, while a thread spends.
///
/// A spend goes by a reading of the clock before the end of the tokens that it takes, and after they were granted: so
/// once another holder may have what was here, nothing is spent any more.
///
/// [No comparison with the end; the clock read before the word, or once for all attempts; either ordering Relaxed.]
fn spend_beside_the_end() {
    let clock = Counter::at(1);
    let lease = Arc::new(ExpiringLease::new(clock.frequency()));
    // One token until 2.
    lease.renew(0, 1, 2, &clock);
    let server = {
        let (lease, clock) = (Arc::clone(&lease), clock.clone());
        thread::spawn(move || {
            clock.set(2);
            // The rest of the old lease is lost, and five tokens are granted.
            lease.renew(1, 5, 9, &clock);
        })
    };
    if let Some(spent) = lease.spend(1, &clock) {
        // Of one token none is left; of five there are four.
        let granted_at = if spent.left == 0 { 1 } else { 2 };
        let end = if spent.left == 0 { 2 } else { 9 };
        assert!((granted_at..end).contains(&spent.at), "spent at {}, good from {granted_at} to {end}", spent.at);
    }
    server.join().unwrap();
}

#[test]
fn spend_reads_the_clock_after_the_renewal() {
    check(spend_beside_the_end);
}

#[test]
#[should_panic(expected = "spent at")]
fn spend_reads_the_clock_after_the_renewal_unless_flawed() {
    check_flawed(Flaw::NothingOrdered, spend_beside_the_end);
}

/// A check that begins when another holder has the tokens finds none.
///
/// [No comparison with the end.]
#[test]
fn nothing_is_spent_after_the_end() {
    check(|| {
        let clock = Counter::at(1);
        let lease = Arc::new(ExpiringLease::new(clock.frequency()));
        lease.renew(0, 2, 2, &clock);
        let passed = Arc::new(AtomicU64::new(0));
        let server = {
            let (clock, passed) = (clock.clone(), Arc::clone(&passed));
            thread::spawn(move || {
                clock.set(2);
                passed.store(1, Ordering::Release);
            })
        };
        let is_passed = passed.load(Ordering::Acquire) == 1;
        let spent = lease.spend(1, &clock);
        assert!(spent.is_none() || !is_passed, "spent after the end");
        server.join().unwrap();
        assert_eq!(lease.report(0, &clock), Report::default(), "what has ended is not given back");
    });
}
