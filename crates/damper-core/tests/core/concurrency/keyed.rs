//! Concurrency limits per key: no key exceeds its limit under eviction, and keys are independent.

use damper::concurrency::{LimitBounds, LimitRule, Outcome, ProbedGradient, RefusalCause, WindowPlan, WindowSummary};
use damper::gate::Refusal;
use damper::time::Seed;
use damper::{AdaptiveLimit, BulkheadFull, CallError, KeyedAdaptiveLimit, KeyedBulkhead, ManualClock, Monotonic};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

#[test]
fn keys_have_a_bulkhead_each() {
    let tenants = KeyedBulkhead::<String>::new(1, 16).unwrap().queue(1);
    let permit = tenants.try_acquire("acme").unwrap();
    assert_eq!(tenants.try_acquire("acme").unwrap_err().cause(), RefusalCause::NoSlot);
    assert!(tenants.try_acquire("initech").is_ok());
    let full = tenants.acquire("acme").within(Duration::ZERO).wait().unwrap_err();
    assert_eq!(full.cause(), RefusalCause::TimedOut, "the bulkhead has a queue");
    drop(permit);
    assert!(tenants.acquire("acme").wait().is_ok());
    assert_eq!(tenants.status("acme").unwrap().in_flight(), 0);
    assert_eq!(tenants.status("hooli"), None);
}

#[test]
fn bulkhead_in_use_is_never_evicted() {
    const CAPACITY: u32 = 60;
    let tenants = KeyedBulkhead::<u32>::new(1, CAPACITY as usize).unwrap();
    let mut permits: Vec<_> = (0..CAPACITY).map(|key| tenants.try_acquire(&key).unwrap()).collect();
    for key in CAPACITY..1_000 {
        let full = tenants.try_acquire(&key).unwrap_err();
        assert_eq!((full.limit(), full.cause()), (1, RefusalCause::StoreFull));
        assert_eq!(full.to_string(), "no room for another key, those that were looked at are in use");
        assert_eq!(tenants.acquire(&key).wait().unwrap_err(), full);
    }
    assert_eq!((tenants.len(), tenants.evictions()), (60, 0));
    assert!((0..CAPACITY).all(|key| tenants.try_acquire(&key).is_err()), "all bulkheads are the same as before");
    // One bulkhead is idle, so it is evicted.
    drop(permits.swap_remove(17));
    assert!(tenants.try_acquire(&1_000).is_ok());
}

/// In a store so large that a search sees only a part.
///
/// An idle bulkhead is found after fewer refusals than there are keys.
#[test]
fn idle_bulkhead_makes_room_after_fewer_refusals_than_keys() {
    const CAPACITY: u32 = 10_000;
    let tenants = KeyedBulkhead::<u32, _, _>::with_clock_and_hasher(1, CAPACITY as usize, Monotonic, Seed::new(1, 2));
    let tenants = tenants.unwrap();
    let mut permits: Vec<_> =
        (0..2 * CAPACITY).filter_map(|key| Some((key, tenants.try_acquire(&key).ok()?))).collect();
    assert_eq!(tenants.len(), CAPACITY as usize, "all are in use");
    let idle = permits.swap_remove(1_234);
    drop(idle);
    let refusals = (2 * CAPACITY..).take(CAPACITY as usize).position(|key| tenants.try_acquire(&key).is_ok());
    assert!(refusals.is_some(), "{CAPACITY} keys were refused");
}

/// As documented: three quarters of the capacity can be in use.
#[test]
fn no_new_key_is_refused_while_a_quarter_is_idle() {
    for capacity in [1_024, 10_000] {
        let tenants =
            KeyedBulkhead::<u64, _, _>::with_clock_and_hasher(1, capacity, Monotonic, Seed::new(1, 2)).unwrap();
        // Idle keys first, which are evicted for those in use.
        (0..3 * capacity as u64).for_each(|key| drop(tenants.try_acquire(&key)));
        let in_use = (1 << 32..).take(capacity * 3 / 4).map(|key| tenants.try_acquire(&key).unwrap());
        let _permits: Vec<_> = in_use.collect();
        assert!((1 << 40..).take(1_000).all(|key| tenants.try_acquire(&key).is_ok()), "capacity {capacity}");
    }
}

