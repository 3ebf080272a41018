//! A throttle per key: keys are independent, and a refusing throttle outlives floods of others.

use damper::breaker::Verdict;
use damper::throttle::{AdaptiveThrottle, KeyedThrottle, ThrottlePermit, Throttled};
use damper::time::Seed;
use damper::{CallError, ManualClock};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Hosts = KeyedThrottle<u32, Arc<ManualClock>>;

/// Too few for two shards.
fn hosts(capacity: usize) -> (Arc<ManualClock>, Hosts) {
    let clock = Arc::new(ManualClock::new());
    (Arc::clone(&clock), KeyedThrottle::with_clock_and_hasher(capacity, clock, Seed::new(1, 2)).unwrap())
}

fn have_rejected(hosts: &Hosts, host: u32) {
    for _ in 0..10 {
        assert!(matches!(hosts.call(&host, || Err::<(), _>(503)), Err(CallError::Failed(503))));
    }
    assert!(share(hosts, host) > 0.9);
}

/// Returns the share that a host's throttle refuses, or 0 without a throttle.
fn share(hosts: &Hosts, host: u32) -> f64 {
    hosts.store().get(&host).map_or(0.0, |throttle| throttle.status().share_refused())
}

#[test]
fn keys_have_throttles_of_their_own() {
    let (_, hosts) = hosts(8);
    have_rejected(&hosts, 1);
    for _ in 0..1_000 {
        assert_eq!(hosts.call(&2, || Ok::<_, u16>("pong")), Ok("pong"));
    }
    assert!((0..1_000).any(|_| hosts.call(&1, || Ok::<_, u16>("pong")).is_err()));
}

/// Otherwise hosts that fail together would receive their calls at the same moments.
///
/// Hosts behind one load balancer are an example.
#[test]
fn keys_refuse_different_calls() {
    let (_, hosts) = hosts(8);
    let sent = [1, 2].map(|host| {
        have_rejected(&hosts, host);
        (0..2_000)
            .filter(|_| hosts.call(&host, || Err::<(), _>(503)) == Err(CallError::Failed(503)))
            .collect::<Vec<_>>()
    });
    assert!(sent.iter().all(|sent| sent.len() > 5), "{sent:?}");
    assert_ne!(sent[0], sent[1]);
}

#[test]
fn throttle_that_refuses_survives_a_flood_of_healthy_hosts() {
    let (_, hosts) = hosts(16);
    have_rejected(&hosts, 1);
    for host in 100..10_100 {
        assert_eq!(hosts.call(&host, || Ok::<_, u16>(())), Ok(()));
    }
    assert!(share(&hosts, 1) > 0.9);
    assert!(hosts.store().len() <= 16);
    assert_eq!(hosts.store().kept_evictions(), 0);
}

/// A throttle that refused once and is idle does not displace another.
#[test]
fn throttle_idle_for_30_seconds_is_evicted_like_others() {
    let (clock, hosts) = hosts(16);
    have_rejected(&hosts, 1);
    // The next call starts the outage.
    _ = hosts.call(&1, || Err::<(), _>(503));
    clock.advance(Duration::from_secs(31));
    assert!(share(&hosts, 1) > 0.9, "it still refuses, because no call has shown a recovery");
    assert!(!hosts.store().get(&1).unwrap().status().is_worth_keeping());
    have_rejected(&hosts, 2);
    for host in 100..200 {
        assert_eq!(hosts.call(&host, || Ok::<_, u16>(())), Ok(()));
    }
    assert!(hosts.store().get(&1).is_none());
    assert!(share(&hosts, 2) > 0.9);
    assert_eq!(hosts.store().kept_evictions(), 0);
}

#[test]
fn evictions_of_throttles_that_refuse_are_counted() {
    let (_, hosts) = hosts(4);
    for host in 0..6 {
        have_rejected(&hosts, host);
    }
    assert_eq!((hosts.store().len(), hosts.store().kept_evictions()), (4, 2));
}

#[test]
fn multiplier_is_that_of_each_throttle() {
    let clock = Arc::new(ManualClock::new());
    let hosts = KeyedThrottle::<u32, _>::with_clock(8, clock).unwrap().multiplier(1.0).unwrap();
    // Three of four are accepted: the rejections are fewer than half, but some.
    for host in [1, 2] {
        for call in 0..100 {
            let answer = if call % 4 == 0 { Err(503) } else { Ok(()) };
            _ = hosts.call(&host, || answer);
        }
        assert!(hosts.get_or_create(&host).status().share_refused() > 0.2);
    }
    let error = KeyedThrottle::<u32>::new(8).unwrap().multiplier(11.0).unwrap_err();
    assert_eq!(error.to_string(), "multiplier is 11.0, it must be 1.0 to 10.0");
}

#[test]
fn capacity_out_of_range_is_an_error() {
    assert!(KeyedThrottle::<u32>::new(0).is_err());
    assert_eq!(KeyedThrottle::<String>::default().store().capacity(), 1_024);
}

