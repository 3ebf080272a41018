//! A hundred clients that lose their server at once.

use crate::{RECOVERY, leased};
use damper_redis::RedisLimiter;
use damper_redis_tests::{Load, Proxy, RedisServer, exclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::sleep;

const CLIENTS: usize = 100;

/// Checks until the end; counts the checks, and keeps the slowest one in µs.
async fn check(limiter: RedisLimiter, ended: Arc<AtomicBool>, slowest: Arc<AtomicU64>) -> u64 {
    let mut checks = 0;
    // ORDERING: Relaxed throughout, a flag and a figure that publish nothing.
    while !ended.load(Ordering::Relaxed) {
        let start = Instant::now();
        _ = limiter.check().await;
        slowest.fetch_max(start.elapsed().as_micros() as u64, Ordering::Relaxed);
        checks += 1;
        sleep(Duration::from_millis(20)).await;
    }
    checks
}

#[test]
fn hundred_clients_come_back_within_a_second_and_not_all_at_once() {
    let _machine = exclusive();
    let mut server = RedisServer::start();
    let proxy = Proxy::new(server.address());
    // Its 5,000 checks a second are within the rate, and each client's are too few for a lease.
    let load =
        Load { deadline: Duration::from_millis(50), ..Load { tokens: 10_000, burst: 10_000, ..leased(&proxy.url()) } };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads start");
    let (ended, slowest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    runtime.block_on(async {
        let mut limiters = Vec::new();
        for _ in 0..CLIENTS {
            limiters.push(load.builder().build_lazy().expect("the load is valid"));
        }
        let mut checks = JoinSet::new();
        for limiter in &limiters {
            checks.spawn(check(limiter.clone(), Arc::clone(&ended), Arc::clone(&slowest)));
        }
        sleep(Duration::from_secs(3)).await;
        let on_policy = |limiters: &[RedisLimiter]| limiters.iter().filter(|one| one.status().policy.is_some()).count();
        assert_eq!(on_policy(&limiters), 0, "all are connected");
        let counted: Vec<u32> = limiters.iter().map(|limiter| limiter.status().processes).collect();
        println!("processes as counted: {:?} to {:?}", counted.iter().min(), counted.iter().max());

        server.kill();
        let before = proxy.accepted();
        let killed = Instant::now();
        sleep(Duration::from_secs(10)).await;
        assert_eq!(on_policy(&limiters), CLIENTS, "the policy is in force for all");
        let attempts = proxy.accepted() - before;
        println!("{attempts} attempts to connect in {:?}", killed.elapsed());

        server.restart();
        let back = Instant::now();
        while on_policy(&limiters) > 0 && back.elapsed() < Duration::from_secs(10) {
            sleep(Duration::from_millis(5)).await;
        }
        let recovered = back.elapsed();
        println!("all {CLIENTS} clients are back after {recovered:?}");
        assert!(recovered <= RECOVERY + Duration::from_millis(500), "it took {recovered:?}");
        // A client tries every 20 to 200 ms, as spread as chance has it.
        assert!(attempts <= 100 * CLIENTS as u64 * 5, "{attempts} attempts are a storm");
        // ORDERING: Relaxed, a flag that publishes nothing.
        ended.store(true, Ordering::Relaxed);
        let checks: u64 = checks.join_all().await.into_iter().sum();
        let slowest = Duration::from_micros(slowest.load(Ordering::Relaxed));
        println!("{checks} checks, the slowest took {slowest:?}");
        assert!(slowest <= load.deadline + Duration::from_millis(500), "a check took {slowest:?}");
    });
}