/// A bulkhead that a `Weak` can revive stays, or its key would have two.
#[test]
fn bulkhead_behind_a_weak_is_never_evicted() {
    let tenants = KeyedBulkhead::<u32>::new(1, 1).unwrap();
    let weak = Arc::downgrade(&tenants.get_or_create(&1).unwrap());
    assert_eq!(tenants.try_acquire(&2).unwrap_err().cause(), RefusalCause::StoreFull);
    let revived = Weak::upgrade(&weak).unwrap();
    let permit = revived.try_acquire().unwrap();
    assert_eq!(
        tenants.try_acquire(&1).unwrap_err().cause(),
        RefusalCause::NoSlot,
        "the key still has the same bulkhead"
    );
    drop((permit, weak));
    drop(revived);
    assert!(tenants.try_acquire(&2).is_ok());
}

/// Dashboards read and keep the status of all keys without marking a key as used or held.
#[test]
fn reading_the_status_of_all_keys_has_no_effect() {
    const CAPACITY: u32 = 60;
    let tenants = KeyedBulkhead::<u32>::new(1, CAPACITY as usize).unwrap();
    (0..CAPACITY).for_each(|key| drop(tenants.try_acquire(&key).unwrap()));
    let _permit = tenants.try_acquire(&7).unwrap();
    let seen: Vec<_> = tenants.iter().collect();
    assert_eq!(seen.len(), CAPACITY as usize);
    assert!(seen.iter().all(|(key, status)| status.in_flight() == u32::from(*key == 7)));
    // A key whose status is read repeatedly is as old as the others, and is evicted as early.
    for key in CAPACITY..CAPACITY + CAPACITY / 2 {
        (0..10).for_each(|_| _ = tenants.status(&0));
        assert!(tenants.try_acquire(&key).is_ok(), "all bulkheads but one are idle");
    }
    assert_eq!(tenants.status(&0), None);
    assert!(tenants.status(&7).is_some());
    drop(seen);
}

/// A key that counts its clones, which the store makes to keep it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Counted<'a>(u32, &'a Clones);

#[derive(Debug, Default)]
struct Clones(AtomicU32);

impl std::hash::Hash for Clones {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl PartialEq for Clones {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Clones {}

impl Clone for Counted<'_> {
    fn clone(&self) -> Self {
        self.1.0.fetch_add(1, Ordering::Relaxed);
        Self(self.0, self.1)
    }
}

#[test]
fn refused_key_is_not_copied() {
    let clones = Clones::default();
    let tenants = KeyedBulkhead::<Counted<'_>>::new(1, 1).unwrap();
    let _permit = tenants.try_acquire(&Counted(0, &clones)).unwrap();
    assert_eq!(clones.0.load(Ordering::Relaxed), 1);
    for key in 1..100 {
        assert!(tenants.try_acquire(&Counted(key, &clones)).is_err());
    }
    assert_eq!(clones.0.load(Ordering::Relaxed), 1, "a flood of keys allocates nothing");
}

/// Each key never has more than two calls in flight.
///
/// Threads take, await and hold permits of more keys than fit, while another thread reads all counts.
#[test]
fn keys_never_exceed_their_limit_while_others_are_evicted() {
    const THREADS: usize = 4;
    const KEYS: usize = 6;
    let tenants = KeyedBulkhead::<usize>::new(2, 4).unwrap().queue(2);
    let in_flight = [(); KEYS].map(|()| AtomicU32::new(0));
    let start = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (tenants, in_flight, start) = (&tenants, &in_flight, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..5_000 {
                    // Some runs of the same key, so that there are refusals of each kind.
                    let key = (round / 3 * (thread + 1) + thread) % KEYS;
                    let permit = match round % 4 {
                        0 => tenants.acquire(&key).within(Duration::from_micros(50)).wait(),
                        1 => tenants.get_or_create(&key).and_then(|limit| {
                            let weak = Arc::downgrade(&limit);
                            drop(limit);
                            thread::yield_now();
                            weak.upgrade().map_or_else(|| tenants.try_acquire(&key), |limit| limit.try_acquire_owned())
                        }),
                        _ => tenants.try_acquire(&key),
                    };
                    if let Ok(_permit) = permit {
                        assert!(in_flight[key].fetch_add(1, Ordering::Relaxed) < 2, "at most two calls in flight");
                        thread::yield_now();
                        in_flight[key].fetch_sub(1, Ordering::Relaxed);
                    }
                }
            });
        }
        start.wait();
        for _ in 0..1_000 {
            let seen: Vec<_> = tenants.iter().collect();
            assert!(seen.iter().all(|(_, status)| status.in_flight() <= 2));
            thread::yield_now();
        }
    });
    assert!(tenants.evictions() > 0, "keys were evicted");
    assert!(tenants.iter().all(|(_, status)| (status.in_flight(), status.queued()) == (0, 0)));
}

