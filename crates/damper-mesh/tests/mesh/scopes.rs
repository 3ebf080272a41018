//! Limits of several scopes in one decision.

use damper::limit::FixedWindow;
use damper::mesh::{Caller, Scope, Scopes};
use damper::{Clock, KeyedAlgorithm, ManualClock, Quota, TokenBucket, is_refusal};
use std::cell::Cell;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const CREATE: Caller<'_> = Caller::of("orders.create").service("web").user("alice");

fn all_scopes<A: KeyedAlgorithm>(clock: &ManualClock) -> Scopes<&ManualClock, A> {
    let scopes = Scopes::with_clock(clock).algorithm::<A>().capacity(64);
    let scopes = scopes.global(Quota::per_hour(40)).service(Quota::per_minute(30)).user(Quota::per_minute(10));
    scopes.function("orders.create", Quota::per_minute(20)).build().unwrap()
}

/// The usage of each scope.
fn used<A: KeyedAlgorithm>(scopes: &Scopes<&ManualClock, A>, caller: Caller<'_>) -> [u32; 4] {
    let peek = scopes.peek(caller);
    [Scope::Global, Scope::Service, Scope::Function, Scope::User].map(|scope| peek.usage(scope).unwrap().used())
}

#[test]
fn each_limit_counts_the_calls_of_its_scope() {
    let clock = ManualClock::new();
    let scopes = all_scopes::<TokenBucket>(&clock);
    scopes.check_n(CREATE, 3).unwrap();
    assert_eq!(used(&scopes, CREATE), [3, 3, 3, 3]);
    assert_eq!(used(&scopes, CREATE.user("bob")), [3, 3, 3, 0]);
    assert_eq!(used(&scopes, CREATE.service("batch")), [3, 0, 3, 3]);
    assert!(scopes.peek(Caller::of("orders.list")).usage(Scope::Function).is_none(), "the function has no limit");
    assert_eq!(used(&scopes, Caller::of("orders.create")), [3, 0, 3, 0], "unnamed services and users share limits");
}

/// A clock that moves by a tick at each reading, while it is told to.
#[derive(Default)]
struct Moving {
    now: AtomicU64,
    step: AtomicU64,
    /// Called at the next reading.
    callback: Cell<Option<Box<dyn FnOnce()>>>,
}

impl Clock for Moving {
    fn now(&self) -> u64 {
        if let Some(callback) = self.callback.take() {
            callback();
        }
        let step = self.step.load(Relaxed);
        self.now.fetch_add(step, Relaxed) + step
    }
    fn frequency(&self) -> u64 {
        1_000
    }
}

/// A refusal that the looks find reads the clock once, and leaves all words as they are.
#[test]
fn refusal_of_the_widest_scope_writes_nothing() {
    let clock = Moving::default();
    let scopes = Scopes::with_clock(&clock).global(Quota::per_hour(5)).service(Quota::per_hour(50));
    let scopes = scopes.user(Quota::per_hour(50)).build().unwrap();
    scopes.check_n(CREATE, 5).unwrap();
    let resets_in = || {
        let peek = scopes.peek(CREATE);
        [Scope::Service, Scope::User].map(|scope| peek.usage(scope).unwrap().resets_in().unwrap())
    };
    let (before, began) = (resets_in(), clock.now());
    clock.step.store(1, Relaxed);
    let denied = scopes.check(CREATE).unwrap_err();
    clock.step.store(0, Relaxed);
    assert_eq!(denied.scope(), Scope::Global);
    let waited = Duration::from_millis(clock.now() - began);
    assert_eq!(resets_in().map(|time| time + waited), before, "nothing was taken, not even for a moment");
}

/// Another request takes the last global tokens after the look: service and user get theirs back.
#[test]
fn contended_refusal_gives_back_to_the_other_scopes() {
    let clock: &Moving = Box::leak(Box::default());
    let scopes = Scopes::with_clock(clock).global(Quota::per_hour(5)).service(Quota::per_hour(50));
    let scopes: &Scopes<_> = Box::leak(Box::new(scopes.user(Quota::per_hour(50)).build().unwrap()));
    scopes.check_n(CREATE, 3).unwrap();
    clock.callback.set(Some(Box::new(|| assert!(scopes.check_n(CREATE.user("bob"), 2).is_ok()))));
    let denied = scopes.check_n(CREATE, 2).unwrap_err();
    assert_eq!((denied.scope(), denied.is_contended()), (Scope::Global, true));
    let used =
        [Scope::Global, Scope::Service, Scope::User].map(|scope| scopes.peek(CREATE).usage(scope).unwrap().used());
    assert_eq!(used, [5, 5, 3]);
    assert!(!scopes.check(CREATE).unwrap_err().is_contended());
}

