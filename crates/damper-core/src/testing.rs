//! Assertions for tests of code that uses limits and breakers.
//!
//! They panic where a limit is not what the test expects, and say what was seen. [The guide](https://docs.rs/damper/latest/damper/guide/testing/)
//! has a service that is tested by them. Time is a [`ManualClock`](crate::ManualClock), or `TokioClock` in tests that wait.

use crate::breaker::permit::Breaker;
use crate::breaker::{CircuitOpen, Permit};
use core::fmt;
#[cfg(feature = "alloc")]
use {alloc::vec::Vec, core::fmt::Display};

/// Asserts that exactly `n` consecutive calls are allowed, and returns the refusal of the next one.
///
/// `call` is whatever asks: a check of a limiter or of a key, a bulkhead, a function of your own. Permits are held until the
/// refusal came.
///
/// # Panics
///
/// If fewer calls are allowed, or one more.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::testing::assert_allows;
/// use damper::{Bulkhead, KeyedLimiter, ManualClock, Quota};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let limits = KeyedLimiter::<str>::builder(Quota::per_minute(3)).clock(&clock).build()?;
/// let denied = assert_allows(3, || limits.check("alice"));
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(20)));
/// clock.advance(Duration::from_secs(20));
/// assert_allows(1, || limits.check("alice"));
/// assert_allows(3, || limits.check("bob"));
///
/// let pool = Bulkhead::new(8);
/// assert_allows(8, || pool.try_acquire());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The message of a failure:
///
/// ```should_panic
/// # extern crate damper_core as damper;
/// use damper::testing::assert_allows;
/// use damper::{ManualClock, Quota, RateLimiter};
///
/// let limiter = RateLimiter::with_clock(Quota::per_second(2), ManualClock::new());
/// // call 3 of 5 was refused: rate limit exceeded, retry in 500 ms
/// assert_allows(5, || limiter.check());
/// ```
#[track_caller]
#[cfg(feature = "alloc")]
pub fn assert_allows<T, E: Display>(n: usize, mut call: impl FnMut() -> Result<T, E>) -> E {
    let mut held = Vec::new();
    while held.len() < n {
        match call() {
            Ok(value) => held.push(value),
            Err(refusal) => panic!("call {} of {n} was refused: {refusal}", held.len() + 1),
        }
    }
    match call() {
        Ok(_) => panic!("call {} was allowed, {n} should be", n.saturating_add(1)),
        Err(refusal) => refusal,
    }
}

/// Asserts that a breaker opens after exactly so many consecutive failures, and returns its refusal.
///
/// It records the failures itself. The breaker is a [`CircuitBreaker`](crate::CircuitBreaker), also one of a
/// [`KeyedCircuitBreaker`](https://docs.rs/damper-core/latest/damper_core/breaker/type.KeyedCircuitBreaker.html), or a
/// [`CircuitBreaker32`](crate::CircuitBreaker32).
///
/// # Panics
///
/// If it opens earlier, or lets the call after the failures pass.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::breaker::State;
/// use damper::testing::assert_opens_after;
/// use damper::{BreakerConfig, CircuitBreaker, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let config = BreakerConfig::builder().failure_threshold(3).build()?;
/// let breaker = CircuitBreaker::with_clock(config, &clock);
/// let open = assert_opens_after(3, &breaker);
/// clock.advance(open.retry_after().unwrap());
/// assert_eq!(breaker.state(), State::HalfOpen);
/// # Ok::<(), damper::OutOfRange>(())
/// ```
///
/// The message of a failure:
///
/// ```should_panic
/// # extern crate damper_core as damper;
/// use damper::testing::assert_opens_after;
/// use damper::{BreakerConfig, CircuitBreaker, ManualClock};
///
/// let breaker = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, ManualClock::new());
/// // it opened after 5 failures, not after 6: circuit open, next probe in 30 s
/// assert_opens_after(6, &breaker);
/// ```
#[track_caller]
pub fn assert_opens_after<B: Breaker>(failures: usize, breaker: &B) -> CircuitOpen {
    for failed in 0..failures {
        match Permit::admitted_by(breaker) {
            Ok(permit) => permit.failure(),
            Err(open) if failed == 0 => panic!("it was open before the first failure: {open}"),
            Err(open) => panic!("it opened after {}, not after {failures}: {open}", Failures(failed)),
        }
    }
    match Permit::admitted_by(breaker) {
        Ok(_) => panic!("it is not open after {}: {breaker:?}", Failures(failures)),
        Err(open) => open,
    }
}

/// A number of failures, in words.
struct Failures(usize);

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failure{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}