#[test]
fn calls_of_a_key_hold_its_slot() {
    let tenants = KeyedBulkhead::<String>::new(1, 16).unwrap();
    let in_flight = || tenants.status("acme").unwrap().in_flight();
    assert_eq!(tenants.call("acme", || Ok::<_, &str>(in_flight())), Ok(1));
    let mut context = Context::from_waker(Waker::noop());
    let mut running = Box::pin(tenants.run("acme", pending::<Result<(), &str>>()));
    assert!(running.as_mut().poll(&mut context).is_pending());
    assert!(tenants.call("acme", || Ok::<_, &str>(())).unwrap_err().is_refused());
    assert_eq!(tenants.call("initech", || Err::<(), _>("down")), Err(CallError::Failed("down")));
    drop(running);
    assert_eq!(in_flight(), 0);
}

fn is_send_and_static<T: Send + 'static>(future: T) -> T {
    future
}

#[test]
fn futures_of_a_key_can_be_spawned() {
    let mut context = Context::from_waker(Waker::noop());
    let tenants = KeyedBulkhead::<String>::new(1, 16).unwrap();
    let hosts = KeyedAdaptiveLimit::<String>::new(LimitBounds::DEFAULT, 16).unwrap();
    let mut bulkhead = Box::pin(is_send_and_static(tenants.run("acme", async { Ok::<_, ()>(1) })));
    let mut limit = Box::pin(is_send_and_static(hosts.run("example.com", async { Ok::<_, ()>(2) })));
    let with = hosts.run_with("example.com", async { Err::<(), _>(3) }, |_| Outcome::Ignored);
    let mut with = Box::pin(is_send_and_static(with));
    drop((tenants, hosts));
    assert_eq!(bulkhead.as_mut().poll(&mut context), Poll::Ready(Ok(1)));
    assert_eq!(limit.as_mut().poll(&mut context), Poll::Ready(Ok(2)));
    assert_eq!(with.as_mut().poll(&mut context), Poll::Ready(Err(CallError::Failed(3))));
}

const LATENCY: Duration = Duration::from_millis(10);