fn refusal_takes_nothing_from_the_others<A: KeyedAlgorithm>() {
    let clock = ManualClock::new();
    let scopes = all_scopes::<A>(&clock);
    // Each limit in turn refuses.
    scopes.check_n(CREATE, 10).unwrap();
    let before = used(&scopes, CREATE);
    let denied = scopes.check(CREATE).unwrap_err();
    assert_eq!((denied.scope(), used(&scopes, CREATE)), (Scope::User, before));
    scopes.check_n(CREATE.user("bob"), 10).unwrap();
    let before = used(&scopes, CREATE.user("carol"));
    let denied = scopes.check(CREATE.user("carol")).unwrap_err();
    assert_eq!((denied.scope(), used(&scopes, CREATE.user("carol"))), (Scope::Function, before));
    let list = Caller::of("orders.list").service("web");
    scopes.check_n(list.user("dave"), 10).unwrap();
    let denied = scopes.check(list.user("erin")).unwrap_err();
    assert_eq!(
        (denied.scope(), scopes.peek(list.user("erin")).usage(Scope::User).unwrap().used()),
        (Scope::Service, 0)
    );
    scopes.check_n(list.service("batch").user("dora"), 10).unwrap();
    let denied = scopes.check(list.service("batch").user("frank")).unwrap_err();
    assert_eq!(denied.scope(), Scope::Global);
    let frank = scopes.peek(list.service("batch").user("frank"));
    assert_eq!(frank.usage(Scope::User).unwrap().used(), 0);
    assert_eq!(frank.usage(Scope::Service).unwrap().used(), 10);
    assert!(is_refusal(&denied), "damper's retries end with it");
}

#[test]
fn refusal_by_one_limit_takes_nothing_from_the_others() {
    refusal_takes_nothing_from_the_others::<TokenBucket>();
    refusal_takes_nothing_from_the_others::<FixedWindow>();
}

#[test]
fn refusal_names_the_limit_with_the_longest_wait() {
    let clock = ManualClock::new();
    let scopes = Scopes::with_clock(&clock).user(Quota::per_second(1)).global(Quota::per_hour(1)).build().unwrap();
    scopes.check(CREATE).unwrap();
    let denied = scopes.check(CREATE).unwrap_err();
    assert_eq!((denied.scope(), denied.retry_after()), (Scope::Global, Some(Duration::from_hours(1))));
    assert_eq!(denied.to_string(), "global: rate limit exceeded, retry in 3600 s");
    let meta = denied.meta();
    assert!(meta.usage(Scope::User).is_some() && meta.usage(Scope::Global).is_some(), "both refuse");
    let denied = scopes.check_n(CREATE, 2).unwrap_err();
    assert!(denied.denied().exceeds_burst());
    assert_eq!(denied.scope(), Scope::User, "the first limit that no wait helps");
    let details = denied.rate_limited();
    assert_eq!(details.retry_after, Some(damper::mesh::MeshDuration::NEVER), "every required member is present");
    assert!(!damper::mesh::MeshError::from(details).retryable);
    let meta = denied.meta();
    let usage = meta.usage(Scope::User).unwrap();
    assert_eq!((usage.used, usage.remaining), (1, 0), "consistent with the details");
}

#[test]
fn refusal_reports_the_passed_limits_and_the_refusing_one() {
    let clock = ManualClock::new();
    let scopes = all_scopes::<TokenBucket>(&clock);
    scopes.check_n(CREATE, 10).unwrap();
    scopes.check_n(CREATE.user("bob"), 10).unwrap();
    let meta = scopes.check(CREATE.user("carol")).unwrap_err().meta();
    assert!(meta.usage(Scope::User).is_some_and(|usage| usage.used == 0), "passed");
    assert!(meta.usage(Scope::Function).is_some_and(|usage| usage.remaining == 0), "refused");
    assert!(meta.usage(Scope::Service).is_none() && meta.usage(Scope::Global).is_none(), "not reached");
}

#[test]
fn limit_that_refused_has_nothing_left() {
    let clock = ManualClock::new();
    let scopes = Scopes::with_clock(&clock).user(Quota::per_minute(10)).global(Quota::per_minute(20)).build().unwrap();
    scopes.check_n(CREATE, 8).unwrap();
    let limits = scopes.check_n(CREATE, 5).unwrap_err().meta();
    let usage = limits.rate_limit.unwrap();
    assert_eq!((usage.used, usage.remaining), (10, 0), "although 2 are left");
}

