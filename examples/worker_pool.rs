//! A pool of workers that share one limit.
//!
//! Each spends from a lease of its own, so that a job costs no atomic and no look at the clock, and sleeps when there
//! is nothing to spend.

use damper::{LeasingBucket, Quota, RateLimiter};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const WORKERS: u32 = 4;
const JOBS: u32 = 150_000;
/// 200,000 a second; of the burst, 2,048 tokens are for the workers to hold.
const QUOTA: Quota = Quota::per_second(200_000).burst(50_000);
const LEASES: u32 = 2_048;

fn work(jobs: &Mutex<Receiver<u32>>, limiter: &RateLimiter<LeasingBucket>) -> u32 {
    let mut lease = limiter.lease(LEASES / WORKERS).expect("the budget is for so many");
    let mut done = 0;
    loop {
        let Ok(job) = jobs.lock().expect("no worker panics").recv() else { return done };
        while let Err(denied) = lease.check() {
            std::thread::sleep(denied.retry_after().expect("the quota refills").max(Duration::from_millis(1)));
        }
        // The job: nothing much.
        std::hint::black_box(job);
        done += 1;
    }
}

fn main() {
    let limiter = RateLimiter::leasing(QUOTA, LEASES).expect("the budget is less than the burst");
    let (sender, jobs) = channel();
    let jobs = Mutex::new(jobs);
    let started = Instant::now();
    let done: Vec<u32> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| work(&jobs, &limiter))).collect();
        (0..JOBS).for_each(|job| sender.send(job).expect("the receiver lives"));
        drop(sender);
        workers.into_iter().map(|worker| worker.join().expect("no worker panics")).collect()
    });
    let elapsed = started.elapsed();
    assert_eq!(done.iter().sum::<u32>(), JOBS, "every job is done once");
    // The burst, and then the rate.
    let least = Duration::from_secs_f64(f64::from(JOBS - QUOTA.burst_size()) / f64::from(QUOTA.limit()));
    assert!(elapsed >= least, "no faster than the limit: {elapsed:?}");
    println!("{JOBS} jobs in {elapsed:.2?}, at the limit it takes {least:.2?}; each worker did {done:?}");
}