/// The calls of two hosts alternate, and one host takes a hundred times as long.
///
/// Neither changes the other's baseline. After Vector's pull request 21725, where all keys shared one average.
#[test]
fn adaptive_limits_of_keys_are_independent() {
    type Limits<'a> = KeyedAdaptiveLimit<&'static str, ProbedGradient, &'a ManualClock>;
    /// Makes as many concurrent calls as the limit allows, and one more, which is refused.
    fn saturate(hosts: &Limits<'_>, clock: &ManualClock, host: &'static str, latency: Duration) {
        let permits: Vec<_> = std::iter::from_fn(|| hosts.try_acquire(&host).ok()).collect();
        clock.advance(latency);
        for permit in permits {
            permit.success();
        }
    }
    let limits_after = |hosts: &[(&'static str, Duration)]| {
        let clock = ManualClock::new();
        let bounds = LimitBounds::new(1, 40).unwrap();
        let limits = Limits::with_rule(ProbedGradient::new(bounds), 16, &clock).unwrap();
        for _ in 0..500 {
            for &(host, latency) in hosts {
                saturate(&limits, &clock, host, latency);
            }
        }
        ["fast", "slow"].map(|host| limits.baseline(host).map(|baseline| (baseline.as_secs_f64() * 1_000.0).round()))
    };
    let (fast, slow) = (("fast", LATENCY), ("slow", 100 * LATENCY));
    assert_eq!(limits_after(&[fast, slow]), [Some(10.0), Some(1_000.0)]);
    assert_eq!(limits_after(&[fast]), [Some(10.0), None]);
    assert_eq!(limits_after(&[slow]), [None, Some(1_000.0)]);
}

#[test]
fn adaptive_limits_of_keys_have_the_settings_of_all() {
    let clock = ManualClock::new();
    let bounds = LimitBounds::new(1, 10).unwrap().starting_at(2).unwrap();
    let hosts = KeyedAdaptiveLimit::<u32, _, _>::with_rule(ProbedGradient::new(bounds), 1, &clock).unwrap().queue(1);
    let permits = [(); 2].map(|()| hosts.try_acquire(&1).unwrap());
    let mut waiting = Box::pin(hosts.acquire(&1).sleeping_by(|_| pending::<()>()));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let status = hosts.status(&1).unwrap();
    assert_eq!((status.limit(), status.in_flight(), status.queued()), (2, 2, 1));
    let full = hosts.try_acquire(&2).unwrap_err();
    assert_eq!((full.limit(), full.cause()), (2, RefusalCause::StoreFull));
    drop((permits, waiting));
    assert!(hosts.try_acquire(&2).is_ok());
}

/// `Ok` counts with its latency, and `Err` is ignored unless a classifier decides otherwise.
#[test]
fn calls_record_how_they_end() {
    let clock = ManualClock::new();
    let saturated = |call: &dyn Fn(&AdaptiveLimit<ProbedGradient, &ManualClock>)| {
        let limit = AdaptiveLimit::with_clock(LimitBounds::new(1, 100).unwrap(), &clock);
        for _ in 0..2_000 {
            // The limit is reached during the call.
            let permits: Vec<_> = (1..limit.limit()).map(|_| limit.try_acquire().unwrap()).collect();
            call(&limit);
            drop(permits);
        }
        (limit.limit(), limit.baseline().is_some())
    };
    let result = |is_ok: bool| {
        clock.advance(LATENCY);
        if is_ok { Ok(()) } else { Err("down") }
    };
    let succeeded = saturated(&|limit| _ = limit.call(|| result(true)));
    assert!(succeeded.1, "a latency was measured");
    let failed = saturated(&|limit| assert_eq!(limit.call(|| result(false)), Err(CallError::Failed("down"))));
    assert_eq!(failed, (20, false), "errors are ignored");
    let overloaded = saturated(&|limit| _ = limit.call_with(|| result(false), |_| Outcome::Overloaded));
    assert!(overloaded.0 < 20, "{overloaded:?}");
    let run = saturated(&|limit| {
        let mut run = Box::pin(limit.run(async { result(true) }));
        assert_eq!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())));
    });
    assert_eq!(run, succeeded);
    let limit = AdaptiveLimit::with_clock(LimitBounds::new(1, 1).unwrap().starting_at(1).unwrap(), &clock);
    let mut first = Box::pin(limit.run(pending::<Result<(), &str>>()));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(limit.call(|| Ok::<_, &str>(())).unwrap_err().is_refused());
    drop(first);
    assert_eq!(limit.status().in_flight(), 0);
}

/// A call of a key holds one of its slots, and its limit learns the outcome.
#[test]
fn calls_of_a_key_teach_its_adaptive_limit() {
    let clock = ManualClock::new();
    let hosts = KeyedAdaptiveLimit::<String, _, _>::with_rule(Outcomes::default(), 16, &clock).unwrap();
    let in_flight = || hosts.status("api").unwrap().in_flight();
    // The first call only begins the first window, and is not counted in it.
    for _ in 0..2 {
        assert_eq!(hosts.call("api", || Ok::<_, &str>(in_flight())), Ok(1));
    }
    assert_eq!(hosts.call("api", || Err::<u32, _>("down")), Err(CallError::Failed("down")));
    let overloaded = |_: &Result<u32, &str>| Outcome::Overloaded;
    assert_eq!(hosts.call_with("api", || Ok::<_, &str>(in_flight()), overloaded), Ok(1));
    let heard = hosts.get_or_create("api").unwrap().rule();
    assert_eq!((heard.successes, heard.overloaded), (1, 1), "an error is no sign of load");
    assert_eq!(in_flight(), 0);

    let _held = hosts.try_acquire("api").unwrap();
    assert!(hosts.call("api", || Ok::<u32, &str>(0)).unwrap_err().is_refused(), "its only slot is taken");
    assert!(hosts.call_with("api", || Ok::<u32, &str>(0), overloaded).unwrap_err().is_refused());
    assert_eq!(hosts.call("www", || Ok::<u32, &str>(2)), Ok(2), "another key has a slot of its own");
}

