//! Waiting through the public API, in virtual time: fairness, and examples of behaviour.
//!
//! | file | covers |
//! |---|---|
//! | `queue` | waiters and cancelled waiters, against a slow model of a queue |
//! | `streams_and_sinks` | streams and sinks |
//! | `blocking` | threads that block |
//! | `keyed` | the keys of a keyed limiter, each with its waiters |
//! | `per_key` | a store of limiters, each with its waiters |
//! | `tokio_time` | tokio's timer |
//! | `virtual_time` | the runtime of these tests |

#[cfg(feature = "std")]
mod blocking;
#[cfg(feature = "std")]
mod keyed;
#[cfg(feature = "std")]
mod per_key;
mod queue;
#[cfg(feature = "futures")]
mod streams_and_sinks;
#[cfg(feature = "tokio")]
mod tokio_time;
mod virtual_time;

use damper::{Clock, ManualClock, Quota, RateLimiter, TokenBucket};
use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use virtual_time::{Runtime, Timers, yield_now};

const NANOS: u64 = 1_000_000_000;
const MILLIS: u64 = 1_000;

/// An empty limiter on the clock of `timers`.
fn empty(quota: Quota, timers: &Timers) -> RateLimiter<TokenBucket, &ManualClock> {
    let limiter = RateLimiter::with_algorithm(TokenBucket::with_level(quota, 0), &timers.clock);
    assert!(limiter.check_n(0).is_ok(), "this call starts the line");
    limiter
}

/// Returns how many tokens each waiter got in a second. The waiters start in the given order.
fn tokens_in_a_second(quota: Quota, order: impl Iterator<Item = usize>, waiters: usize) -> Vec<u32> {
    let timers = Timers::new(NANOS);
    let limiter = RateLimiter::with_clock(quota, &timers.clock);
    let turns: Vec<_> = (0..waiters).map(|_| Cell::new(0)).collect();
    let mut runtime = Runtime::new(&timers);
    for waiter in order {
        let (limiter, turns, timers) = (&limiter, &turns[waiter], &timers);
        runtime.spawn(async move {
            loop {
                limiter.acquire(1).sleeping_by(timers.sleep()).await.unwrap();
                turns.set(turns.get() + 1);
                // The work is done, and the other tasks run.
                yield_now().await;
            }
        });
    }
    for tenth in 0..=10 {
        runtime.run_until(tenth * NANOS / 10);
        let all: u32 = turns.iter().map(Cell::get).sum();
        assert_eq!(
            u64::from(all),
            u64::from(quota.burst_size()) + u64::from(quota.limit()) * tenth / 10,
            "{tenth}/10 s"
        );
    }
    turns.iter().map(Cell::get).collect()
}

/// No token is left over, and the waiters get equal shares, in whatever order they arrive.
#[test]
fn fifty_waiters_share_the_whole_rate_equally() {
    for burst in [1, 7, 50] {
        let quota = Quota::per_second(10_000).burst(burst).max_debt(100);
        let orders: [fn(usize) -> usize; 3] = [|place| place, |place| 49 - place, |place| place * 17 % 50];
        for order in orders {
            let turns = tokens_in_a_second(quota, (0..50).map(order), 50);
            let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
            assert!(most - least <= 1, "burst {burst}: from {least} to {most}");
        }
    }
}

/// Polls once.
fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Runs one task to its end, and returns the tick of its end.
fn ends_at(timers: &Timers, task: impl Future<Output = ()>) -> u64 {
    let end = Cell::new(None);
    let mut runtime = Runtime::new(timers);
    runtime.spawn(async {
        task.await;
        end.set(Some(timers.now()));
    });
    let mut latest = timers.now();
    while end.get().is_none() {
        latest += 1_000 * timers.clock.frequency();
        assert!(latest < 1_000_000 * timers.clock.frequency(), "the task never ends");
        runtime.run_until(latest);
    }
    let end = end.get().unwrap();
    timers.clock.set_ticks(end);
    end
}

