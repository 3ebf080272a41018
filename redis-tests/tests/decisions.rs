//! A limit as one process sees it: answers, usage, refunds, charges, several quotas, errors.

use damper_core::Quota;
use damper_redis::{AfterLoss, Leasing, RedisLimiter, RedisLimiterBuilder, RedisLimiterError, WhenDown};
use damper_redis_tests::{Fault, Proxy, RedisServer};
use std::time::{Duration, Instant};

/// Ten tokens that do not come back within a test.
const TEN: Quota = Quota::per_hour(10);

fn builder(url: &str) -> RedisLimiterBuilder {
    let deadline = Duration::from_secs(2);
    RedisLimiter::connect(url).name("decisions").quota(TEN).when_down(WhenDown::Closed).deadline(deadline)
}

/// A limiter whose limit is full.
async fn limiter(builder: RedisLimiterBuilder) -> RedisLimiter {
    builder.clone().mark_deployed().await.expect("the server answers");
    builder.build().await.expect("the server answers")
}

async fn remaining(limiter: &RedisLimiter) -> u32 {
    limiter.usage().await.expect("the server answers").remaining()
}

#[tokio::test]
async fn checks_take_what_they_ask_for_and_a_second_process_sees_it() {
    let server = RedisServer::start();
    let one = limiter(builder(&server.url())).await;
    let other = limiter(builder(&server.url())).await;
    assert!(one.check().await.is_ok());
    assert!(other.check_n(4).await.is_ok());
    assert_eq!((remaining(&one).await, remaining(&other).await), (5, 5));
    let denied = one.check_n(6).await.expect_err("there are 5");
    let wait = denied.retry_after().expect("it is worth waiting");
    // A token takes six minutes.
    assert!(wait > Duration::from_secs(350) && wait <= Duration::from_secs(360), "{wait:?}");
    let denied = one.check_n(11).await.expect_err("it exceeds the burst");
    assert!(denied.exceeds_burst() && denied.retry_after().is_none());
    assert!(one.check_n(0).await.is_ok(), "nothing is always allowed");
    assert!(one.check_n(5).await.is_ok());
    assert!(other.check().await.is_err());
}

#[tokio::test]
async fn settled_refunded_and_charged_tokens_are_seen_by_all() {
    let server = RedisServer::start();
    let one = limiter(builder(&server.url())).await;
    let other = limiter(builder(&server.url())).await;
    one.reserve(8).await.expect("there are 10").settle(3);
    assert_eq!((remaining(&one).await, remaining(&other).await), (7, 7), "5 of 8 came back");
    one.reserve(2).await.expect("there are 7").settle(4);
    assert_eq!((remaining(&one).await, remaining(&other).await), (3, 3), "2 more were charged");
    other.check_n(3).await.expect("there are 3");
    other.refund(2);
    assert_eq!((remaining(&other).await, remaining(&one).await), (2, 2));
    one.charge(6);
    assert_eq!(remaining(&one).await, 0);
    assert!(other.check().await.is_err(), "the limit is 4 in debt");
    drop(one.reserve(1).await);
    one.reset().await.expect("the server answers");
    assert_eq!((remaining(&one).await, remaining(&other).await), (10, 10));
    drop(one.reserve(4).await.expect("it is full"));
    assert_eq!(remaining(&one).await, 6, "a reservation that is dropped counts as used");
}

#[tokio::test]
async fn refund_never_makes_a_limit_more_than_full() {
    let server = RedisServer::start();
    let one = limiter(builder(&server.url())).await;
    one.check_n(3).await.expect("it is full");
    one.refund(u32::MAX);
    one.refund(u32::MAX);
    assert_eq!(remaining(&one).await, 10);
    assert!(one.check_n(10).await.is_ok());
    assert!(one.check().await.is_err());
}

#[tokio::test]
async fn set_of_quotas_takes_from_all_or_none() {
    let server = RedisServer::start();
    let both = limiter(builder(&server.url()).also(Quota::per_hour(4))).await;
    assert_eq!(both.quotas().len(), 2);
    assert!(both.check_n(3).await.is_ok());
    // The second quota has one token left; the first must not lose any.
    assert!(both.check_n(2).await.is_err());
    assert!(both.check().await.is_ok());
    let only_first = limiter(builder(&server.url())).await;
    println!("{:?}", only_first.usage().await);
    assert_eq!(remaining(&both).await, 0, "the usage is that of the stricter one");
}