/// A limit of one that counts what it hears.
#[derive(Clone, Copy, Debug, Default)]
struct Outcomes {
    successes: u32,
    overloaded: u32,
}

impl LimitRule for Outcomes {
    fn first(&self) -> WindowPlan {
        WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(1) }
    }

    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        self.successes += window.successes;
        self.overloaded += window.overloaded;
        self.first()
    }
}

/// The newest call that waits gets the slot. A newcomer to a full queue gets the place of the oldest.
#[test]
fn queues_of_keys_are_served_newest_first() {
    fn check<P, F: Future<Output = Result<P, BulkheadFull>>>(acquire: impl Fn() -> F) {
        let mut context = Context::from_waker(Waker::noop());
        let mut calls: Vec<_> = (0..4).map(|_| Box::pin(acquire())).collect();
        let Poll::Ready(Ok(held)) = calls[0].as_mut().poll(&mut context) else { panic!("a slot is free") };
        for call in &mut calls[1..] {
            assert!(call.as_mut().poll(&mut context).is_pending());
        }
        let Poll::Ready(Err(full)) = calls[1].as_mut().poll(&mut context) else { panic!("it lost its place") };
        assert_eq!((full.cause(), full.label()), (RefusalCause::Displaced, "displaced"));
        drop(held);
        assert!(calls[2].as_mut().poll(&mut context).is_pending());
        assert!(calls[3].as_mut().poll(&mut context).is_ready());
    }
    let bounds = LimitBounds::new(1, 1).unwrap().starting_at(1).unwrap();
    let limit = AdaptiveLimit::new(bounds).queue(2).newest_first();
    check(|| limit.acquire().sleeping_by(|_| pending::<()>()));
    let hosts = KeyedAdaptiveLimit::<u8>::new(bounds, 16).unwrap().queue(2).newest_first();
    check(|| hosts.acquire(&1).sleeping_by(|_| pending::<()>()));
    let tenants = KeyedBulkhead::<u8>::new(1, 16).unwrap().queue(2).newest_first();
    check(|| tenants.acquire(&1).sleeping_by(|_| pending::<()>()));
}

#[test]
fn limit_of_all_keys_replaces_that_of_one_key_and_applies_to_new_keys() {
    let tenants = KeyedBulkhead::<u32>::new(1, 16).unwrap().queue(1);
    let permits = [1, 2].map(|tenant| tenants.try_acquire(&tenant).unwrap());
    tenants.get_or_create(&2).unwrap().set_limit(9);
    let waiting = tenants.acquire(&1);
    tenants.set_limit(2);
    assert!(waiting.wait().is_ok(), "a slot is free at once");
    assert_eq!([1, 2, 3].map(|tenant| tenants.get_or_create(&tenant).unwrap().limit()), [2; 3]);
    assert!(format!("{tenants:?}").starts_with("Keyed { template: LimitTemplate(Bulkhead {"));
    drop(permits);
}

