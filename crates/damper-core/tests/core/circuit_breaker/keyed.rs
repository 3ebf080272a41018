//! A breaker for every key, through the public API.

use damper::breaker::{OnStateChange, State, StateChange, Verdict, Window};
use damper::{BreakerConfig, CallError, CircuitBreaker, KeyedCircuitBreaker, ManualClock};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn config() -> BreakerConfig {
    BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_secs(30)).build().unwrap()
}

/// Polls a future that is ready at once.
fn block_on<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("not ready"),
    }
}

fn fail(breakers: &KeyedCircuitBreaker<String, &ManualClock>, key: &str) {
    assert_eq!(breakers.call(key, || Err::<(), _>("down")), Err(CallError::Failed("down")));
}

#[test]
fn every_key_has_its_own_breaker() {
    let clock = ManualClock::new();
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(config(), 16, &clock).unwrap();
    fail(&hosts, "one");
    assert!(matches!(hosts.call("one", || Ok::<_, ()>(1)), Err(CallError::Refused(_))));
    assert_eq!(hosts.call("two", || Ok::<_, ()>(2)), Ok(2));
    assert!(Arc::ptr_eq(&hosts.get_or_create("one"), &hosts.get_or_create("one")));
    assert_eq!(hosts.get_or_create("one").try_acquire().unwrap_err().retry_after(), Some(Duration::from_secs(30)));
    assert_eq!((hosts.store().len(), hosts.store().capacity()), (2, 16));
    assert!(hosts.store().get("three").is_none(), "a lookup creates no breaker");

    clock.advance(Duration::from_secs(30));
    assert_eq!(hosts.call("one", || Ok::<_, ()>(1)), Ok(1));
    assert_eq!(hosts.get_or_create("one").state(), State::Closed);

    let on_the_default_clock = KeyedCircuitBreaker::<u32>::new(BreakerConfig::DEFAULT, 16).unwrap();
    assert_eq!(on_the_default_clock.call(&7, || Ok::<_, ()>(1)), Ok(1));
}

#[test]
fn every_key_has_its_own_window() {
    let clock = ManualClock::new();
    let half = BreakerConfig::builder().failure_rate(50).minimum_calls(4).window(Window::last_calls(100));
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(half.build().unwrap(), 16, &clock).unwrap();
    for host in ["one", "two"] {
        for _ in 0..3 {
            fail(&hosts, host);
        }
        assert_eq!(hosts.get_or_create(host).status().calls(), 3);
        assert_eq!(hosts.get_or_create(host).state(), State::Closed);
    }
    fail(&hosts, "one");
    assert_eq!((hosts.get_or_create("one").state(), hosts.get_or_create("two").state()), (State::Open, State::Closed));
    for _ in 0..200 {
        hosts.call("three", || Ok::<_, ()>(())).unwrap();
    }
    assert_eq!(hosts.get_or_create("three").status().calls(), 100, "the window is full");
}

#[test]
fn slow_probe_reopens() {
    let clock = ManualClock::new();
    let config = BreakerConfig::builder().failure_threshold(1).slow_rate(50, Duration::from_secs(2)).build().unwrap();
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(config, 16, &clock).unwrap();
    let slow = || {
        clock.advance(Duration::from_secs(2));
        Ok::<_, &str>(())
    };
    fail(&hosts, "one");
    for _ in 0..2 {
        clock.advance(Duration::from_secs(30));
        hosts.call("one", slow).unwrap();
        assert_eq!(hosts.get_or_create("one").state(), State::Open, "by a call");
        clock.advance(Duration::from_secs(30));
        block_on(hosts.run("one", async { slow() })).unwrap();
        assert_eq!(hosts.get_or_create("one").state(), State::Open, "by a future");
        clock.advance(Duration::from_secs(30));
        let probe = hosts.get_or_create("one").try_acquire_owned().unwrap();
        clock.advance(Duration::from_secs(2));
        probe.success();
        assert_eq!(hosts.get_or_create("one").state(), State::Open, "by a permit");
    }
    clock.advance(Duration::from_secs(30));
    hosts.call("one", || Ok::<_, &str>(())).unwrap();
    assert_eq!(hosts.get_or_create("one").state(), State::Closed);
}