#[tokio::test]
async fn keys_have_limits_of_their_own_whatever_they_contain() {
    let server = RedisServer::start();
    builder(&server.url()).mark_deployed().await.expect("the server answers");
    let keyed = builder(&server.url()).leasing(Leasing::Never).build_keyed().await.expect("the server answers");
    let long = "x".repeat(100_000);
    let longer = "x".repeat(100_001);
    let keys = ["", "a", "b", "a}", "{a}", "}{", "%", "%7D", "\0", "\r\n", "tenant 1", "ключ", &long, &longer];
    for key in keys {
        assert!(keyed.check_n(key, 10).await.is_ok(), "the first of {:?}", &key[..key.len().min(10)]);
        assert!(keyed.check(key).await.is_err(), "the second of {:?}", &key[..key.len().min(10)]);
    }
    keyed.reset("a").await.expect("the server answers");
    assert_eq!(keyed.usage("a").await.expect("the server answers").remaining(), 10);
    assert_eq!(keyed.usage("b").await.expect("the server answers").remaining(), 0);
    let reservation = keyed.reserve("a", 9).await.expect("it is full");
    reservation.settle(2);
    assert_eq!(keyed.usage("a").await.expect("the server answers").remaining(), 8);
    keyed.charge("a", 3);
    assert_eq!(keyed.usage("a").await.expect("the server answers").remaining(), 5);
    keyed.refund("a", 1);
    assert_eq!(keyed.usage("a").await.expect("the server answers").remaining(), 6);
}

#[tokio::test]
async fn unlimited_asks_no_server() {
    let server = RedisServer::start();
    let limiter = builder(&server.url()).quota(Quota::UNLIMITED).build().await.expect("the server answers");
    server.reset_calls();
    for _ in 0..1_000 {
        assert!(limiter.check().await.is_ok());
    }
    assert_eq!(server.calls().scripts(), 0);
}

#[tokio::test]
async fn builder_says_what_is_wrong() {
    let server = RedisServer::start();
    let url = server.url();
    let error = |builder: RedisLimiterBuilder| async move { builder.build().await.expect_err("it cannot be built") };
    assert!(matches!(error(builder("http://127.0.0.1/")).await, RedisLimiterError::Url { .. }));
    assert!(matches!(error(RedisLimiter::connect(&url)).await, RedisLimiterError::NoQuota));
    assert!(matches!(error(builder(&url).name("")).await, RedisLimiterError::Name { .. }));
    assert!(matches!(error(builder(&url).deadline(Duration::ZERO)).await, RedisLimiterError::OutOfRange(_)));
    let no_urls: [&str; 0] = [];
    assert!(matches!(error(RedisLimiter::cluster(no_urls).quota(TEN)).await, RedisLimiterError::NoAddress));
    let many = (0..8).fold(builder(&url), |builder, _| builder.also(TEN));
    assert!(matches!(error(many).await, RedisLimiterError::TooManyQuotas { quotas: 9 }));
}

#[tokio::test]
async fn server_that_evicts_is_refused_unless_accepted() {
    let server = RedisServer::with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let error = builder(&server.url()).build().await.expect_err("it would forget limits");
    assert!(matches!(&error, RedisLimiterError::Eviction { policy } if policy == "allkeys-lru"), "{error}");
    let accepted = builder(&server.url()).accept_eviction();
    assert!(limiter(accepted).await.check().await.is_ok());
    let lazy = builder(&server.url()).build_lazy().expect("it asks no server");
    assert!(lazy.check().await.is_err(), "the policy decides, for the server is not used");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(lazy.check().await.is_err());
    let last = lazy.status().last_error.expect("it says why");
    assert!(last.message.contains("allkeys-lru"), "{last}");
}

/// As the docs of the crate say, section "On the server".
#[tokio::test]
async fn key_takes_232_bytes_until_its_limit_is_full() {
    let server = RedisServer::start();
    let of_key = |quota| builder(&server.url()).quota(quota).after_loss(AfterLoss::Full).leasing(Leasing::Never);
    let used = || {
        let line = server
            .ask::<String>(&["INFO", "memory"])
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:").map(str::to_owned));
        line.and_then(|number| number.parse::<u64>().ok()).expect("the server says it")
    };
    let slow = of_key(TEN).capacity(10).build_keyed().await.expect("the server answers");
    let before = used();
    for key in 0..10_000 {
        assert!(slow.check(&format!("tenant-{key:09}")).await.is_ok());
    }
    let bytes = (used() - before) / 10_000;
    println!("{bytes} bytes with the server's tables");
    assert!((200..=260).contains(&bytes), "{bytes}");
    server.flush_all();

    let keyed = of_key(Quota::per_second(10)).build_keyed().await.expect("the server answers");
    let name = "damper:{tenant-000000042}:decisions:0";
    assert_eq!(server.ask::<u64>(&["EXISTS", name]), 0);
    assert!(keyed.check_n("tenant-000000042", 10).await.is_ok());
    let left: u64 = server.ask(&["PTTL", name]);
    assert!(left <= 1_003, "{left} ms: the limit is full after a second");
    tokio::time::sleep(Duration::from_millis(1_010)).await;
    assert_eq!(server.ask::<u64>(&["EXISTS", name]), 0, "a full limit has no key");
}

