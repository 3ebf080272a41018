//! Refunds of a token bucket: how much they give back while others wait, and to which waiter.

use damper::{ManualClock, Quota, RateLimiter, Reservation, TokenBucket};
use std::time::Duration;

const MILLIS: u64 = 1_000;

/// The state of a worker.
enum Stage<'a> {
    /// The worker has no tokens yet.
    Idle,
    Waiting(Reservation<&'a RateLimiter<TokenBucket, &'a ManualClock>>),
    /// The worker uses its tokens until this tick.
    Calling(u64),
}

/// Returns the tokens that workers with reservations use in this many seconds.
///
/// Each call reserves `estimate` tokens, takes a hundredth of a second, and uses `bill` of them.
fn used_by(workers: usize, seconds: u64, quota: Quota, estimate: u32, bill: u32) -> u64 {
    let clock = ManualClock::with_frequency(MILLIS);
    let limiter = RateLimiter::with_clock(quota, &clock);
    let mut stages: Vec<_> = (0..workers).map(|_| Stage::Idle).collect();
    let mut used = 0;
    for now in 0..seconds * MILLIS {
        for stage in &mut stages {
            *stage = match std::mem::replace(stage, Stage::Idle) {
                Stage::Calling(until) if until <= now => {
                    limiter.refund(estimate - bill);
                    used += u64::from(bill);
                    Stage::Waiting(limiter.reserve(estimate).unwrap())
                }
                Stage::Waiting(slot) if slot.ready_in() == Some(Duration::ZERO) => Stage::Calling(now + MILLIS / 100),
                Stage::Idle => Stage::Waiting(limiter.reserve(estimate).unwrap()),
                same => same,
            };
        }
        clock.advance_ticks(1);
    }
    used
}

/// As with language model tokens, every call reserves twice the tokens that it uses.
///
/// However many workers wait, they get all of the unused tokens.
#[test]
fn settled_budget_is_used_up() {
    let quota = Quota::per_second(1_000).burst(500);
    for workers in [2, 4, 8] {
        let used = used_by(workers, 60, quota, 100, 50);
        assert!((57_000..=60_500).contains(&used), "{workers} workers used {used} of 60,000");
    }
}

#[test]
fn refund_serves_a_waiter_earlier() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(5), &clock);
    limiter.check_n(5).unwrap();
    let (first, second) = (limiter.reserve(4).unwrap(), limiter.reserve(2).unwrap());
    let waits = || [first.ready_in(), second.ready_in()].map(|wait| wait.unwrap().as_millis());
    assert_eq!(waits(), [400, 600]);
    assert_eq!(limiter.refund(3), 3);
    assert_eq!((waits(), limiter.debt()), ([100, 300], 3));
    clock.advance(Duration::from_millis(100));
    assert_eq!(waits(), [0, 200]);
    limiter.refund(2);
    assert_eq!((waits(), limiter.debt(), limiter.peek().remaining()), ([0, 0], 0, 0));
}

// CLAIM: its waiters
#[test]
fn newcomer_does_not_overtake_a_waiter() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(5), &clock);
    limiter.check_n(5).unwrap();
    let waiter = limiter.reserve(4).unwrap();
    for left in [300, 200, 100, 0] {
        assert!(limiter.check().is_err(), "the waiter is served first");
        limiter.refund(1);
        assert_eq!(waiter.ready_in(), Some(Duration::from_millis(left)));
    }
    let denied = limiter.check().unwrap_err();
    assert_eq!((denied.remaining(), denied.retry_after()), (0, Some(Duration::from_millis(100))));
    // No waiter is in line for this one.
    limiter.refund(1);
    assert_eq!(limiter.check().unwrap().remaining(), 0);
}

#[test]
fn refund_beyond_full_gives_back_the_missing_tokens() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(5), &clock);
    assert_eq!(limiter.refund(1), 0, "nothing was taken yet");
    limiter.check_n(2).unwrap();
    clock.advance(Duration::from_millis(150));
    // One and a half tokens were refilled.
    assert_eq!((limiter.refund(3), limiter.refund(3)), (1, 0));
    assert_eq!(limiter.check_n(5).unwrap().remaining(), 0);
    assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_millis(100)));
    assert_eq!(limiter.refund(u32::MAX), 5);
    assert_eq!(limiter.peek().used(), 0);
}

/// A position has 64 bits, and a slow quota uses many of them for the fraction of a token.
#[test]
fn large_refund_fills_the_bucket_of_a_slow_quota() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_hour(1).burst(2), &clock);
    for n in (2..32).map(|log2| 1 << log2) {
        limiter.check_n(2).unwrap();
        assert_eq!(limiter.refund(n), 2, "{n}");
    }
}

/// A quota slowed down a thousand times bends the line at its present position, refunds included.
#[test]
fn refunds_outlast_a_change_of_the_quota() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(1_000).burst(10), &clock);
    limiter.check_n(10).unwrap();
    let waiter = limiter.reserve(6).unwrap();
    assert_eq!(limiter.refund(2), 2);
    limiter.set_quota(Quota::per_second(1).burst(10)).unwrap();
    assert_eq!(limiter.debt(), 4);
    assert_eq!(limiter.refund(3), 3);
    let wait = waiter.ready_in().unwrap();
    assert!(wait > Duration::from_millis(999) && wait < Duration::from_millis(1_001), "{wait:?}");
}

/// A future sleeps for at most a second at a time, and then finds its tokens.
#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn future_notices_a_refund_within_a_second() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_minute(1).burst(5), &clock);
    limiter.check_n(5).unwrap();
    let began = tokio::time::Instant::now();
    let (served, ()) = tokio::join!(limiter.acquire(3), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(limiter.refund(3), 3);
    });
    served.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(1), "instead of three minutes");
}
