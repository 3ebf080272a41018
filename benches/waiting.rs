//! Many that wait for one limit, in real time: whether the whole rate is delivered, and how equally.
//!
//! ```text
//! cargo bench --all-features --bench waiting
//! ```

use damper::{Quota, RateLimiter};
use std::time::{Duration, Instant};

const WAITERS: u32 = 50;
const RATE: u32 = 10_000;

fn limiter() -> RateLimiter {
    // A burst for the first few callers, and a place in the queue for all of them.
    RateLimiter::new(Quota::per_second(RATE).burst(10).max_debt(2 * WAITERS))
}

fn main() {
    // Cargo asks with `--test` whether it runs at all.
    let seconds = if std::env::args().any(|argument| argument == "--test") { 0.1 } else { 3.0 };
    let time = Duration::from_secs_f64(seconds);
    println!("{WAITERS} waiters, {RATE}/s, {seconds} s");
    report("tasks", &tasks(time), time);
    report("threads", &threads(time), time);
}

/// The tokens that each task of one thread got.
fn tasks(time: Duration) -> Vec<u32> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("the system has timers");
    let limiter = std::sync::Arc::new(limiter());
    runtime.block_on(async {
        let started = Instant::now();
        let tasks: Vec<_> = (0..WAITERS)
            .map(|_| {
                let limiter = std::sync::Arc::clone(&limiter);
                tokio::spawn(async move {
                    let mut got = 0;
                    while started.elapsed() < time {
                        limiter.acquire(1).await.expect("there is a place for all");
                        got += 1;
                    }
                    got
                })
            })
            .collect();
        let mut shares = Vec::new();
        for task in tasks {
            shares.push(task.await.expect("no task panics"));
        }
        shares
    })
}

/// The tokens that each thread got.
fn threads(time: Duration) -> Vec<u32> {
    let limiter = limiter();
    let started = Instant::now();
    let work = || {
        let mut got = 0;
        while started.elapsed() < time {
            limiter.acquire(1).wait().expect("there is a place for all");
            got += 1;
        }
        got
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WAITERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no thread panics")).collect()
    })
}

fn report(who: &str, shares: &[u32], time: Duration) {
    let all: u32 = shares.iter().sum();
    let rate = f64::from(all) / time.as_secs_f64() / f64::from(RATE);
    let (least, most) = (shares.iter().min().copied().unwrap_or(0), shares.iter().max().copied().unwrap_or(0));
    println!("{who:8} {:.1} % of the rate, {least} to {most} each", rate * 100.0);
}