#[test]
fn wait_beyond_its_deadline_is_refused_at_once() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(Quota::per_second(10).burst(3), &timers);
    let turn = limiter.acquire(2);
    let denied = poll_once(turn.within(Duration::from_millis(199)).sleeping_by(timers.sleep())).unwrap().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(1)));
    assert_eq!((limiter.debt(), limiter.peek().resets_in()), (0, Some(Duration::from_millis(300))));
    let end = ends_at(&timers, async {
        turn.within(Duration::from_millis(200)).sleeping_by(timers.sleep()).await.unwrap();
    });
    assert_eq!(end, 200);
    assert_eq!(poll_once(turn.within(Duration::MAX).sleeping_by(timers.sleep())), None);
    let never = empty(Quota::per_second(0).burst(1), &timers);
    for longest in [Duration::ZERO, Duration::from_hours(1), Duration::MAX] {
        let denied = poll_once(never.acquire(1).within(longest).sleeping_by(timers.sleep())).unwrap().unwrap_err();
        assert_eq!((denied.retry_after(), denied.exceeds_burst()), (None, false), "within {longest:?}");
    }
    assert_eq!(never.debt(), 0);
}

#[test]
fn wait_behind_too_many_waiters_is_refused_at_once() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(Quota::per_second(10).burst(1).max_debt(2), &timers);
    let mut waiting = [(); 2].map(|()| Box::pin(limiter.acquire(1).sleeping_by(timers.sleep())));
    for ready in &mut waiting {
        assert_eq!(poll_once(ready), None);
    }
    let denied = poll_once(limiter.acquire(1).sleeping_by(timers.sleep())).unwrap().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)), "after the first waiter has left");
    assert!(!denied.exceeds_burst());
    assert_eq!(limiter.debt(), 2);
}

#[test]
fn wait_for_more_than_the_burst_is_refused() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(Quota::per_second(10).burst(2), &timers);
    let denied = poll_once(limiter.acquire(3).sleeping_by(timers.sleep())).unwrap().unwrap_err();
    assert!(denied.exceeds_burst());
    assert_eq!(limiter.debt(), 0);
    let waiting = Box::pin(limiter.acquire(2).sleeping_by(timers.sleep()));
    let mut waiting = waiting;
    assert_eq!(poll_once(waiting.as_mut()), None);
    assert_eq!(poll_once(limiter.acquire(0).within(Duration::ZERO).sleeping_by(timers.sleep())), Some(Ok(())));
    let nothing = RateLimiter::with_clock(Quota::per_second(0), &timers.clock);
    assert_eq!(poll_once(nothing.acquire(0).sleeping_by(timers.sleep())), Some(Ok(())));
    assert!(poll_once(nothing.acquire(1).sleeping_by(timers.sleep())).unwrap().unwrap_err().exceeds_burst());
}

#[test]
fn unlimited_quota_lets_waiters_pass_at_once() {
    let timers = Timers::new(MILLIS);
    for quota in [Quota::UNLIMITED, Quota::UNLIMITED.burst(0)] {
        let limiter = RateLimiter::with_clock(quota, &timers.clock);
        for n in [0, 1, u32::MAX, u32::MAX] {
            assert_eq!(poll_once(limiter.acquire(n).within(Duration::ZERO).sleeping_by(timers.sleep())), Some(Ok(())));
        }
    }
}

#[test]
fn unpolled_future_takes_no_tokens() {
    let timers = Timers::new(MILLIS);
    let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(1), &timers.clock);
    drop(limiter.acquire(1).sleeping_by(timers.sleep()));
    let late = limiter.acquire(1).sleeping_by(timers.sleep());
    assert_eq!(
        poll_once(limiter.acquire(1).sleeping_by(timers.sleep())),
        Some(Ok(())),
        "its place is that of its first poll"
    );
    assert_eq!(ends_at(&timers, async { late.await.unwrap() }), 100);
}

