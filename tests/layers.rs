//! Several limits in one decision, through the public API. How they give back what another refuses is in
//! `operations.rs`, `algorithms.rs` and `sliding_log.rs`.

use damper::limit::Algorithm;
use damper::{Clock, FixedWindow, Layered, LeakyBucket, LeasingBucket, ManualClock, Quota, SetQuotaError, TokenBucket};
use std::cell::Cell;
use std::time::Duration;

#[test]
fn a_refusal_tells_which_limit_and_when() {
    let clock = ManualClock::new();
    let both = Layered::with_clock([Quota::per_second(10), Quota::per_minute(15)], &clock);
    both.check_n(10).unwrap();
    let denied = both.check_n(2).unwrap_err();
    assert_eq!((denied.layer(), denied.quota()), (0, Quota::per_second(10)));
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(200)));
    assert_eq!(denied.retry_after(), denied.denied().retry_after());
    assert_eq!(both.check_n(11).unwrap_err().retry_after(), None, "more than the burst is never there");
    clock.advance(Duration::from_secs(1));
    both.check_n(5).unwrap();
    let denied = both.check_n(1).unwrap_err();
    assert_eq!((denied.layer(), denied.quota()), (1, Quota::per_minute(15)));
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(3)), "of one in four seconds one is gone");
}

#[test]
fn each_limit_has_a_quota_that_can_be_changed() {
    let clock = ManualClock::new();
    let both = Layered::with_clock([Quota::per_second(10), Quota::per_minute(600)], &clock);
    assert_eq!(both.set_quota(0, Quota::per_second(20)), Some(Ok(())));
    assert_eq!(both.peek().map(|usage| usage.limit()), [20, 600]);
    both.check_n(20).unwrap();
    assert_eq!(both.set_quota(1, Quota::per_minute(20)), Some(Ok(())));
    clock.advance(Duration::from_secs(1));
    assert_eq!(both.check_n(20).unwrap_err().layer(), 1);
    assert_eq!(both.set_quota(2, Quota::per_second(1)), None, "there are two");
}

#[test]
fn a_quota_that_does_not_fit_is_refused_and_stays() {
    let clock = ManualClock::new();
    let both = Layered::with_clock([Quota::per_second(10), Quota::per_minute(15)], &clock);
    assert_eq!(both.set_quota(1, Quota::per_second(1_000_000_000).burst(15)), Some(Err(SetQuotaError::TooFast)));
    assert_eq!(both.peek().map(|usage| usage.limit()), [10, 15]);
}

/// Whatever they count by: what the second limit refuses, the first gets back.
#[test]
fn every_algorithm_gives_back_what_another_refuses() {
    fn gives_back<A: Algorithm>(make: fn(Quota) -> A) {
        let clock = ManualClock::new();
        let both = Layered::of([Quota::per_second(10), Quota::per_hour(12)].map(make), &clock);
        both.check_n(6).unwrap();
        clock.advance(Duration::from_secs(2));
        assert_eq!(both.check_n(8).unwrap_err().layer(), 1);
        assert_eq!(both.peek()[0].used(), 0, "as before");
        assert_eq!(both.check_n(6).unwrap().remaining(), 0, "of the second; all that it has is left to it");
        assert_eq!(both.set_quota(1, Quota::per_minute(12)), Some(Ok(())));
        assert_eq!(both.peek()[1].window(), Some(Duration::from_mins(1)));
    }
    gives_back(TokenBucket::new);
    gives_back(LeakyBucket::new);
    gives_back(FixedWindow::new);
}

#[test]
fn leasing_buckets_can_be_layers() {
    let clock = ManualClock::new();
    let quotas = [Quota::per_second(12), Quota::per_hour(14)];
    let both = Layered::of(quotas.map(|quota| LeasingBucket::new(quota, 2).unwrap()), &clock);
    both.check_n(6).unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(both.check_n(8).unwrap_err().layer(), 1);
    assert_eq!(both.check_n(6).unwrap().remaining(), 0);
}

/// A clock that moves by a millisecond whenever it is read.
#[derive(Default)]
struct Moving(Cell<u64>);

impl Clock for Moving {
    fn now(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
    fn frequency(&self) -> u64 {
        1_000
    }
}

/// What was taken and given back again has made no tokens.
#[test]
fn what_was_refilled_meanwhile_is_not_given_back() {
    let clock = Moving::default();
    let both = Layered::with_clock([Quota::per_second(100).burst(100), Quota::per_hour(60)], &clock);
    both.check_n(50).unwrap();
    for _ in 0..10 {
        assert_eq!(both.check_n(20).unwrap_err().layer(), 1);
    }
    let waited = clock.0.get();
    let used = both.peek()[0].used();
    assert!(u64::from(used) + waited / 10 > 50, "{used} after {waited} ms");
}
