//! A few callers that are greedy, broken or hostile: what all others get.
//!
//! The guide's page of the same name has these figures. Adaptive limits and full tables are in `sim/`, the layers of HTTP over real sockets in
//! `examples/minorities` and in the tests of damper-http.

use damper::concurrency::{Admission, AdmissionRequest, Criticality};
use damper::deadline::{Arrival, SkewGuard};
use damper::retry::{Budget, RetryBudget, RetryBudgetConfig};
use damper::time::Seed;
use damper::{BreakerConfig, CallError, Deadline, KeyedCircuitBreaker, ManualClock, Quota, RateLimiter};
use std::collections::VecDeque;
use std::time::Duration;

/// Random numbers for a simulation.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn is_within(&mut self, thousandths: u64) -> bool {
        self.next() % 1_000 < thousandths
    }
}

/// Returns the share of polite retries that a shared budget allows.
///
/// There are 100 calls a second for ten minutes.
///
/// Of the polite calls 2 % fail once. The calls of the others fail always, and are tried three times.
fn polite_retries(failing_thousandths: u64) -> f64 {
    let clock = ManualClock::new();
    let budget = RetryBudget::with_clock(RetryBudgetConfig::DEFAULT, &clock);
    let mut random = Random(1);
    let (mut wanted, mut allowed) = (0.0, 0.0);
    for _ in 0..60_000 {
        clock.advance(Duration::from_millis(10));
        budget.began();
        if random.is_within(failing_thousandths) {
            let _ = budget.try_withdraw() && budget.try_withdraw();
        } else if random.is_within(20) {
            wanted += 1.0;
            allowed += f64::from(u8::from(budget.try_withdraw()));
        }
    }
    allowed / wanted
}

#[test]
fn failing_minority_takes_the_retry_budget_once_it_is_above_the_ratio() {
    let shares = [50, 100, 150, 200, 300].map(polite_retries);
    println!("{shares:.3?}");
    assert!(shares[..2].iter().all(|&share| share > 0.99), "a tenth leaves enough: {shares:?}");
    assert!((0.5..0.7).contains(&shares[4]), "the page says that three tenths do not: {shares:?}");
}

/// Returns the share of the polite calls that a client's throttle sends.
///
/// There are 100 calls a second for ten minutes. One tenant makes a part of them, beyond its quota: they get 429. All others get 200.
/// `judge` is the verdict on a status.
#[cfg(feature = "http")]
fn polite_calls_sent(tenants_thousandths: u64, judge: impl Fn(http::StatusCode) -> damper::gate::Verdict) -> f64 {
    use damper::gate::Permit as _;

    let clock = ManualClock::new();
    let throttle = damper::throttle::AdaptiveThrottle::with_clock(&clock, 1);
    let mut random = Random(1);
    let (mut polite, mut sent) = (0.0, 0.0);
    for _ in 0..60_000 {
        clock.advance(Duration::from_millis(10));
        let is_polite = !random.is_within(tenants_thousandths);
        polite += f64::from(u8::from(is_polite));
        let Ok(permit) = throttle.try_acquire() else { continue };
        sent += f64::from(u8::from(is_polite));
        permit.end(&judge(if is_polite { http::StatusCode::OK } else { http::StatusCode::TOO_MANY_REQUESTS }));
    }
    sent / polite
}

/// 429 is about the quota of one tenant.
#[cfg(feature = "http")]
#[test]
fn tenant_beyond_its_quota_has_no_calls_of_others_throttled() {
    use damper::gate::{Ending, Verdict};
    use damper::http::{ResponseHead, Statuses};
    use http::{Response, StatusCode};

    let by_default = |status| {
        let response = Response::builder().status(status).body(()).expect("a response");
        Statuses::judge(Ok(&ResponseHead::of(&response)))
    };
    let counting = |status| Verdict::of(if status == StatusCode::OK { Ending::Success } else { Ending::Unavailable });
    let rows = [150, 400, 600, 800]
        .map(|tenants| (polite_calls_sent(tenants, by_default), polite_calls_sent(tenants, counting)));
    println!("{rows:.3?}");
    assert!(rows.iter().all(|&(ignored, _)| ignored > 0.999_999), "429 is ignored: {rows:?}");
    // The setting that counts it is for clients whose calls share one quota.
    assert!(rows[0].1 > 0.99 && rows[2].1 < 0.7 && rows[3].1 < 0.2, "the page says what counting it does: {rows:?}");
}

/// Returns the shares of polite and of expired requests that a server with the guard serves.
///
/// It gets 100 requests a second for ten minutes. The deadlines of the others have passed.
fn served_by_the_guard(expired_thousandths: u64) -> (f64, f64) {
    let clock = ManualClock::new();
    let guard = SkewGuard::with_clock(&clock);
    let mut random = Random(2);
    let (mut polite, mut served_polite, mut expired, mut served_expired) = (0.0, 0.0, 0.0, 0.0);
    for _ in 0..60_000 {
        clock.advance(Duration::from_millis(10));
        let is_expired = random.is_within(expired_thousandths);
        let given = if is_expired { Duration::ZERO } else { Duration::from_secs(60) };
        let is_served = f64::from(u8::from(!matches!(guard.arrived(&Deadline::after(given)), Arrival::Expired(_))));
        if is_expired {
            (expired, served_expired) = (expired + 1.0, served_expired + is_served);
        } else {
            (polite, served_polite) = (polite + 1.0, served_polite + is_served);
        }
    }
    (served_polite / polite, served_expired / expired)
}

