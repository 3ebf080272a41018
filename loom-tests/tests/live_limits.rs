//! Changing concurrency limits while they are used.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::concurrency::{AdaptiveLimit, BoundedRule, LimitBounds, LimitRule, WindowPlan, WindowSummary};
use damper_core::{KeyedAdaptiveLimit, KeyedBulkhead};
use damper_loom_tests::{Constant, Stopped, check, check_preemptions};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

/// Asks for the highest limit after every window, each of which has one call.
#[derive(Clone, Copy, Debug)]
struct Highest(LimitBounds);

fn plan(limit: u32) -> WindowPlan {
    WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(limit) }
}

impl LimitRule for Highest {
    fn first(&self) -> WindowPlan {
        plan(self.0.start())
    }

    fn next(&mut self, _: &WindowSummary) -> WindowPlan {
        plan(self.0.max())
    }
}

impl BoundedRule for Highest {
    fn set_bounds(&mut self, bounds: LimitBounds, limit: u32) -> u32 {
        self.0 = bounds;
        limit.clamp(bounds.min(), bounds.max())
    }
}

/// A window ends while the bounds become narrower.
///
/// The limit is within the new ones, and the next window's too. [Bounds that the end of a window overwrites; a limit
/// that is put in force without another look at the plan.]
#[test]
fn bounds_set_while_a_window_ends_hold() {
    check_preemptions(3, || {
        let limit = Arc::new(AdaptiveLimit::with_rule(Highest(LimitBounds::new(1, 100).unwrap()), Stopped(7)));
        // The first call begins the window.
        limit.try_acquire().unwrap().success();
        let rival = {
            let limit = Arc::clone(&limit);
            thread::spawn(move || limit.try_acquire().unwrap().success())
        };
        limit.set_bounds(LimitBounds::new(1, 5).unwrap());
        rival.join().unwrap();
        assert!(limit.limit() <= 5, "within the bounds: {}", limit.limit());
        limit.try_acquire().unwrap().success();
        limit.try_acquire().unwrap().success();
        assert!(limit.limit() <= 5, "within the bounds later: {}", limit.limit());
    });
}

/// A key is seen for the first time while the limit of all keys is changed twice.
///
/// As soon as the last change is made, it has the last limit. [A new key whose limit is inserted without a look for changes; keys that are
/// gone through before the change is counted.]
#[test]
fn new_key_gets_the_changed_limit() {
    check_preemptions(3, || {
        let tenants = Arc::new(KeyedBulkhead::<u32, _, _>::with_clock_and_hasher(1, 1, Stopped(7), Constant).unwrap());
        let rival = {
            let tenants = Arc::clone(&tenants);
            thread::spawn(move || drop(tenants.get_or_create(&7).unwrap()))
        };
        tenants.set_limit(2);
        tenants.set_limit(3);
        assert_eq!(tenants.get_or_create(&7).unwrap().limit(), 3, "the limit of all");
        rival.join().unwrap();
        assert_eq!(tenants.get_or_create(&7).unwrap().limit(), 3, "the limit of all later");
    });
}

/// Two threads change the limit of all keys at once.
///
/// A key that was there has the same one afterwards as a key that comes later. [A limit that takes the settings without another look for
/// changes; the count of changes written or read Relaxed.]
#[test]
fn last_of_two_changes_holds() {
    check_preemptions(3, || {
        let tenants = Arc::new(KeyedBulkhead::<u32, _, _>::with_clock_and_hasher(1, 2, Stopped(7), Constant).unwrap());
        drop(tenants.get_or_create(&7).unwrap());
        let rival = {
            let tenants = Arc::clone(&tenants);
            thread::spawn(move || tenants.set_limit(2))
        };
        tenants.set_limit(3);
        rival.join().unwrap();
        let limits = [7, 8].map(|tenant| tenants.get_or_create(&tenant).unwrap().limit());
        assert!([[2, 2], [3, 3]].contains(&limits), "one limit of all: {limits:?}");
    });
}

/// A key is seen for the first time while the bounds of all keys are changed.
///
/// As soon as the change is made, its limit is within them. [A new key whose limit is inserted without a look for changes.]
#[test]
fn new_key_gets_the_changed_bounds() {
    check_preemptions(3, || {
        let rule = Highest(LimitBounds::new(1, 100).unwrap());
        let hosts = KeyedAdaptiveLimit::<u32, _, _, _>::with_rule_and_hasher(rule, 1, Stopped(7), Constant);
        let hosts = Arc::new(hosts.unwrap());
        let rival = {
            let hosts = Arc::clone(&hosts);
            thread::spawn(move || drop(hosts.get_or_create(&7).unwrap()))
        };
        hosts.set_bounds(LimitBounds::new(1, 5).unwrap());
        let limit = hosts.get_or_create(&7).unwrap();
        assert_eq!((limit.limit(), limit.rule().0.max()), (5, 5), "the bounds of all");
        rival.join().unwrap();
    });
}

/// The bounds are raised while a thread begins to wait. It gets its slot.
///
/// [A limit that lets nothing in when it is raised.]
#[test]
fn raised_bounds_wake_a_waiter() {
    check(|| {
        let limit = AdaptiveLimit::with_rule(Highest(LimitBounds::new(1, 1).unwrap()), Stopped(7)).queue(1);
        let limit = Arc::new(limit);
        let permit = limit.try_acquire().unwrap();
        let waiter = {
            let limit = Arc::clone(&limit);
            thread::spawn(move || drop(limit.acquire().wait().unwrap()))
        };
        limit.set_bounds(LimitBounds::new(2, 3).unwrap());
        waiter.join().unwrap();
        drop(permit);
        assert_eq!((limit.in_flight(), limit.queued()), (0, 0));
    });
}
