//! Servers that fail, each in its way, with each policy.
//!
//! Checks are decided all the same, and the server's return is noticed.

use crate::fake::{self, Fake, Mode, refused, until};
use damper_core::Quota;
use damper_core::breaker::State;
use damper_redis::{Leasing, RedisEvent, RedisLimiter, RedisLimiterBuilder, RedisLimiterError, WhenDown};
use std::error::Error;
use std::iter::successors;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Nobody waits that long. A loaded machine is never so late.
const LONG: Duration = Duration::from_secs(5);

const FAULTS: [Mode; 6] = [Mode::Silent, Mode::Garbage, Mode::Nonsense, Mode::Half, Mode::Error, Mode::Close];

fn builder(url: &str) -> RedisLimiterBuilder {
    let millis = Duration::from_millis;
    RedisLimiter::connect(url)
        .name("faults")
        .quota(Quota::per_hour(1_000))
        .deadline(millis(50))
        .connect_timeout(millis(500))
}

/// One check under a policy, and what it took.
async fn decided_in_time(limiter: &RedisLimiter) -> bool {
    let begun = Instant::now();
    let allowed = limiter.check().await.is_ok();
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    allowed
}

#[tokio::test]
async fn unreachable_server_leaves_the_decision_to_the_policy() {
    for (policy, allowed) in [(WhenDown::Open, true), (WhenDown::Closed, false), (WhenDown::LocalShare, false)] {
        let limiter = builder(&refused()).when_down(policy).build_lazy().unwrap();
        for _ in 0..20 {
            assert_eq!(decided_in_time(&limiter).await, allowed, "{policy}");
        }
        let (status, counts) = (limiter.status(), limiter.counts());
        assert_eq!(status.policy, Some(policy));
        assert!(!status.connected);
        assert_eq!((counts.allowed_by_policy + counts.denied_by_policy, counts.allowed_by_server), (20, 0));
        until("the error of the connection", async || limiter.status().last_error.is_some()).await;
    }
}

#[tokio::test]
async fn process_that_starts_without_a_server_has_a_share_only_if_it_knows_the_number_of_processes() {
    let fast = || builder(&refused()).quota(Quota::per_second(4_000_000)).when_down(WhenDown::LocalShare);
    let unknown = fast().build_lazy().unwrap();
    for _ in 0..50 {
        let denied = unknown.check().await.unwrap_err();
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(200)), "no share, however long it waits");
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    assert_eq!((unknown.status().processes, unknown.counts().allowed_by_policy), (0, 0));
    // One of four: a token in a microsecond.
    let known = fast().processes(4).build_lazy().unwrap();
    until("a token of the share", async || known.check().await.is_ok()).await;
    assert_eq!(known.status().processes, 4);
}

#[tokio::test]
async fn cost_above_the_burst_is_named_before_the_level_is_known() {
    let expected = "rate limit exceeded: more tokens asked for than the burst";
    let fake = Fake::start(10);
    for policy in [WhenDown::Open, WhenDown::Closed, WhenDown::LocalShare] {
        let builder = |url: &str| builder(url).quota(Quota::per_second(10)).when_down(policy);
        let connected = builder(&fake.url()).build().await.unwrap();
        for limiter in [connected, builder(&refused()).build_lazy().unwrap()] {
            let denied = limiter.check_n(1_000).await.unwrap_err();
            assert_eq!((denied.to_string().as_str(), denied.remaining()), (expected, 10), "{policy}");
        }
    }
    let two = builder(&refused()).also(Quota::per_second(7)).build_lazy().unwrap();
    assert_eq!(two.check_n(1_000).await.unwrap_err().remaining(), 7, "the smallest burst");
    let keyed = builder(&refused()).build_keyed_lazy().unwrap();
    assert_eq!(keyed.check_n("key", 1_001).await.unwrap_err().to_string(), expected);
}

