//! Limits on a cluster of three masters.

use damper_core::Quota;
use damper_core::breaker::State;
use damper_redis::{KeyedRedisLimiter, Leasing, RedisLimiter, WhenDown};
use damper_redis_tests::{RedisCluster, RedisServer, exclusive};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const BURST: u32 = 3;

/// A deadline that no call to a server that runs misses: a timeout counts as taken.
const PATIENT: Duration = Duration::from_secs(2);

/// Three tokens a key that do not come back within a test.
async fn tenants(cluster: &RedisCluster, deadline: Duration) -> KeyedRedisLimiter {
    let builder = || {
        RedisLimiter::cluster(cluster.urls())
            .name("tenants")
            .quota(Quota::per_hour(BURST))
            .leasing(Leasing::Never)
            .when_down(WhenDown::Closed)
            .deadline(deadline)
            .connect_timeout(Duration::from_secs(10))
    };
    builder().mark_deployed().await.expect("the cluster answers");
    builder().build_keyed().await.expect("the cluster answers")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subjects_spread_over_the_masters_and_each_has_its_burst() {
    let _machine = exclusive();
    let cluster = RedisCluster::start();
    let tenants = tenants(&cluster, PATIENT).await;
    for number in 0..120 {
        let key = format!("tenant-{number}");
        for check in 0..=BURST {
            let allowed = tenants.check(&*key).await.is_ok();
            assert_eq!(allowed, check < BURST, "check {check} of {key}");
        }
    }
    let scripts: Vec<u64> = cluster.masters().iter().map(|master| master.calls().scripts()).collect();
    // Beside the markers.
    let limits = |master: &RedisServer| master.ask::<Vec<String>>(&["KEYS", "*tenants*"]).len();
    let keys: Vec<usize> = cluster.masters().iter().map(limits).collect();
    println!("scripts run by each master: {scripts:?}, limits: {keys:?}");
    // 120 subjects over thirds: fewer than 20 in one has a chance below 1 in 10^5.
    assert!(keys.iter().all(|keys| *keys >= 20) && scripts.iter().all(|scripts| *scripts >= 80));
    println!("{:?}", tenants.counts());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slot_that_has_moved_is_followed_with_its_debt() {
    let _machine = exclusive();
    let cluster = RedisCluster::start();
    let tenants = tenants(&cluster, PATIENT).await;
    for number in 0..10 {
        let key = format!("moving-{number}");
        tenants.check_n(&*key, BURST - 1).await.expect("the burst is there");
        let find = |master: &RedisServer| master.ask::<Vec<String>>(&["KEYS", &format!("*{key}*")]);
        let stored = cluster.masters().iter().flat_map(find).next().expect("the limit is stored");
        cluster.move_slot_of(&stored);
        if let Err(refusal) = tenants.check(&*key).await {
            panic!("the last token of {key}, on the master that has it now: {refusal:?}, {:?}", tenants.status());
        }
        assert!(tenants.check(&*key).await.is_err(), "the debt of {key} has moved with it");
    }
    println!("{:?}", tenants.status());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_masters_go_on_when_one_is_gone() {
    let _machine = exclusive();
    let cluster = RedisCluster::start();
    for master in cluster.masters() {
        master.set_config("cluster-require-full-coverage", "no");
    }
    let tenants = tenants(&cluster, Duration::from_millis(200)).await;
    for number in 0..60 {
        tenants.check(&format!("tenant-{number}")).await.expect("the burst is there");
    }
    cluster.masters()[2].pause();
    let (mut served, mut refused) = (0, None);
    for number in 0..60 {
        // A check waits for the deadline if the paused master has its subject.
        let key = format!("tenant-{number}");
        match tenants.check(&*key).await {
            Ok(_) => served += 1,
            Err(_) => refused = Some(key),
        }
    }
    // Enough failures of one shard to open its breaker.
    let silent = refused.expect("a master had a third of the subjects");
    for _ in 0..6 {
        _ = tenants.check(&*silent).await;
    }
    assert!(tenants.status().policy.is_some());
    cluster.masters()[2].resume();
    println!("{served} of 60 subjects were served while one of three masters was stopped");
    // No call asks the shards that were silent.
    let (begun, patience) = (Instant::now(), Duration::from_secs(30));
    while tenants.status().policy.is_some() && begun.elapsed() < patience {
        sleep(Duration::from_millis(100)).await;
    }
    println!("the server was in charge again after {:?}", begun.elapsed());
    assert_eq!((tenants.status().policy, tenants.status().breaker), (None, State::Closed));
    let mut back = 0;
    for number in 0..60 {
        back += u32::from(tenants.check(&format!("tenant-{number}")).await.is_ok());
    }
    assert!(served >= 20, "{served} of 60 subjects were served while one of three masters was stopped");
    assert!(back >= 40, "{back} of 60 subjects are served again");
}
