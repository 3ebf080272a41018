//! Waiting by tokio's timer and the real clock.

use super::blocking::most;
use damper::{Clock, Monotonic, Quota, RateLimiter};
use std::rc::Rc;

#[tokio::test]
async fn waiting_tasks_stay_in_the_envelope() {
    let (per_second, burst) = (5_000, 5);
    let before = Monotonic.now();
    let limiter = Rc::new(RateLimiter::new(Quota::per_second(per_second).burst(burst)));
    let end = before + Monotonic.frequency() / 50;
    let local = tokio::task::LocalSet::new();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let limiter = Rc::clone(&limiter);
            local.spawn_local(async move {
                let mut turns = 0;
                while turns == 0 || Monotonic.now() < end {
                    limiter.acquire(1).await.unwrap();
                    turns += 1;
                }
                turns
            })
        })
        .collect();
    local.await;
    let most = most(per_second, burst, before, Monotonic.now());
    let mut turns = Vec::new();
    for task in tasks {
        turns.push(task.await.unwrap());
    }
    assert!(turns.iter().sum::<u64>() <= most, "{turns:?}, at most {most}");
}

/// A waiting future may move to another thread.
#[test]
fn futures_are_send() {
    fn is_send<T: Send>(_: T) {}
    let limiter = RateLimiter::new(Quota::per_second(1));
    is_send(limiter.acquire(1));
    is_send(limiter.acquire(1));
}
