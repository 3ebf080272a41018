//! The messages of the assertions for users.

use damper::breaker::State;
use damper::testing::{assert_allows, assert_opens_after};
use damper::{BreakerConfig, Bulkhead, CircuitBreaker, CircuitBreaker32, CoarseClock, ManualClock, Quota, RateLimiter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// The message of a panic, without its printing.
fn message(assertion: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(assertion)).unwrap_err();
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).into()))
        .unwrap()
}

fn breaker(failures: u32) -> CircuitBreaker<ManualClock> {
    let config = BreakerConfig::builder().failure_threshold(failures).build().unwrap();
    CircuitBreaker::with_clock(config, ManualClock::new())
}

#[test]
fn assertion_of_a_limit_says_which_call_differs() {
    let limiter = || RateLimiter::with_clock(Quota::per_second(2), ManualClock::new());
    let (few, many) = (limiter(), limiter());
    assert_eq!(
        message(|| _ = assert_allows(5, || few.check())),
        "call 3 of 5 was refused: rate limit exceeded, retry in 500 ms"
    );
    assert_eq!(message(|| _ = assert_allows(1, || many.check())), "call 2 was allowed, 1 should be");
    let exact = limiter();
    assert_eq!(assert_allows(2, || exact.check()).retry_after(), Some(Duration::from_millis(500)));
    assert_allows(0, || exact.check());
}

/// Permits count as long as they are held.
#[test]
fn permits_are_held_until_the_refusal() {
    let pool = Bulkhead::with_clock(3, ManualClock::new());
    assert_allows(3, || pool.try_acquire());
    assert_eq!(pool.status().in_flight(), 0);
    assert_allows(3, || pool.try_acquire());
}

#[test]
fn assertion_of_a_breaker_says_when_it_opened() {
    assert_eq!(
        message(|| _ = assert_opens_after(6, &breaker(5))),
        "it opened after 5 failures, not after 6: circuit open, next probe in 30 s"
    );
    assert_eq!(
        message(|| _ = assert_opens_after(3, &breaker(1))),
        "it opened after 1 failure, not after 3: circuit open, next probe in 30 s"
    );
    let closed = message(|| _ = assert_opens_after(1, &breaker(5)));
    assert!(
        closed.starts_with("it is not open after 1 failure: CircuitBreaker { phase: Closed { failures: 1 }"),
        "{closed}"
    );
    let open = breaker(5);
    open.force_open();
    assert_eq!(
        message(|| _ = assert_opens_after(2, &open)),
        "it was open before the first failure: circuit forced open"
    );
    let exact = breaker(5);
    assert_eq!(assert_opens_after(5, &exact).retry_after(), Some(Duration::from_secs(30)));
    assert_eq!(exact.state(), State::Open);
    assert_opens_after(0, &exact);
}

#[test]
fn breaker_of_32_bits_opens_too() {
    static TIME: CoarseClock = CoarseClock::new();
    assert_opens_after(5, &CircuitBreaker32::new(BreakerConfig::DEFAULT, &TIME).unwrap());
}