#[tokio::test]
async fn every_fault_is_decided_by_the_policy_within_one_check() {
    for fault in FAULTS {
        for (policy, allowed) in [(WhenDown::Open, true), (WhenDown::Closed, false), (WhenDown::LocalShare, false)] {
            let fake = Fake::start(1_000);
            let limiter = builder(&fake.url()).when_down(policy).build().await.unwrap();
            assert!(decided_in_time(&limiter).await, "the server answers first");
            fake.set(fault);
            // The local share is empty when the server stops, and one in an hour is not there yet.
            for _ in 0..12 {
                assert_eq!(decided_in_time(&limiter).await, allowed, "{fault:?} {policy}");
            }
            until("policy in force", async || {
                _ = limiter.check().await;
                limiter.status().policy == Some(policy)
            })
            .await;
            assert!(limiter.status().last_error.is_some(), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn check_that_the_policy_decides_shows_in_the_status_though_the_policy_is_not_in_force() {
    let fake = Fake::start(1_000);
    let limiter = builder(&fake.url()).when_down(WhenDown::Closed).build().await.unwrap();
    assert!(decided_in_time(&limiter).await);
    let status = limiter.status();
    assert_eq!((status.decided_by_policy, status.last_decided_by_policy), (0, None));
    fake.set(Mode::Silent);
    assert!(!decided_in_time(&limiter).await);
    let status = limiter.status();
    assert_eq!((status.policy, status.decided_by_policy), (None, 1), "a single late reply");
    assert!(status.last_decided_by_policy.is_some_and(|ago| ago < LONG));
}

#[tokio::test]
async fn server_that_comes_back_decides_again() {
    for fault in FAULTS {
        let fake = Fake::start(1_000);
        let limiter = builder(&fake.url()).when_down(WhenDown::Closed).build().await.unwrap();
        fake.set(fault);
        for _ in 0..12 {
            _ = limiter.check().await;
        }
        assert!(limiter.status().policy.is_some(), "{fault:?}");
        fake.set(Mode::Answer);
        until("a decision of the server", async || limiter.check().await.is_ok()).await;
        until("server in charge", async || {
            _ = limiter.check().await;
            limiter.status().policy.is_none() && limiter.status().breaker == State::Closed
        })
        .await;
    }
}

#[tokio::test]
async fn server_that_refuses_is_asked_again_twice_a_second_at_most() {
    let fake = Fake::start(1_000);
    fake.refuse("AUTH", "WRONGPASS invalid password");
    let url = format!("redis://me:s3cret@{}/", fake.address());
    let limiter = builder(&url).when_down(WhenDown::Closed).build_lazy().unwrap();
    let begun = Instant::now();
    until("some attempts", async || {
        _ = limiter.check().await;
        fake.accepted() >= 3
    })
    .await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "three attempts in {:?}", begun.elapsed());
    fake.refuse("", "");
    until("a decision of the server", async || limiter.check().await.is_ok()).await;
}

#[tokio::test]
async fn last_error_stays_and_grows_old() {
    let fake = Fake::start(1_000);
    fake.refuse("SCRIPT", "LOADING it is loading");
    let builder = builder(&fake.url()).leasing(Leasing::Never).when_down(WhenDown::Closed);
    let limiter = builder.build_lazy().unwrap();
    until("the error of the connection", async || {
        _ = limiter.check().await;
        limiter.status().last_error.is_some()
    })
    .await;
    fake.refuse("", "");
    until("a decision of the server", async || limiter.check().await.is_ok()).await;
    let first = limiter.status().last_error.expect("it stays");
    assert!(first.message.contains("cannot connect") && first.message.contains("LOADING"), "{first}");
    assert!(first.to_string().ends_with(" s ago"), "{first}");

    fake.set(Mode::Error);
    assert!(limiter.check().await.is_err());
    fake.set(Mode::Answer);
    until("a decision of the server", async || limiter.check().await.is_ok()).await;
    let of_call = limiter.status().last_error.unwrap();
    assert!(of_call.message.contains("the server failed"), "the later one: {of_call}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let later = limiter.status().last_error.unwrap();
    assert_eq!(later.message, of_call.message);
    assert!(later.age >= of_call.age + Duration::from_millis(100) && later.age < LONG, "{later:?}");
}

#[tokio::test]
async fn process_without_traffic_notices_that_the_server_is_back() {
    let fake = Fake::start(1_000);
    let limiter = builder(&fake.url()).when_down(WhenDown::Closed).build().await.unwrap();
    fake.set(Mode::Close);
    until("policy in force", async || {
        _ = limiter.check().await;
        limiter.status().policy.is_some()
    })
    .await;
    fake.set(Mode::Answer);
    until("server in charge", async || limiter.status().policy.is_none()).await;
}

#[tokio::test]
async fn connection_that_stays_silent_is_replaced() {
    let fake = Fake::start(1_000);
    let limiter = builder(&fake.url()).when_down(WhenDown::Closed).build().await.unwrap();
    assert_eq!(fake.accepted(), 1);
    fake.set(Mode::Silent);
    until("another connection", async || {
        _ = limiter.check().await;
        fake.accepted() > 1
    })
    .await;
}

#[tokio::test]
async fn local_share_fills_at_its_part_of_the_rate_and_is_charged_on_return() {
    let fake = Fake::start(1_000_000);
    fake.set_processes(4);
    let limiter = builder(&fake.url()).quota(Quota::per_second(4_000)).build().await.unwrap();
    until("the number of processes", async || limiter.status().processes == 4).await;
    assert!(limiter.check().await.is_ok());
    let begun = Instant::now();
    fake.set(Mode::Close);
    let mut admitted = 0;
    while begun.elapsed() < Duration::from_millis(300) {
        admitted += u64::from(limiter.check().await.is_ok());
        tokio::task::yield_now().await;
    }
    let most = 1_000 * (begun.elapsed().as_micros() as u64 + 100_000) / 1_000_000;
    assert!(admitted > 0 && admitted <= most, "{admitted} of {most}");
    let by_policy = limiter.counts().allowed_by_policy;
    fake.set(Mode::Answer);
    let charged = || fake.calls().iter().map(fake::Call::charge).sum::<u64>();
    until("the charge", async || charged() >= by_policy).await;
}

/// The number of processes divides the quota, so an old number would admit more than the quota.
#[tokio::test]
async fn processes_are_counted_though_every_check_is_late() {
    let fake = Fake::start(1_000_000);
    let millis = Duration::from_millis;
    let limiter = builder(&fake.url()).deadline(millis(5)).leasing(Leasing::Never).build().await.unwrap();
    assert_eq!(limiter.status().processes, 1);
    fake.set_delay(millis(30));
    until("policy in force", async || {
        _ = limiter.check().await;
        limiter.status().policy.is_some()
    })
    .await;
    fake.set_processes(4);
    until("the number of processes", async || {
        _ = limiter.check().await;
        limiter.status().processes == 4
    })
    .await;
    assert!(limiter.status().policy.is_some(), "a beat that is late for a check does not make the server decide");
}

/// All of its takes would otherwise be admitted at once when it runs again.
#[tokio::test]
async fn reply_that_waits_for_a_stopped_process_is_late() {
    let fake = Fake::start(1_000);
    let millis = Duration::from_millis;
    let builder = builder(&fake.url()).deadline(millis(300)).leasing(Leasing::Never).when_down(WhenDown::Closed);
    let limiter = builder.build().await.unwrap();
    assert!(limiter.check().await.is_ok());
    fake.set_delay(millis(50));
    let check = |limiter: RedisLimiter| async move { limiter.check().await.is_ok() };
    let checks: Vec<_> = (0..3).map(|_| tokio::spawn(check(limiter.clone()))).collect();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    std::thread::sleep(millis(700));
    for check in checks {
        assert!(!check.await.unwrap(), "the deadline has passed");
    }
    assert!(fake.tokens() < 999, "the server had decided in time");
}

/// Sends six checks, stops the process beyond their deadline, and returns how many are allowed.
async fn allowed_after_a_stop(limiter: &RedisLimiter) -> usize {
    let check = |limiter: RedisLimiter| async move { limiter.check().await.is_ok() };
    let checks: Vec<_> = (0..6).map(|_| tokio::spawn(check(limiter.clone()))).collect();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    std::thread::sleep(Duration::from_secs(1));
    let mut allowed = 0;
    for check in checks {
        allowed += usize::from(check.await.unwrap());
    }
    allowed
}

/// The replies have come in time, and the process has them when it runs again.
#[tokio::test]
async fn stop_of_the_process_is_no_failure_of_the_server() {
    let fake = Fake::start(1_000);
    let millis = Duration::from_millis;
    let builder = builder(&fake.url()).deadline(millis(600)).leasing(Leasing::Never).when_down(WhenDown::Closed);
    let limiter = builder.build().await.unwrap();
    assert!(limiter.check().await.is_ok());
    fake.set_delay(millis(50));
    limiter.charge(7);
    assert_eq!(allowed_after_a_stop(&limiter).await, 0, "the deadline has passed");
    let (status, counts) = (limiter.status(), limiter.counts());
    assert_eq!((status.policy, status.breaker, counts.failures), (None, State::Closed, 0));
    fake.set_delay(Duration::ZERO);
    for _ in 0..3 {
        assert!(limiter.check().await.is_ok());
    }
    assert_eq!(fake.calls().iter().map(fake::Call::charge).sum::<u64>(), 7, "a reply says that it is booked");
    assert_eq!(fake.calls().iter().map(fake::Call::refund).sum::<u64>(), 6, "what the policy denied is given back");
}

/// A late reply decides nothing, so the policy's share counts from an earlier one.
#[tokio::test]
async fn stop_of_the_process_leaves_it_its_share() {
    let fake = Fake::start(1_000);
    let builder = builder(&fake.url()).quota(Quota::per_second(1_000)).deadline(Duration::from_millis(600));
    let limiter = builder.leasing(Leasing::Never).build().await.unwrap();
    assert!(limiter.check().await.is_ok());
    fake.set_delay(Duration::from_millis(50));
    assert_eq!(allowed_after_a_stop(&limiter).await, 6);
    assert!(limiter.check().await.is_ok());
    assert_eq!(fake.calls().iter().map(fake::Call::refund).sum::<u64>(), 0, "the server has counted them");
}

/// Each key that was allowed something has a charge to tell, for as long as it is kept.
#[tokio::test]
async fn flood_of_keys_leaves_no_tasks_while_the_server_is_gone() {
    let fake = Fake::start(1_000_000);
    let limits = builder(&fake.url()).quota(Quota::per_second(1_000)).capacity(64).build_keyed().await.unwrap();
    assert!(limits.check("first").await.is_ok());
    fake.set(Mode::Close);
    until("policy in force", async || {
        _ = limits.check("first").await;
        limits.status().policy.is_some()
    })
    .await;
    let mut allowed = 0;
    for key in 0..500 {
        if limits.check(&key).await.is_err() {
            // Its share begins empty.
            tokio::time::sleep(Duration::from_millis(2)).await;
            allowed += u32::from(limits.check(&key).await.is_ok());
        }
    }
    assert!(allowed > 250, "{allowed}");
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    until("tasks of the keys that are kept, and few more", async || tasks() <= 64 + 10).await;
}

/// An evicted key is forgotten with what it has spent, so keys that come after it begin without tokens.
#[tokio::test]
async fn key_that_was_evicted_while_the_server_is_gone_has_no_second_share() {
    let fake = Fake::start(1_000_000);
    let limits = builder(&fake.url()).quota(Quota::per_second(1_000)).capacity(1).build_keyed().await.unwrap();
    fake.set(Mode::Close);
    until("policy in force", async || {
        _ = limits.check("first").await;
        limits.status().policy.is_some()
    })
    .await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let (begun, mut allowed) = (Instant::now(), 0);
    for _ in 0..20 {
        for key in ["one", "other"] {
            allowed += u64::from(limits.check_n(key, 1_000).await.is_ok());
        }
    }
    assert!((1..=4 + 2 * begun.elapsed().as_secs()).contains(&allowed), "{allowed} times the burst");
}

/// Its last task would otherwise work on for as long as the server is gone.
#[tokio::test]
async fn limiter_that_is_dropped_while_the_server_is_gone_leaves_no_task() {
    let fake = Fake::start(1_000_000);
    let limiter = builder(&fake.url()).quota(Quota::per_second(1_000)).build().await.unwrap();
    assert!(limiter.check().await.is_ok());
    fake.set(Mode::Close);
    until("policy in force", async || {
        _ = limiter.check().await;
        limiter.status().policy.is_some()
    })
    .await;
    until("a charge to be told", async || limiter.check().await.is_ok()).await;
    drop(limiter);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    until("no task", async || tasks() == 0).await;
}

#[tokio::test]
async fn listener_hears_of_the_policy_and_of_the_servers_return() {
    let fake = Fake::start(1_000);
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&events);
    let listener = move |event: &RedisEvent| heard.lock().unwrap().push(event.to_string());
    let limiter = builder(&fake.url()).when_down(WhenDown::Open).on_event(listener).build().await.unwrap();
    fake.set(Mode::Close);
    let has = |text: &str| events.lock().unwrap().iter().any(|event: &String| event.starts_with(text));
    until("the policy", async || {
        _ = limiter.check().await;
        has("policy open in force")
    })
    .await;
    fake.set(Mode::Answer);
    until("the return", async || has("server back after")).await;
}

#[tokio::test]
async fn build_says_why_there_is_no_server() {
    let url = refused();
    let error = builder(&url).build().await.unwrap_err();
    assert!(matches!(error, RedisLimiterError::Unreachable { .. }), "{error}");
    let address = url.strip_prefix("redis://").unwrap().trim_end_matches('/');
    assert!(error.to_string().starts_with(&format!("cannot connect to {address}: ")), "{error}");
    let fake = Fake::start(1);
    fake.set(Mode::Silent);
    let begun = Instant::now();
    let error = builder(&fake.url()).build().await.unwrap_err();
    assert!(matches!(error, RedisLimiterError::Unreachable { .. }) && begun.elapsed() < LONG, "{error}");
}

#[tokio::test]
async fn build_waits_no_longer_than_the_connect_timeout() {
    let fake = Fake::start(1);
    fake.refuse("SCRIPT", "LOADING it is loading");
    let build = builder(&fake.url()).connect_timeout(Duration::from_secs(4)).build();
    let silence = async {
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        fake.set(Mode::Silent);
    };
    // An attempt that began at 3.5 s and had a whole timeout would end at 7.5 s. A timeout looks at the future first, so a machine
    // that stops for seconds makes no difference: the timer of the build has ended before this one.
    let both = async { tokio::join!(build, silence).0 };
    let limiter = tokio::time::timeout(Duration::from_millis(6_500), both).await.expect("the build ends first");
    assert!(matches!(limiter, Err(RedisLimiterError::Unreachable { .. })), "{limiter:?}");
}

#[tokio::test]
async fn server_that_refuses_is_asked_once_and_named_with_its_reason() {
    let errors = [
        ("AUTH", "WRONGPASS invalid password", "the server does not accept the user name and the password"),
        ("SELECT", "ERR DB index is out of range", "the server says ERR DB index is out of range"),
        ("SCRIPT", "NOPERM no permissions to run it", "the server says NOPERM no permissions to run it"),
        ("SCRIPT", "NOAUTH Authentication required.", "the server says NOAUTH Authentication required."),
    ];
    for (command, error, cause) in errors {
        let fake = Fake::start(1);
        fake.refuse(command, error);
        let url = format!("redis://me:s3cret@{}/99", fake.address());
        let error = builder(&url).connect_timeout(Duration::from_secs(5)).build().await.unwrap_err();
        assert!(matches!(error, RedisLimiterError::Refused { .. }), "{error}");
        assert_eq!(error.to_string(), format!("cannot connect to {}: {cause}", fake.address()));
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        assert_eq!(fake.accepted(), 1);
    }
    let fake = Fake::start(1);
    for error in ["LOADING it is loading", "ERR max number of clients reached"] {
        fake.refuse("SCRIPT", error);
        let error = builder(&fake.url()).build().await.unwrap_err();
        assert!(matches!(error, RedisLimiterError::Unreachable { .. }), "it may be better a moment later: {error}");
    }
}

#[tokio::test]
async fn server_that_evicts_is_refused_unless_that_is_accepted() {
    let fake = Fake::with_policy(10, "allkeys-lru");
    let error = builder(&fake.url()).build().await.unwrap_err();
    assert!(matches!(error, RedisLimiterError::Eviction { ref policy } if policy == "allkeys-lru"), "{error}");
    assert!(builder(&fake.url()).accept_eviction().build().await.unwrap().check().await.is_ok());
    let lazy = builder(&fake.url()).when_down(WhenDown::Closed).build_lazy().unwrap();
    until("the reason", async || {
        _ = lazy.check().await;
        lazy.status().last_error.is_some_and(|error| error.message.contains("allkeys-lru"))
    })
    .await;
    assert!(lazy.check().await.is_err(), "it is not used");
    let secretive = Fake::with_policy(10, "");
    assert!(builder(&secretive.url()).build().await.unwrap().check().await.is_ok());
}

#[test]
fn without_a_runtime_the_policy_decides() {
    for (policy, allowed) in [(WhenDown::Open, true), (WhenDown::Closed, false)] {
        let quota = Quota::per_second(100_000);
        let limiter = builder(&refused()).quota(quota).when_down(policy).build_lazy().unwrap();
        // So many that it would lease.
        for _ in 0..200 {
            let mut check = pin!(limiter.check());
            let Poll::Ready(answer) = check.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                panic!("{policy} decides at once")
            };
            assert_eq!(answer.is_ok(), allowed);
        }
        let status = limiter.status();
        assert_eq!(status.policy, Some(policy));
        assert!(status.last_error.is_some_and(|error| error.message.contains("runtime")));
    }
}

#[test]
fn build_without_a_runtime_is_an_error() {
    let mut build = pin!(builder(&refused()).build());
    let Poll::Ready(Err(error)) = build.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it cannot connect")
    };
    assert!(matches!(error, RedisLimiterError::NoRuntime));
    assert_eq!(error.to_string(), "a limiter connects on a runtime of tokio, and there is none");
}

/// The cause of an error is its source, so that a program can look for it.
#[tokio::test]
async fn errors_of_builds_have_their_causes() {
    let sources = |error: &RedisLimiterError| successors(error.source(), |error| (*error).source()).count();
    let fake = Fake::start(1);
    let error = builder(&refused()).build().await.unwrap_err();
    assert!(matches!(error, RedisLimiterError::Unreachable { .. }) && sources(&error) > 0, "{error}");
    fake.refuse("AUTH", "WRONGPASS invalid password");
    let url = format!("redis://me:secret@{}", fake.address());
    let error = builder(&url).build().await.unwrap_err();
    assert!(matches!(error, RedisLimiterError::Refused { .. }) && sources(&error) > 0, "{error}");
    let slow = Quota::per(1, Duration::from_secs(20 * 366 * 24 * 3600)).unwrap();
    let error = builder(&fake.url()).also(slow).build().await.unwrap_err();
    assert!(matches!(error, RedisLimiterError::Quota { .. }) && sources(&error) > 0, "{error}");
    assert!(error.to_string().starts_with("quota 1, "), "{error}");
    assert_eq!(sources(&RedisLimiterError::NoRuntime), 0);
}
