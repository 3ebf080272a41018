//! Limiters on a real Redis: leases, heartbeats, losses, and the first deployment.

use damper_core::Quota;
use damper_redis::{AfterLoss, RedisEvent, RedisLimiter, RedisLimiterBuilder, WhenDown};
use damper_redis_tests::RedisServer;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::sleep;

const FAST: Quota = Quota::per_second(20_000);

fn builder(server: &RedisServer) -> RedisLimiterBuilder {
    let deadline = Duration::from_secs(2);
    RedisLimiter::connect(server.url()).name("limiter").quota(FAST).when_down(WhenDown::Closed).deadline(deadline)
}

/// Tries again until it is so. Fails after ten seconds, which no machine is too slow for.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if is_so().await {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} within ten seconds");
}

/// Checks until there is a lease.
async fn lease(limiter: &RedisLimiter) {
    until("a lease", async || {
        for _ in 0..50 {
            _ = limiter.check().await;
        }
        limiter.status().leased > 0
    })
    .await;
}

#[tokio::test]
async fn hot_limit_is_leased_and_few_commands_bring_many_tokens() {
    let server = RedisServer::start();
    builder(&server).mark_deployed().await.expect("the server answers");
    let limiter = builder(&server).build().await.expect("the server answers");
    lease(&limiter).await;
    let before = limiter.counts();
    let mut allowed = 0;
    for _ in 0..500 {
        for _ in 0..20 {
            allowed += u64::from(limiter.check().await.is_ok());
        }
        sleep(Duration::from_millis(1)).await;
    }
    let commands = limiter.counts().commands - before.commands;
    assert!(allowed >= 30 * commands, "{allowed} by {commands} commands");
    let by_lease = limiter.counts().tokens_by_lease - before.tokens_by_lease;
    assert!(by_lease * 10 >= allowed * 9, "{by_lease} of {allowed}");
}

#[tokio::test]
async fn lease_comes_back_when_the_limiter_is_dropped() {
    let server = RedisServer::start();
    builder(&server).mark_deployed().await.expect("the server answers");
    // It refills so slowly that only a return explains more tokens.
    let quota = Quota::per_hour(1_000_000);
    let one = builder(&server).quota(quota).build().await.expect("the server answers");
    let other = builder(&server).quota(quota).build().await.expect("the server answers");
    lease(&one).await;
    let leased = one.status().leased;
    let remaining = async || other.usage().await.expect("the server answers").remaining();
    let before = remaining().await;
    drop(one);
    until("the lease is back", async || u64::from(remaining().await) >= u64::from(before) + leased / 2).await;
}

#[tokio::test]
async fn processes_are_counted_as_they_come_and_go() {
    let server = RedisServer::start();
    let one = builder(&server).build().await.expect("the server answers");
    until("itself", async || one.status().processes == 1).await;
    let others = [
        builder(&server).build().await.expect("the server answers"),
        builder(&server).build().await.expect("the server answers"),
    ];
    until("the others", async || one.status().processes == 3).await;
    let elsewhere = builder(&server).name("another").build().await.expect("the server answers");
    until("none of another limit", async || elsewhere.status().processes == 1).await;
    drop(others);
    until("their end", async || one.status().processes == 1).await;
}

#[tokio::test]
async fn loss_of_the_servers_memory_is_noticed_once() {
    let server = RedisServer::start();
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&events);
    let listener = move |event: &RedisEvent| heard.lock().expect("no panic").push(event.to_string());
    let builder = builder(&server).after_loss(AfterLoss::Empty).on_event(listener);
    builder.clone().mark_deployed().await.expect("the server answers");
    let limiter = builder.quota(Quota::per_hour(100)).build().await.expect("the server answers");
    limiter.check_n(60).await.expect("it is full");
    assert_eq!(limiter.counts().losses, 0);
    sleep(Duration::from_millis(1_500)).await;
    server.flush_all();
    assert!(limiter.check_n(30).await.is_err(), "a lost limit is empty");
    until("the loss", async || limiter.counts().losses == 1).await;
    assert_eq!(events.lock().expect("no panic").iter().filter(|event| event.contains("lost its memory")).count(), 1);
}

#[tokio::test]
async fn marking_a_server_again_hides_no_loss() {
    let server = RedisServer::start();
    let quota = Quota::per_hour(100);
    let limiter = builder(&server).quota(quota).build().await.expect("the server answers");
    assert!(limiter.check().await.is_err(), "an unmarked server has lost its memory");
    builder(&server).mark_deployed().await.expect("the server answers");
    let limiter = builder(&server).quota(quota).build().await.expect("the server answers");
    assert!(limiter.check().await.is_err(), "the marker of the loss stays");
}

#[tokio::test]
async fn hostile_keys_are_limits_of_their_own() {
    let server = RedisServer::start();
    builder(&server).mark_deployed().await.expect("the server answers");
    let limits = builder(&server).quota(Quota::per_hour(1)).build_keyed().await.expect("the server answers");
    let keys: [&[u8]; 9] =
        [b"", b"}", b"{}", b"a}b", b"%", b"a:b", b"a\r\nFLUSHALL\r\n", &[0, 255, 128], &[b'x'; 10_000]];
    for key in keys {
        assert!(limits.check(key).await.is_ok(), "{key:?}");
    }
    for key in keys {
        assert!(limits.check(key).await.is_err(), "{key:?}");
    }
}