#[test]
fn finished_future_waits_for_further_tokens_when_polled_again() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(Quota::per_second(10).burst(1).max_debt(1), &timers);
    let mut ready = Box::pin(limiter.acquire(1).sleeping_by(timers.sleep()));
    for turn in 1..=3 {
        assert_eq!(ends_at(&timers, async { ready.as_mut().await.unwrap() }), turn * 100);
    }
    // The same after a refusal.
    let reserved = limiter.reserve(1).unwrap();
    assert!(poll_once(ready.as_mut()).unwrap().is_err());
    assert!(reserved.cancel());
    assert_eq!(ends_at(&timers, async { ready.as_mut().await.unwrap() }), 400);
}

/// A change of the quota takes effect within a second, and a longer wait does not end early.
#[test]
fn future_follows_the_quota() {
    const MS: u64 = NANOS / 1_000;
    let wait = |before: Quota, changed_at: u64, after: Quota| {
        let timers = Timers::new(NANOS);
        let limiter = empty(before, &timers);
        let end = Cell::new(None);
        let mut runtime = Runtime::new(&timers);
        runtime.spawn(async {
            limiter.acquire(1).sleeping_by(timers.sleep()).await.unwrap();
            end.set(Some(timers.now()));
        });
        runtime.run_until(changed_at * MS);
        assert_eq!(end.get(), None);
        limiter.set_quota(after).unwrap();
        runtime.run_until(3_600 * NANOS);
        end.get()
    };
    let per_second = |limit: u32| Quota::per_second(limit).burst(1);
    assert_eq!(wait(per_second(0), 500, per_second(0)), None, "for ever");
    assert_eq!(wait(per_second(0), 100_500, per_second(1_000)), Some(101_000 * MS), "at the next wake-up");
    assert_eq!(wait(Quota::per_minute(1), 2_500, per_second(10)), Some(3_000 * MS));
    // Half of the token had been refilled. After a change a wait may be a tick too long.
    assert!(wait(per_second(10), 50, per_second(5)).is_some_and(|at| at == 150 * MS || at == 150 * MS + 1));
    assert_eq!(wait(per_second(10), 50, per_second(0)), None);
}

/// A removed limit leaves no caller waiting.
#[test]
fn removed_limit_releases_all_waiters() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(Quota::per_second(0).burst(1), &timers);
    let mut ready = Box::pin(limiter.acquire(1).sleeping_by(timers.sleep()));
    assert_eq!(poll_once(ready.as_mut()), None);
    limiter.set_quota(Quota::UNLIMITED).unwrap();
    assert_eq!(ends_at(&timers, async { ready.as_mut().await.unwrap() }), 1_000);
}

#[cfg(feature = "std")]
#[test]
fn jitter_is_added_and_differs() {
    let timers = Timers::new(NANOS);
    let limiter = empty(Quota::per_second(10).burst(1), &timers);
    let waited = |most: Duration| {
        let tokens_at = timers.now() + NANOS / 10;
        let end = ends_at(&timers, async {
            limiter
                .acquire(1)
                .within(Duration::from_millis(100))
                .jitter(most)
                .sleeping_by(timers.sleep())
                .await
                .unwrap();
        });
        timers.clock.advance(Duration::from_secs(1));
        assert!(limiter.check().is_ok(), "this call empties the bucket again");
        Duration::from_nanos(end - tokens_at)
    };
    assert!((0..10).all(|_| waited(Duration::ZERO).is_zero()));
    assert!((0..10).all(|_| waited(Duration::from_nanos(1)) <= Duration::from_nanos(1)));
    let most = Duration::from_millis(10);
    let drawn: Vec<_> = (0..200).map(|_| waited(most)).collect();
    assert!(drawn.iter().all(|jitter| *jitter <= most));
    // The chance that 200 draws all miss a tenth at either end is less than 1 in 10^8.
    assert!(drawn.iter().any(|jitter| *jitter < most / 10) && drawn.iter().any(|jitter| *jitter > most / 10 * 9));
}
