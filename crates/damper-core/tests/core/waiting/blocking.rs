//! Threads that block.
//!
//! A test fails if a thread hangs or wakes early, however slow the machine is.

use damper::{Clock, ManualClock, Monotonic, Quota, RateLimiter, TokenBucket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The time after which a blocked thread counts as hanging.
const FOR_EVER: Duration = Duration::from_secs(30);

fn empty<C: Clock>(quota: Quota, clock: C) -> Arc<RateLimiter<TokenBucket, C>> {
    Arc::new(RateLimiter::with_algorithm(TokenBucket::with_level(quota, 0), clock))
}

/// Blocks a thread until its turn, and returns when it has its place.
///
/// The thread is detached, so the test ends even if it hangs.
fn wait_in_a_thread<C: Clock + Send + Sync + 'static>(limiter: &Arc<RateLimiter<TokenBucket, C>>) -> Receiver<()> {
    let (done, ends) = channel();
    let debt = limiter.debt();
    let waiter = Arc::clone(limiter);
    thread::spawn(move || {
        waiter.acquire(1).wait().unwrap();
        // After a failure there is no receiver.
        _ = done.send(());
    });
    while limiter.debt() == debt {
        thread::yield_now();
    }
    ends
}

#[test]
fn quota_change_wakes_an_endless_waiter() {
    let limiter = empty(Quota::per_second(0).burst(1), Monotonic);
    let waiters = [wait_in_a_thread(&limiter), wait_in_a_thread(&limiter)];
    assert_eq!(waiters[0].recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
    limiter.set_quota(Quota::per_second(1_000).burst(1)).unwrap();
    assert_eq!(waiters.map(|ends| ends.recv_timeout(FOR_EVER)), [Ok(()); 2]);
}

#[test]
fn faster_quota_wakes_a_waiter() {
    let limiter = empty(Quota::per_minute(1).burst(1), Monotonic);
    let ends = wait_in_a_thread(&limiter);
    limiter.set_quota(Quota::per_second(10).burst(1)).unwrap();
    assert_eq!(ends.recv_timeout(FOR_EVER), Ok(()), "a tenth of a second instead of a minute");
}

#[test]
fn refund_wakes_a_blocked_thread() {
    // The quota refills nothing, so only refunds bring tokens.
    let limiter = empty(Quota::per_second(0).burst(2), Monotonic);
    let first = wait_in_a_thread(&limiter);
    let second = wait_in_a_thread(&limiter);
    assert_eq!(limiter.refund(1), 1);
    assert_eq!(first.recv_timeout(FOR_EVER), Ok(()));
    assert_eq!(second.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
    assert_eq!(limiter.refund(1), 1);
    assert_eq!(second.recv_timeout(FOR_EVER), Ok(()));
}

#[test]
fn slower_quota_prolongs_a_wait() {
    let clock = Arc::new(ManualClock::with_frequency(1_000));
    let limiter = empty(Quota::per_second(10).burst(1), Arc::clone(&clock));
    let ends = wait_in_a_thread(&limiter);
    let slower = Quota::per_second(5).burst(1);
    limiter.set_quota(slower).unwrap();
    clock.advance_ticks(199);
    // The thread wakes at every change of the quota.
    limiter.set_quota(slower).unwrap();
    assert_eq!(ends.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
    clock.advance_ticks(2);
    assert_eq!(ends.recv_timeout(FOR_EVER), Ok(()));
}

#[test]
fn removed_limit_wakes_all_blocked_threads() {
    let limiter = empty(Quota::per_second(0).burst(1), Monotonic);
    let ends = wait_in_a_thread(&limiter);
    limiter.set_quota(Quota::UNLIMITED).unwrap();
    assert_eq!(ends.recv_timeout(FOR_EVER), Ok(()));
}

#[test]
fn refusals_and_available_tokens_return_at_once() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(1).burst(2).max_debt(1), &clock);
    limiter.acquire(2).jitter(Duration::from_millis(1)).wait().unwrap();
    assert!(limiter.acquire(3).wait().unwrap_err().exceeds_burst());
    let denied = limiter.acquire(1).within(Duration::from_millis(999)).wait().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(1)));
    assert_eq!(
        limiter.acquire(2).wait().unwrap_err().retry_after(),
        Some(Duration::from_secs(1)),
        "the debt is too deep"
    );
    limiter.acquire(0).wait().unwrap();
    assert_eq!(limiter.debt(), 0);
    clock.advance(Duration::from_secs(1));
    limiter.acquire(1).wait().unwrap();
}

/// Returns the most tokens that a quota refills between two readings of the default clock.
///
/// One tick is added.
pub(super) fn most(per_second: u32, burst: u32, before: u64, after: u64) -> u64 {
    let brought = u128::from(per_second) * u128::from(after - before + 1) / u128::from(Monotonic.frequency());
    u64::from(burst) + u64::try_from(brought).unwrap()
}

#[test]
fn blocked_threads_stay_in_the_envelope_and_all_make_progress() {
    let (per_second, burst) = (20_000, 10);
    let before = Monotonic.now();
    let limiter = RateLimiter::new(Quota::per_second(per_second).burst(burst));
    let turns: Vec<u64> = thread::scope(|scope| {
        let wait = || {
            let (mut turns, end) = (0, Monotonic.now() + Monotonic.frequency() / 5);
            while Monotonic.now() < end {
                limiter.acquire(1).wait().unwrap();
                turns += 1;
            }
            turns
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(wait)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let most = most(per_second, burst, before, Monotonic.now());
    assert!(turns.iter().sum::<u64>() <= most, "{turns:?}, at most {most}");
    assert!(turns.iter().all(|turns| *turns > 0), "{turns:?}");
}