/// The queue is that of all keys, and so is the limit, unless one was changed for a key since.
#[test]
fn setting_of_a_key_holds_until_the_same_one_is_changed_for_all() {
    let tenants = KeyedBulkhead::<u32>::new(1, 16).unwrap().queue(1);
    let tenant = tenants.get_or_create(&1).unwrap();
    tenant.set_limit(9);
    tenants.set_queue(2);
    assert_eq!((tenant.limit(), tenant.places()), (9, 2));
    tenant.set_queue(3);
    tenants.set_limit(4);
    assert_eq!((tenant.limit(), tenant.places()), (4, 3));
    let other = tenants.get_or_create(&2).unwrap();
    assert_eq!((other.limit(), other.places()), (4, 2));

    let bounds = |min, max| LimitBounds::new(min, max).unwrap();
    let hosts = KeyedAdaptiveLimit::<u32>::new(bounds(1, 50), 16).unwrap().queue(1);
    hosts.set_bounds(bounds(1, 15));
    let host = hosts.get_or_create(&1).unwrap();
    host.set_bounds(bounds(5, 9));
    hosts.set_queue(2);
    assert_eq!((host.limit(), host.places()), (9, 2));
    host.set_queue(3);
    hosts.set_bounds(bounds(1, 5));
    assert_eq!((host.limit(), host.places()), (5, 3));
    let other = hosts.get_or_create(&2).unwrap();
    assert_eq!((other.limit(), other.places()), (5, 2));
}

/// A service that is switched off for all keys refuses new ones too.
#[test]
fn limit_of_zero_applies_to_new_keys() {
    let tenants = KeyedBulkhead::<u32>::new(1, 16).unwrap();
    tenants.set_limit(0);
    let full = tenants.try_acquire(&1).unwrap_err();
    assert_eq!((full.limit(), full.cause()), (0, RefusalCause::NoSlot));
    assert!(KeyedBulkhead::<u32>::new(0, 16).unwrap().try_acquire(&1).is_err());
}

#[test]
fn bounds_of_all_keys_hold_for_later_ones() {
    let hosts = KeyedAdaptiveLimit::<u32>::new(LimitBounds::DEFAULT, 16).unwrap();
    assert_eq!(hosts.get_or_create(&1).unwrap().limit(), 20);
    hosts.set_bounds(LimitBounds::new(50, 60).unwrap());
    assert_eq!([1, 2].map(|host| hosts.get_or_create(&host).unwrap().limit()), [50; 2]);
    hosts.set_bounds(LimitBounds::new(1, 5).unwrap());
    assert_eq!([1, 2, 3].map(|host| hosts.get_or_create(&host).unwrap().limit()), [5; 3]);
    hosts.set_bounds(LimitBounds::new(1, 100).unwrap());
    assert_eq!(hosts.get_or_create(&4).unwrap().limit(), 20, "where the first limit began");
    assert!(format!("{hosts:?}").starts_with("Keyed { template: LimitTemplate(AdaptiveLimit {"));
}

/// Calls a function when it wakes.
struct Act<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Act<F> {
    fn wake(self: Arc<Self>) {
        self.0();
    }
}

/// A waker may take its time, and all other limits of its shard are idle.
#[test]
fn full_store_makes_room_while_limits_are_changed() {
    let tenants = Arc::new(KeyedBulkhead::<u32>::new(1, 60).unwrap().queue(1));
    for tenant in 0..60 {
        assert!(tenants.try_acquire(&tenant).is_ok());
    }
    let permit = tenants.try_acquire(&7).unwrap();
    let causes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let waker = {
        let (tenants, causes) = (Arc::clone(&tenants), Arc::clone(&causes));
        Waker::from(Arc::new(Act(move || {
            let newcomers = (100..110).map(|tenant| tenants.try_acquire(&tenant).map_err(|full| full.cause()));
            causes.lock().unwrap().extend(newcomers.map(Result::err));
        })))
    };
    let mut waiting = Box::pin(tenants.acquire(&7).sleeping_by(|_| pending::<()>()));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    tenants.set_limit(2);
    assert_eq!(*causes.lock().unwrap(), [None; 10]);
    drop((permit, waiting));
}

#[test]
fn panic_of_a_waker_leaves_no_key_with_the_old_limit() {
    let tenants = KeyedBulkhead::<u32>::new(1, 1_000).unwrap().queue(1);
    let permits: Vec<_> = (0..20).map(|tenant| tenants.try_acquire(&tenant).unwrap()).collect();
    let waker = Waker::from(Arc::new(Act(|| panic!("of the waker"))));
    let mut waiting = Box::pin(tenants.acquire(&7).sleeping_by(|_| pending::<()>()));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| tenants.set_limit(2))).is_err());
    for tenant in 0..20 {
        assert_eq!(tenants.get_or_create(&tenant).unwrap().limit(), 2, "{tenant}");
    }
    drop((permits, waiting));
}
