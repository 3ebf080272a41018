//! Candidates beside limits in force, and decisions in a log.
//!
//! A row `two_...` makes the same decisions by two that know nothing of one another.

use crate::still::{SEED, still};
use crate::{Call, Row, rows};
use damper::decision_log::{DecisionLog, Logged};
use damper::keyed::KeyedLimiterBuilder;
use damper::shadow::Shadowed;
use damper::{BreakerConfig, CircuitBreaker, Clock, KeyedLimiter, Quota, RateLimiter};
use std::hint::black_box;
use std::sync::Arc;

pub(crate) const ROWS: &[Row] = rows![
    shadow_allowed,
    two_allowed,
    shadow_keyed_allowed,
    two_keyed_allowed,
    shadow_breaker_success,
    two_breaker_successes,
    decision_log - no_decision,
    logged_allowed - one_allowed,
    logged_keyed_allowed - one_keyed_allowed,
];

/// More than is ever taken.
const PLENTY: Quota = Quota::per_hour(1).burst(1_000_000);

fn keyed<C: Clock>(clock: C) -> KeyedLimiter<u64, C> {
    KeyedLimiterBuilder::new(PLENTY, clock, SEED).capacity(1_024).build().expect("a capacity in range")
}

fn shadow_allowed() -> Call {
    let limiters = Shadowed::new(RateLimiter::with_clock(PLENTY, still!()), RateLimiter::with_clock(PLENTY, still!()));
    Box::new(move || limiters.check().is_ok())
}

/// The same decisions by two limiters that know nothing of one another.
fn two_allowed() -> Call {
    let limiters = (RateLimiter::with_clock(PLENTY, still!()), RateLimiter::with_clock(PLENTY, still!()));
    Box::new(move || limiters.0.check().is_ok() & limiters.1.check().is_ok())
}

fn shadow_keyed_allowed() -> Call {
    let limiters = Shadowed::new(keyed(still!()), keyed(still!()));
    Box::new(move || limiters.check(&7).is_ok())
}

fn two_keyed_allowed() -> Call {
    let limiters = (keyed(still!()), keyed(still!()));
    Box::new(move || limiters.0.check(&7).is_ok() & limiters.1.check(&7).is_ok())
}

fn shadow_breaker_success() -> Call {
    let breaker = || CircuitBreaker::with_clock(BreakerConfig::DEFAULT, still!());
    let breakers = Shadowed::new(breaker(), CircuitBreaker::with_clock(BreakerConfig::DEFAULT, still!()));
    Box::new(move || breakers.call(|| Ok::<_, ()>(())).is_ok())
}

fn two_breaker_successes() -> Call {
    let breakers = (
        CircuitBreaker::with_clock(BreakerConfig::DEFAULT, still!()),
        CircuitBreaker::with_clock(BreakerConfig::DEFAULT, still!()),
    );
    Box::new(move || breakers.0.call(|| Ok::<_, ()>(())).is_ok() & breakers.1.call(|| Ok::<_, ()>(())).is_ok())
}

/// Writes one decision, of which nothing is known before.
fn decision_log() -> Call {
    let log = DecisionLog::with_clock(1_024, still!());
    Box::new(move || {
        log.record(black_box(7), black_box(1), &black_box(Ok::<_, ()>(())));
        true
    })
}

/// The same decision, and nothing is written.
fn no_decision() -> Call {
    Box::new(|| black_box(7) == 7u64 && black_box(1) == 1u32 && black_box(Ok::<_, ()>(())).is_ok())
}

/// The whole answer is kept in both, as callers do that use it.
fn logged_allowed() -> Call {
    let log = Arc::new(DecisionLog::with_clock(1_024, still!()));
    let limiter = Logged::new(RateLimiter::with_clock(PLENTY, still!()), log);
    Box::new(move || black_box(limiter.check()).is_ok())
}

fn one_allowed() -> Call {
    let limiter = RateLimiter::with_clock(PLENTY, still!());
    Box::new(move || black_box(limiter.check()).is_ok())
}

/// The whole answer is kept in both.
fn logged_keyed_allowed() -> Call {
    let log = Arc::new(DecisionLog::with_clock(1_024, still!()));
    let limiter = Logged::new(keyed(still!()), log);
    Box::new(move || black_box(limiter.check(&7)).is_ok())
}

fn one_keyed_allowed() -> Call {
    let limiter = keyed(still!());
    Box::new(move || black_box(limiter.check(&7)).is_ok())
}
