//! A thread that stops at any step of a decision stops no other: decisions take no lock.
#![cfg(loom)]

use damper_core::retry::{Budget, RetryBudget, RetryBudgetConfig};
use damper_core::sync::stopped_after;
use damper_core::throttle::AdaptiveThrottle;
use damper_core::{
    BreakerConfig, CircuitBreaker, FixedWindow, Quota, RateLimiter, SlidingCounter, SlidingLog, WhenFull,
};
use damper_loom_tests::tables::{A, quota, ways};
use damper_loom_tests::{Stopped, check_preemptions};
use loom::sync::Notify;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::AtomicBool as StdAtomicBool;

/// Decides twice while a rival stands still in the middle of its own decision.
///
/// The rival stops once after each number of accesses to atomics that its decision makes. It goes on only after the two
/// decisions. So if it holds a lock that they need, they do not end, and loom says so.
fn decides_beside_a_stalled_thread<T: Send + Sync + 'static>(create: fn() -> T, decide: fn(&T)) {
    let has_stopped = Arc::new(StdAtomicBool::new(true));
    for accesses in 0.. {
        // The last decision made fewer accesses.
        if !has_stopped.swap(false, Ordering::Relaxed) {
            break;
        }
        let has_stopped = Arc::clone(&has_stopped);
        check_preemptions(1, move || {
            let (shared, goes_on) = (Arc::new(create()), Arc::new(Notify::new()));
            let rival = {
                let (shared, goes_on) = (Arc::clone(&shared), Arc::clone(&goes_on));
                let has_stopped = Arc::clone(&has_stopped);
                let stop = move || {
                    has_stopped.store(true, Ordering::Relaxed);
                    goes_on.wait();
                };
                thread::spawn(move || stopped_after(accesses, stop, || decide(&shared)))
            };
            decide(&shared);
            decide(&shared);
            goes_on.notify();
            rival.join().unwrap();
        });
    }
}

// CLAIM: all
#[test]
fn limiters_decide_beside_a_stalled_thread() {
    fn quota() -> Quota {
        Quota::per_second(2)
    }
    decides_beside_a_stalled_thread(|| RateLimiter::with_clock(quota(), Stopped(7)), |limiter| _ = limiter.check());
    decides_beside_a_stalled_thread(
        || RateLimiter::with_algorithm(FixedWindow::new(quota()), Stopped(7)),
        |limiter| _ = limiter.check(),
    );
    decides_beside_a_stalled_thread(
        || RateLimiter::with_algorithm(SlidingCounter::new(quota()).unwrap(), Stopped(7)),
        |limiter| _ = limiter.check(),
    );
    decides_beside_a_stalled_thread(
        || RateLimiter::with_algorithm(SlidingLog::new(quota()).unwrap(), Stopped(7)),
        |limiter| _ = limiter.check(),
    );
}

/// The key has its slot already: the first sight of a key takes a lock.
// CLAIM: all
#[test]
fn keys_with_a_slot_decide_beside_a_stalled_thread() {
    decides_beside_a_stalled_thread(
        || {
            let limits = ways(2, WhenFull::SharedOverflow, quota(2));
            _ = limits.check(&A);
            limits
        },
        |limits| _ = limits.check(&A),
    );
}

// CLAIM: all
#[test]
fn breakers_decide_beside_a_stalled_thread() {
    decides_beside_a_stalled_thread(
        || {
            let config = BreakerConfig::builder().failure_threshold(2).build().unwrap();
            CircuitBreaker::with_clock(config, Stopped(7))
        },
        |breaker| _ = breaker.try_acquire().map(|permit| permit.failure()),
    );
}

// CLAIM: all
#[test]
fn throttles_and_retries_decide_beside_a_stalled_thread() {
    decides_beside_a_stalled_thread(
        || AdaptiveThrottle::with_clock(Stopped(7), 1),
        |throttle| _ = throttle.try_acquire().map(|permit| permit.rejected()),
    );
    decides_beside_a_stalled_thread(
        || RetryBudget::with_clock(RetryBudgetConfig::default(), Stopped(7)),
        |budget| {
            budget.began();
            _ = budget.try_withdraw();
        },
    );
}

/// A limiter behind a lock is noticed.
#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn lock_stops_other_threads() {
    decides_beside_a_stalled_thread(
        || (AtomicBool::new(false), RateLimiter::with_clock(Quota::per_second(2), Stopped(7))),
        |(is_locked, limiter)| {
            while is_locked.swap(true, Ordering::AcqRel) {
                thread::yield_now();
            }
            _ = limiter.check();
            is_locked.store(false, Ordering::Release);
        },
    );
}