#[test]
fn capabilities_follow_live_quotas() {
    let clock = ManualClock::new();
    let scopes = all_scopes::<TokenBucket>(&clock);
    let limits = |scopes: &Scopes<&ManualClock>| {
        let capabilities = scopes.capabilities("orders-api");
        capabilities
            .rate_limits()
            .iter()
            .map(|limit| (limit.scope, limit.limit, limit.window.to_string()))
            .collect::<Vec<_>>()
    };
    let expected = [
        (Scope::Global, 40, "1 hour"),
        (Scope::Service, 30, "1 minute"),
        (Scope::Function, 20, "1 minute"),
        (Scope::User, 10, "1 minute"),
    ];
    assert_eq!(limits(&scopes), expected.map(|(scope, limit, window)| (scope, limit, window.to_owned())));
    scopes.limiter(Scope::Service).unwrap().set_quota(Quota::per_second(7)).unwrap();
    scopes.function_limiter("orders.create").unwrap().set_quota(Quota::UNLIMITED).unwrap();
    assert_eq!(limits(&scopes)[1], (Scope::Service, 7, "1 second".to_owned()));
    assert_eq!(limits(&scopes).len(), 3, "an unlimited scope is not listed");
    assert!(Scopes::none().capabilities("orders-api").rate_limits().is_empty());
}

#[test]
fn limit_that_cannot_be_built_is_named() {
    let error = Scopes::builder().user(Quota::per_minute(1)).capacity(0).build().unwrap_err();
    assert!(error.to_string().starts_with("user: "), "{error}");
    assert!(error.source().is_none(), "a chain repeats nothing");
    let functions = Scopes::builder().algorithm::<FixedWindow>().function("f", Quota::per_minute(u32::MAX));
    assert!(functions.build().unwrap_err().to_string().starts_with("function f: "));
}

#[test]
fn second_limit_of_a_function_is_an_error() {
    let scopes = Scopes::builder().function("f", Quota::per_minute(1)).function("g", Quota::per_minute(1));
    assert!(scopes.build().is_ok());
    let scopes = Scopes::builder().function("f", Quota::per_minute(1)).function("f", Quota::per_minute(5));
    let error = scopes.build().unwrap_err();
    assert_eq!(error.to_string(), "function f: two limits were given, a function has one");
    assert!(error.source().is_none());
}

#[test]
fn threads_never_get_more_than_each_limit() {
    const THREADS: usize = 4;
    let clock = ManualClock::new();
    let scopes = Scopes::with_clock(Arc::new(clock)).capacity(16);
    let scopes = scopes.global(Quota::per_hour(300)).user(Quota::per_hour(100)).build().unwrap();
    let allowed: Vec<usize> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (scopes, user) = (&scopes, format!("user {thread}"));
                scope.spawn(move || {
                    let caller = Caller::of("f").user(&user);
                    (0..1_000).filter(|_| scopes.check(caller).is_ok()).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(allowed.iter().all(|calls| *calls <= 100), "{allowed:?}");
    assert!(allowed.iter().sum::<usize>() <= 300, "{allowed:?}");
    // A call may be refused while another is being rolled back, but the remaining tokens are available afterwards.
    let left: usize = (0..THREADS)
        .map(|thread| {
            let user = format!("user {thread}");
            (0..200).filter(|_| scopes.check(Caller::of("f").user(&user)).is_ok()).count()
        })
        .sum();
    assert_eq!(allowed.iter().sum::<usize>() + left, 300);
}

/// The docs of `ScopesBuilder::algorithm` and of the key `server.mesh.algorithm` say so.
#[test]
fn token_bucket_admits_199_of_100_per_minute_in_the_first_minute() {
    fn admitted<A: KeyedAlgorithm>() -> usize {
        let clock = ManualClock::new();
        let scopes = Scopes::with_clock(&clock).algorithm::<A>().global(Quota::per_minute(100)).build().unwrap();
        let calls = (0..6_000).filter(|_| {
            let is_allowed = scopes.check(Caller::of("f")).is_ok();
            clock.advance(Duration::from_millis(10));
            is_allowed
        });
        calls.count()
    }
    assert_eq!((admitted::<TokenBucket>(), admitted::<FixedWindow>()), (199, 100));
}