/// The guard never refuses a request in time. Above a fifth it serves expired ones, as it should.
#[test]
fn requests_that_arrive_expired_take_nothing_from_others() {
    for (thousandths, most_served) in [(100, 0.01), (190, 0.05), (300, 0.40), (500, 0.65)] {
        let (polite, expired) = served_by_the_guard(thousandths);
        println!("{thousandths}: {expired:.3}");
        assert!(polite >= 1.0 && expired < most_served, "{thousandths} thousandths: {polite}, {expired}");
    }
}

/// Calls in the queue of a gate of 10 slots, each of which a call holds for 20 ms: 500 calls a second.
///
/// Nine tenants ask for 45 calls a second each. One more asks for 1,000 and, if it `invents` names, with a new name each time. Returns the
/// share of the polite calls that were admitted.
fn admitted_beside_a_greedy_tenant(invents: bool) -> f64 {
    let clock = std::sync::Arc::new(ManualClock::new());
    let gate = Admission::fixed_with_clock(10, std::sync::Arc::clone(&clock)).queue(10).seed(Seed::new(1, 2));
    let gate = std::sync::Arc::new(gate);
    let mut random = Random(3);
    let (mut waiting, mut running) = (VecDeque::new(), VecDeque::new());
    let (mut asked, mut admitted) = (0.0, 0.0);
    for millis in 0..60_000_u64 {
        clock.advance(Duration::from_millis(1));
        while running.front().is_some_and(|&(end, _)| end <= millis) {
            running.pop_front();
        }
        // 405 and 1,000 a second.
        let arrivals = [random.is_within(405).then_some(true), Some(false)];
        for is_polite in arrivals.into_iter().flatten() {
            let tenant = if is_polite { random.next() % 9 } else { 9 + if invents { random.next() } else { 0 } };
            let request = AdmissionRequest::new().criticality(Criticality::Critical).tenant(&tenant);
            waiting.push_back((
                is_polite,
                Box::pin(gate.acquire_owned(request).sleeping_by(|_| std::future::pending::<()>())),
            ));
            asked += f64::from(u8::from(is_polite));
        }
        waiting.retain_mut(|(is_polite, call)| {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            match std::future::Future::poll(call.as_mut(), &mut context) {
                std::task::Poll::Pending => true,
                std::task::Poll::Ready(Err(_)) => false,
                std::task::Poll::Ready(Ok(permit)) => {
                    running.push_back((millis + 20, permit));
                    admitted += f64::from(u8::from(*is_polite));
                    false
                }
            }
        });
    }
    admitted / asked
}

#[test]
fn greedy_tenant_takes_no_slots_from_others_unless_it_invents_names() {
    let (with_one_name, with_many) = (admitted_beside_a_greedy_tenant(false), admitted_beside_a_greedy_tenant(true));
    println!("{with_one_name:.3} {with_many:.3}");
    assert!(with_one_name > 0.95, "{with_one_name}");
    assert!(with_many < 0.1, "the page says that names must be verified: {with_many}");
}

/// Returns how many of 6,000 calls to a failing host were made, beside a flood of failing hosts.
///
/// The store has 100 breakers. One caller has 1,000 hosts that fail, and tries them at random. The others have 20 hosts, of which one fails.
fn calls_to_a_failing_host(dead_hosts_a_second: u64) -> u32 {
    let clock = std::sync::Arc::new(ManualClock::new());
    let hosts = KeyedCircuitBreaker::with_clock(BreakerConfig::DEFAULT, 100, std::sync::Arc::clone(&clock)).unwrap();
    let mut random = Random(4);
    let mut made = 0;
    for tick in 0..60_000_u64 {
        clock.advance(Duration::from_millis(10));
        if tick % 10 == 0 {
            let result = hosts.call(&7, || Err::<(), ()>(()));
            made += u32::from(matches!(result, Err(CallError::Failed(()))));
        }
        for host in 0..20 {
            assert!(host == 7 || hosts.call(&host, || Ok::<_, ()>(())).is_ok(), "a host that works is open");
        }
        for _ in 0..dead_hosts_a_second / 100 {
            let _ = hosts.call(&(100 + random.next() % 1_000), || Err::<(), ()>(()));
        }
    }
    made
}

/// Open breakers are kept, so hosts that one caller names do not push out those of others.
#[test]
fn flood_of_failing_hosts_leaves_the_breakers_of_others() {
    let (alone, beside) = (calls_to_a_failing_host(0), calls_to_a_failing_host(500));
    println!("{alone} {beside}");
    assert!(alone < 40 && beside < 2 * alone, "{alone} alone, {beside} beside 500 a second");
}

/// A reservation gives back what it does not use, however long it was held.
///
/// So calls that reserve a whole burst each, and are settled unused at one instant, let as many bursts pass in that instant.
#[test]
fn reservations_that_are_settled_at_once_exceed_the_quota_by_their_sum() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_minute(1_000).max_debt(10_000), &clock);
    let mut reserved = Vec::new();
    for _ in 0..10 {
        reserved.push(limiter.reserve(1_000).unwrap());
        clock.advance(Duration::from_secs(60));
    }
    let mut passed = limiter.take_up_to(u32::MAX);
    for call in reserved {
        call.settle(0);
        passed += limiter.take_up_to(u32::MAX);
    }
    assert_eq!(passed, 11_000);
}