#[test]
fn future_borrows_neither_the_throttles_nor_the_key() {
    let (_, hosts) = hosts(8);
    let future = {
        let key = 1;
        hosts.run(&key, async { Err::<(), _>(503) })
    };
    let throttle = hosts.get_or_create(&1);
    drop(hosts);
    let mut future = Box::pin(future);
    let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(Err(CallError::Failed(503))));
    assert_eq!(throttle.status().requests(), 1);
}

type Clocked = AdaptiveThrottle<Arc<ManualClock>>;

fn outage() -> (Arc<ManualClock>, Arc<Clocked>) {
    let clock = Arc::new(ManualClock::new());
    let throttle = Arc::new(AdaptiveThrottle::with_clock(Arc::clone(&clock), 7));
    for _ in 0..10 {
        throttle.try_acquire().unwrap().rejected();
    }
    (clock, throttle)
}

/// A call sent by chance restarts the second.
fn refusal(throttle: &Clocked) -> Throttled {
    (0..1_000).find_map(|_| throttle.try_acquire().err()).expect("it refuses 99 of 100")
}

/// The wait is exact.
///
/// A call a microsecond earlier may be refused, and a call after the wait is sent.
#[test]
fn call_is_sent_after_the_wait_that_the_refusal_names() {
    let (clock, throttle) = outage();
    clock.advance(Duration::from_secs(10));
    let mut sent_by_chance = 0;
    for _ in 0..1_000 {
        // The probe, and a refusal some time later.
        _ = throttle.try_acquire().map(ThrottlePermit::rejected);
        clock.advance(Duration::from_millis(300));
        let refused = refusal(&throttle);
        assert!(refused.retry_after() <= Duration::from_secs(1));
        clock.advance(refused.retry_after().saturating_sub(Duration::from_micros(1)));
        sent_by_chance += u32::from(throttle.try_acquire().map(ThrottlePermit::rejected).is_ok());
        let wait = throttle.try_acquire().err().map_or(Duration::from_secs(1), |refused| refused.retry_after());
        clock.advance(wait);
        assert!(throttle.try_acquire().map(ThrottlePermit::rejected).is_ok(), "after {wait:?}");
    }
    assert!(sent_by_chance < 50, "{sent_by_chance} of 1,000 a microsecond earlier");
}

#[test]
fn refusal_is_found_in_the_error_of_a_call() {
    let (_, throttle) = outage();
    let refused = refusal(&throttle);
    let error = CallError::<std::io::Error, Throttled>::from(refused);
    assert_eq!((error.refusal(), Throttled::find_in(&error)), (Some(&refused), Some(&refused)));
    assert!(error.into_failed().is_none());
    let boxed = CallError::<std::io::Error, Throttled>::from(refused).into_boxed();
    assert_eq!(boxed.downcast_ref(), Some(&refused));
    let failed = CallError::<_, Throttled>::Failed(std::io::Error::other("down"));
    assert!(failed.refusal().is_none() && Throttled::find_in(&failed).is_none());
    assert_eq!(failed.into_boxed().to_string(), "down");
}

/// Settings that change in use are those of present and of future keys, and the counts stay.
#[test]
fn changed_settings_are_those_of_all_keys() {
    let (_, hosts) = hosts(8);
    have_rejected(&hosts, 1);
    hosts.set_max_refused(0.5).unwrap();
    assert!((share(&hosts, 1) - 0.5).abs() < 1e-9, "{}", share(&hosts, 1));
    for _ in 0..10 {
        hosts.get_or_create(&2).try_acquire().unwrap().rejected();
    }
    assert!((share(&hosts, 2) - 0.5).abs() < 1e-9, "{}", share(&hosts, 2));

    let error = hosts.set_multiplier(0.5).unwrap_err();
    assert_eq!(error.to_string(), "multiplier is 0.5, it must be 1.0 to 10.0");
    assert!((share(&hosts, 1) - 0.5).abs() < 1e-9, "nothing has changed");
}

/// A classifier sees a rejection where the result is `Ok`, and none where the error is the caller's.
#[test]
fn verdict_of_a_call_is_that_of_its_key() {
    let (_, hosts) = hosts(8);
    let verdict = |result: &Result<u16, u16>| match result {
        Ok(503) => Verdict::Failure,
        Ok(_) | Err(404) => Verdict::Success,
        Err(_) => Verdict::Ignored,
    };
    for _ in 0..10 {
        _ = hosts.call_with(&1, || Ok(503), verdict);
        assert_eq!(hosts.call_with(&2, || Err(404), verdict), Err(CallError::Failed(404)));
    }
    assert!(share(&hosts, 1) > 0.8 && share(&hosts, 2) == 0.0);
    let refused = (0..1_000).filter(|_| hosts.call_with(&1, || Ok(200), verdict).is_err()).count();
    assert!(refused > 0 && (0..1_000).all(|_| hosts.call_with(&2, || Ok(200), verdict).is_ok()));
}