#[test]
fn open_breaker_survives_a_flood_of_keys() {
    let clock = ManualClock::new();
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(config(), 64, &clock).unwrap();
    fail(&hosts, "down");
    hosts.get_or_create("forced open").force_open();
    hosts.get_or_create("forced closed").force_closed();
    hosts.get_or_create("disabled").disable();
    hosts.get_or_create("metrics only").metrics_only();
    fail(&hosts, "probing");
    fail(&hosts, "abandoned");
    clock.advance(Duration::from_secs(30));
    let probing = hosts.get_or_create("probing");
    let probe = probing.try_acquire().unwrap();
    fail(&hosts, "down"); // a failed probe
    hosts.get_or_create("closed");

    let flood = |hosts: &KeyedCircuitBreaker<String, _>| {
        for key in 0..10_000 {
            hosts.call(&key.to_string(), || Ok::<_, ()>(())).unwrap();
        }
    };
    flood(&hosts);
    for kept in ["down", "forced open", "forced closed", "disabled", "metrics only", "probing"] {
        assert!(hosts.store().get(kept).is_some(), "{kept}");
    }
    // An idle breaker whose cooldown has ended would admit its next call anyway.
    for gone in ["closed", "abandoned"] {
        assert!(hosts.store().get(gone).is_none(), "{gone}");
    }
    assert_eq!(hosts.store().len(), 64);

    probe.success();
    clock.advance(Duration::from_secs(30));
    flood(&hosts);
    assert!(hosts.store().get("probing").is_none() && hosts.store().get("down").is_none());
}

/// Makes one failing call to each of these hosts.
fn flood(hosts: &KeyedCircuitBreaker<String, &ManualClock>, numbers: std::ops::Range<usize>) {
    for number in numbers {
        fail(hosts, &format!("{number}.flood.example.com"));
    }
}

/// One failure does not trip a breaker, so the breakers of the flood stay closed.
#[test]
fn open_breaker_survives_a_flood_of_failing_hosts() {
    let clock = ManualClock::new();
    let config = BreakerConfig::builder().failure_threshold(2).build().unwrap();
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(config, 1_024, &clock).unwrap();
    fail(&hosts, "down");
    fail(&hosts, "down");
    flood(&hosts, 0..4 * 1_024);
    assert_eq!(hosts.store().get("down").unwrap().state(), State::Open);
    assert!(hosts.store().evictions() >= 3 * 1_024 && hosts.store().kept_evictions() == 0);
}

/// So many adjacent entries are open that an eviction long finds no other.
#[test]
fn open_breakers_are_evicted_last() {
    let clock = ManualClock::new();
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(config(), 4_096, &clock).unwrap();
    let open: Vec<_> = (0..1_024).map(|number| format!("{number}.down.example.com")).collect();
    for host in &open {
        fail(&hosts, host);
    }
    for number in 0..8 * 4_096 {
        hosts.call(&number.to_string(), || Ok::<_, ()>(())).unwrap();
    }
    let left = open.iter().filter(|host| hosts.store().get(host.as_str()).is_some()).count();
    assert_eq!((left, hosts.store().kept_evictions()), (1_024, 0));
}

#[test]
fn half_open_breaker_between_probes_is_kept() {
    let clock = ManualClock::new();
    let config = BreakerConfig::builder().failure_threshold(1).successes_to_close(2).build().unwrap();
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(config, 64, &clock).unwrap();
    fail(&hosts, "recovering");
    clock.advance(Duration::from_secs(30));
    hosts.call("recovering", || Ok::<_, ()>(())).unwrap();
    for number in 0..1_000 {
        hosts.call(&number.to_string(), || Ok::<_, ()>(())).unwrap();
    }
    assert_eq!(hosts.store().get("recovering").unwrap().status().probes_succeeded(), 1);
}

/// Every breaker of the flood trips, so open breakers evict one another, and are counted.
#[test]
fn memory_stays_bounded_where_all_breakers_are_open() {
    let clock = ManualClock::new();
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(config(), 100, &clock).unwrap();
    flood(&hosts, 0..100);
    assert_eq!((hosts.store().len(), hosts.store().kept_evictions()), (100, 0));
    flood(&hosts, 100..4 * 1_024);
    assert_eq!(hosts.store().len(), 100);
    assert_eq!(hosts.store().evictions(), 4 * 1_024 - 100);
    // The newest was open too when the next one arrived.
    assert_eq!(hosts.store().kept_evictions(), hosts.store().evictions());
}

