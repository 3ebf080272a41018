//! Leases and stripes: tokens that are held outside of the bucket.
#![cfg(shuttle)]

use damper_core::limit::LeasingBucket;
use damper_core::{Quota, RateLimiter, Striped};
use damper_shuttle_tests::{History, Time, advance, check, check_flawed, random, time, timed, together};
use std::sync::Arc;
use std::time::Duration;

/// Of the burst four are held elsewhere.
const QUOTA: Quota = Quota::per_second(2).burst(8);
const BUDGET: u32 = 4;

struct Leasing {
    limiter: RateLimiter<LeasingBucket, Time>,
    time: Time,
    history: History,
}

impl Leasing {
    /// Takes `n` tokens with `spend`.
    fn spend(&self, n: u32, spend: impl FnOnce() -> bool) {
        let (between, spent) = timed(&self.time, spend);
        if spent {
            self.history.admitted(0, between, n);
        }
    }

    fn leases(&self) {
        let Ok(mut lease) = self.limiter.lease(1 + random(3) as u32) else { return };
        for _ in 0..random(4) {
            let n = 1 + random(2) as u32;
            self.spend(n, || lease.check_n(n).is_ok());
            if random(4) == 0 {
                advance(&self.time);
            }
        }
        if random(4) == 0 {
            lease.give_back();
        }
    }
}

/// Leases come, spend and go, beside checks of the bucket.
///
/// All together are in the envelope of one burst, and in the end all of the budget is there.
///
/// [A `store` of the budget in place of the swap.]
#[test]
fn leases_are_in_the_envelope_of_one_bucket() {
    check(6_000, leasing);
}

#[test]
#[should_panic]
fn leases_are_in_the_envelope_of_one_bucket_unless_flawed() {
    check_flawed(leasing);
}

fn leasing() {
    let time = time();
    let limiter = RateLimiter::with_algorithm(LeasingBucket::new(QUOTA, BUDGET).unwrap(), Arc::clone(&time));
    let leasing = Arc::new(Leasing { limiter, time, history: History::new(QUOTA) });
    together(4, 3, &leasing, |leasing, _| match random(4) {
        0 => advance(&leasing.time),
        1 => leasing.spend(2, || leasing.limiter.check_n(2).is_ok()),
        _ => leasing.leases(),
    });
    leasing.history.keeps_to_the_envelope();
    leasing.time.advance(Duration::from_secs(1_000));
    assert!(leasing.limiter.lease(BUDGET).is_ok(), "the budget is there");
    assert!(leasing.limiter.check_n(4).is_ok() && leasing.limiter.check().is_err(), "and the bucket");
}

struct Stripes {
    limiter: Striped<Time>,
    time: Time,
    history: History,
}

/// Four threads spend of two stripes and gather where one has too few.
///
/// All are in the envelope of one burst.
///
/// [A `store` in place of the swap of a stripe.]
#[test]
fn stripes_are_in_the_envelope_of_one_bucket() {
    check(24_000, stripes);
}

#[test]
#[should_panic]
fn stripes_are_in_the_envelope_of_one_bucket_unless_flawed() {
    check_flawed(stripes);
}

fn stripes() {
    let time = time();
    let limiter = Striped::with_stripes(QUOTA, BUDGET, 2, Arc::clone(&time)).unwrap();
    let stripes = Arc::new(Stripes { limiter, time, history: History::new(QUOTA) });
    together(4, 6, &stripes, |stripes, _| {
        let n = 1 + random(4) as u32;
        if random(4) == 0 {
            return advance(&stripes.time);
        }
        let (between, allowed) = timed(&stripes.time, || stripes.limiter.check_n(n).is_ok());
        if allowed {
            stripes.history.admitted(0, between, n);
        }
    });
    stripes.history.keeps_to_the_envelope();
    // The stripes may hold less than their share; the bucket is full.
    stripes.time.advance(Duration::from_secs(1_000));
    let left = (0..10).filter(|_| stripes.limiter.check().is_ok()).count();
    assert!((4..=8).contains(&left), "{left} of a burst of eight");
}
