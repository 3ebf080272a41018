//! Waiting for the tokens of a key, in a store of limiters.

use super::virtual_time::{Runtime, Timers};
use crate::waiting::{MILLIS, Quota, RateLimiter};
use damper::{BoundedStore, ManualClock, TokenBucket};
use std::cell::RefCell;

/// The largest store with one shard, so that evictions are predictable.
const CAPACITY: usize = 127;

/// Each host serves its callers in order and at its whole rate, through a flood of other hosts.
///
/// Twenty callers wait for each of three hosts, the flood follows, and then ten more callers.
#[test]
fn waiters_of_every_key_are_served_in_order_through_a_flood_of_keys() {
    let timers = Timers::new(MILLIS);
    let hosts = BoundedStore::<String, RateLimiter<TokenBucket, &ManualClock>>::new(CAPACITY)
        .unwrap()
        .keep_if(|limiter| limiter.peek().used() > 0);
    let limiter =
        |host: &str| hosts.get_or_insert_with(host, || RateLimiter::with_clock(Quota::per_second(10), &timers.clock));
    let served = RefCell::new(Vec::new());
    let mut runtime = Runtime::new(&timers);
    for (wave, waiters) in [0..20u64, 20..30].into_iter().enumerate() {
        for waiter in waiters {
            for host in ["one", "two", "three"] {
                let (limiter, served, timers) = (limiter(host), &served, &timers);
                runtime.spawn(async move {
                    limiter.acquire(1).sleeping_by(timers.sleep()).await.unwrap();
                    served.borrow_mut().push((host, waiter, timers.now()));
                });
            }
        }
        runtime.run_until(500 * (wave as u64 + 1));
        for other in 0..10_000 {
            limiter(&format!("{wave}.{other}.flood.example.com"));
        }
    }
    runtime.run_until(2_000);
    for host in ["one", "two", "three"] {
        let of_host: Vec<_> =
            served.borrow().iter().filter(|served| served.0 == host).map(|&(_, w, at)| (w, at)).collect();
        // A burst of ten, then one every 100 ms.
        let expected: Vec<_> = (0..30_u64).map(|waiter| (waiter, waiter.saturating_sub(9) * 100)).collect();
        assert_eq!(of_host, expected, "{host}");
    }
    assert_eq!((hosts.len(), hosts.kept_evictions()), (CAPACITY, 0));
}