/// Among open breakers the unused ones go first.
#[test]
fn open_breaker_in_use_survives_a_flood_of_open_ones() {
    let clock = ManualClock::new();
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(config(), 1_000, &clock).unwrap();
    fail(&hosts, "down");
    for round in 0..1_000 {
        assert!(matches!(hosts.call("down", || Ok::<_, ()>(())), Err(CallError::Refused(_))), "in round {round}");
        flood(&hosts, 10 * round..10 * (round + 1));
    }
    assert!(hosts.store().kept_evictions() > 8_000);
}

#[test]
fn futures_and_permits_work_on_keyed_breakers() {
    let hosts = KeyedCircuitBreaker::<String>::new(config(), 16).unwrap();
    let permit = hosts.get_or_create("one").try_acquire_owned().unwrap();
    permit.failure();
    assert_eq!(hosts.get_or_create("one").state(), State::Open);
    let refused = block_on(hosts.run("one", async { Ok::<_, ()>(1) }));
    assert!(refused.unwrap_err().is_refused());
    // The future borrows neither the breakers nor the key.
    let future = hosts.run(&"two".to_owned(), async { Err::<(), _>("down") });
    let task = std::thread::spawn(|| block_on(future));
    assert_eq!(task.join().unwrap(), Err(CallError::Failed("down")));
    assert_eq!(hosts.get_or_create("two").state(), State::Open);
    assert!(format!("{hosts:?}").contains("capacity: 16"));
}

#[test]
fn custom_verdicts_decide_per_key() {
    let clock = ManualClock::new();
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(config(), 16, &clock).unwrap();
    let unless_missing = |result: &Result<(), u16>| match result {
        Err(404) => Verdict::Success,
        result => Verdict::of(result),
    };
    assert_eq!(hosts.call_with("one", || Err(404), unless_missing), Err(CallError::Failed(404)));
    assert_eq!(block_on(hosts.run_with("one", async { Err(404) }, unless_missing)), Err(CallError::Failed(404)));
    assert_eq!(hosts.get_or_create("one").state(), State::Closed);
    assert_eq!(hosts.call_with("one", || Err(500), unless_missing), Err(CallError::Failed(500)));
    assert!(hosts.call_with("one", || Ok(()), unless_missing).unwrap_err().is_refused());
    assert_eq!(block_on(hosts.run_with("two", async { Err(500) }, unless_missing)), Err(CallError::Failed(500)));
    assert!(block_on(hosts.run_with("two", async { Ok(()) }, unless_missing)).unwrap_err().is_refused());
    let long = |_: &Result<(), &str>| Verdict::RetryAfter(Duration::from_secs(60));
    _ = hosts.call_with("three", || Err("busy"), long);
    let open = hosts.get_or_create("three").try_acquire().unwrap_err();
    assert_eq!(open.retry_after(), Some(Duration::from_secs(60)));
}

#[test]
fn callback_gets_every_change_with_its_key() {
    let clock = ManualClock::new();
    let changes = Arc::new(Mutex::new(Vec::new()));
    let hosts = {
        let changes = Arc::clone(&changes);
        KeyedCircuitBreaker::<String, _>::with_clock(config(), 64, &clock)
            .unwrap()
            .on_state_change(move |change, host| changes.lock().unwrap().push(format!("{host}: {change}")))
    };
    let fail = |host: &str| _ = hosts.call(host, || Err::<(), _>("down"));
    fail("one");
    fail("two");
    clock.advance(Duration::from_secs(30));
    hosts.call("two", || Ok::<_, ()>(())).unwrap();
    hosts.get_or_create("three").force_open();
    assert_eq!(
        changes.lock().unwrap().as_slice(),
        [
            "one: circuit closed -> open: consecutive failures",
            "two: circuit closed -> open: consecutive failures",
            "two: circuit open -> half-open: cooldown over",
            "two: circuit half-open -> closed: probes succeeded",
            "three: circuit closed -> forced open: asked for",
        ]
    );
    assert_eq!(hosts.store().capacity(), 64);
    // The forced breaker is kept, also with a listener.
    for number in 0..10_000 {
        hosts.call(&number.to_string(), || Ok::<_, ()>(())).unwrap();
    }
    assert_eq!(hosts.store().get("three").unwrap().state(), State::ForcedOpen);
    assert_eq!(changes.lock().unwrap().len(), 5, "an eviction is no change");
}