/// A server that is full decides nothing, for any limit: the policy does.
#[tokio::test]
async fn flood_of_keys_fills_the_server_and_leaves_other_limits_to_the_policy() {
    let server = RedisServer::with(&["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"]);
    let of_key = |name: &str| builder(&server.url()).name(name).after_loss(AfterLoss::Full).leasing(Leasing::Never);
    let victim = of_key("victim").quota(Quota::per_second(1_000)).build().await.expect("the server answers");
    assert!(victim.check().await.is_ok());
    let flood = of_key("flood").capacity(100).build_keyed().await.expect("the server answers");
    let mut keys = 0;
    while flood.check(&format!("key-{keys}")).await.is_ok() {
        keys += 1;
        assert!(keys < 100_000, "it has room for all of them");
    }
    println!("{keys} keys fill it");
    assert!(victim.check().await.is_err(), "closed");
    assert_eq!(victim.status().decided_by_policy, 1);
    let last = victim.status().last_error.expect("it says why");
    assert!(last.message.contains("OOM"), "{last}");
}

/// As the docs of the crate list them.
const PERMISSIONS: [&str; 13] = [
    "+evalsha",
    "+eval",
    "+script|load",
    "+time",
    "+get",
    "+mget",
    "+set",
    "+zadd",
    "+zrem",
    "+zremrangebyscore",
    "+zcard",
    "+pexpire",
    "+config|get",
];

#[tokio::test]
async fn user_needs_the_documented_permissions_and_build_says_if_one_is_missing() {
    let server = RedisServer::start();
    let as_user = |name: &str| builder(&format!("redis://{name}:secret@{}/", server.address()));
    let add = |name: &str, keys: &str, permissions: &[&str]| {
        let user = ["ACL", "SETUSER", name, "on", ">secret", keys];
        server.ask::<()>(&[&user[..], permissions].concat());
    };
    add("limits", "~damper:*", &PERMISSIONS);
    let limiter = as_user("limits").after_loss(AfterLoss::Full).build().await.expect("these are enough");
    assert!(limiter.check().await.is_ok());
    limiter.reset().await.expect("these are enough");
    assert_eq!((limiter.status().policy, limiter.status().processes), (None, 1));

    let refused = async |name: &str| {
        let error = as_user(name).build().await.expect_err("it could not decide");
        assert!(matches!(error, RedisLimiterError::Refused { .. }), "{name}: {error}");
        println!("{name}: {error}");
    };
    add("others", "~other:*", &PERMISSIONS);
    refused("others").await;
    // A user that can run a script by its digest needs its source only where the server has forgotten it.
    for (index, missing) in PERMISSIONS.iter().enumerate() {
        if ["+eval", "+zrem", "+config|get"].contains(missing) {
            continue;
        }
        let rest: Vec<_> = PERMISSIONS.iter().filter(|one| *one != missing).copied().collect();
        println!("without {missing}");
        add(&format!("user-{index}"), "~damper:*", &rest);
        server.flush_all();
        refused(&format!("user-{index}")).await;
    }
}

#[tokio::test]
async fn missing_server_is_an_error_in_time_or_a_policy() {
    let mut server = RedisServer::start();
    let builder =
        builder(&server.url()).deadline(Duration::from_millis(20)).connect_timeout(Duration::from_millis(300));
    server.kill();
    let start = Instant::now();
    let error = builder.clone().build().await.expect_err("there is no server");
    println!("{error} after {:?}", start.elapsed());
    assert!(matches!(error, RedisLimiterError::Unreachable { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());

    let lazy = builder.when_down(WhenDown::Open).build_lazy().expect("it asks no server");
    let start = Instant::now();
    assert!(lazy.check().await.is_ok(), "the policy allows it");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(lazy.status().policy, Some(WhenDown::Open));
    server.restart();
    let back = Instant::now();
    while lazy.status().policy.is_some() && back.elapsed() < Duration::from_secs(5) {
        _ = lazy.check().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("the server decides after {:?}", back.elapsed());
    assert!(back.elapsed() < Duration::from_millis(1_500), "{:?}", back.elapsed());
}

#[tokio::test]
async fn address_that_swallows_connections_is_given_up_in_time() {
    let server = RedisServer::start();
    let proxy = Proxy::new(server.address());
    proxy.set(Fault::Blackhole);
    let start = Instant::now();
    let error = builder(&proxy.url()).connect_timeout(Duration::from_millis(300)).build().await;
    assert!(matches!(error, Err(RedisLimiterError::Unreachable { .. })), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test]
async fn first_deployment_is_full_and_an_unmarked_server_is_empty() {
    let server = RedisServer::start();
    let unmarked = builder(&server.url()).build().await.expect("the server answers");
    assert!(unmarked.check().await.is_err(), "it may have lost a limit that was used up");
    server.flush_all();
    let marked = limiter(builder(&server.url())).await;
    assert!(marked.check_n(10).await.is_ok());
}