/// Counts the existing listeners.
struct Counted(Arc<AtomicUsize>);

impl OnStateChange for Counted {
    fn on_state_change(&self, _: StateChange) {}
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn listener_is_created_and_dropped_with_its_breaker() {
    let (alive, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let hosts = {
        let (alive, made) = (Arc::clone(&alive), Arc::clone(&made));
        KeyedCircuitBreaker::<String>::new(config(), 10).unwrap().with_listeners(move |host| {
            alive.fetch_add(1, Ordering::Relaxed);
            made.lock().unwrap().push(host.clone());
            Counted(Arc::clone(&alive))
        })
    };
    for host in ["one", "two", "one", "one"] {
        hosts.call(host, || Ok::<_, ()>(())).unwrap();
    }
    assert_eq!(made.lock().unwrap().as_slice(), ["one", "two"]);
    for number in 0..100 {
        hosts.call(&number.to_string(), || Ok::<_, ()>(())).unwrap();
    }
    assert_eq!((made.lock().unwrap().len(), alive.load(Ordering::Relaxed)), (102, 10));
    drop(hosts);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

/// A listener may use the breakers, including the one that changed.
#[test]
fn callback_may_use_other_breakers() {
    static HOSTS: std::sync::OnceLock<
        KeyedCircuitBreaker<u32, damper::Monotonic, damper::time::Seed, damper::breaker::KeyListener<u32>>,
    > = std::sync::OnceLock::new();
    let hosts = HOSTS.get_or_init(|| {
        KeyedCircuitBreaker::<u32>::new(config(), 10).unwrap().on_state_change(|_, &host| {
            if host < 5 {
                HOSTS.get().unwrap().get_or_create(&(host + 1)).force_open();
            }
        })
    });
    _ = hosts.call(&0, || Err::<(), _>("down"));
    assert_eq!(hosts.get_or_create(&5).state(), State::ForcedOpen);
}

#[test]
fn breakers_without_listeners_are_no_larger() {
    let hosts = KeyedCircuitBreaker::<String>::new(config(), 10).unwrap();
    assert_eq!(size_of_val(&*hosts.get_or_create("one")), size_of::<CircuitBreaker>());
}

#[test]
fn new_configuration_reaches_present_and_later_keys() {
    let clock = ManualClock::new();
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(BreakerConfig::DEFAULT, 16, &clock).unwrap();
    fail(&hosts, "one");
    fail(&hosts, "two");
    hosts.get_or_create("two").set_config(&BreakerConfig::builder().failure_threshold(9).build().unwrap()).unwrap();
    hosts.set_config(&BreakerConfig::builder().failure_threshold(2).build().unwrap()).unwrap();
    for host in ["one", "two", "three", "three"] {
        fail(&hosts, host);
    }
    for host in ["one", "two", "three"] {
        assert_eq!(hosts.get_or_create(host).state(), State::Open, "{host}");
    }
}

/// The listener is made after the breaker's configuration was looked up.
#[test]
fn breaker_that_is_created_during_a_change_has_the_new_configuration() {
    type Hosts = KeyedCircuitBreaker<u32, damper::Monotonic, damper::time::Seed, Silent>;
    struct Silent;
    impl OnStateChange for Silent {
        fn on_state_change(&self, _: StateChange) {}
    }
    static HOSTS: std::sync::OnceLock<Hosts> = std::sync::OnceLock::new();
    static LISTENERS: AtomicUsize = AtomicUsize::new(0);
    let hosts = HOSTS.get_or_init(|| {
        KeyedCircuitBreaker::<u32>::new(BreakerConfig::DEFAULT, 10).unwrap().with_listeners(|_| {
            if LISTENERS.fetch_add(1, Ordering::Relaxed) == 0 {
                HOSTS.get().unwrap().set_config(&config()).unwrap();
            }
            Silent
        })
    });
    assert_eq!(hosts.call(&7, || Err::<(), _>("down")), Err(CallError::Failed("down")));
    assert_eq!(hosts.get_or_create(&7).state(), State::Open);
    assert_eq!(LISTENERS.load(Ordering::Relaxed), 2, "the first breaker was out of date");
}
