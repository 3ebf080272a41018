//! The leaky bucket against the token bucket, and the leaky queue against a model in whole numbers.

use crate::input::{Frequency, MOST_STEPS, QuotaInput, Tokens, ticks_of};
use crate::models::queue::Queue;
use arbitrary::Arbitrary;
use damper::{Denied, LeakyBucket, LeakyQueue, ManualClock, Quota, RateLimiter};
use std::time::Duration;

/// The leaky bucket or queue, and its calls.
#[derive(Arbitrary, Debug)]
pub struct LeakyInput {
    is_queue: bool,
    quota: QuotaInput,
    frequency: Frequency,
    start: u64,
    calls: Vec<(Move, Tokens)>,
}

/// How far the clock moves before a call.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Move {
    Pass(u16),
    PassLong(u64),
    /// By this many 4,096ths of an interval.
    Parts(u16),
    /// To the moment at which a place in the queue is free, plus or minus this many ticks.
    Acquire(i8),
}

/// Compares the bucket with its mirror image, or the queue with the model.
pub fn leaky(input: LeakyInput) {
    let clock = ManualClock::with_frequency(input.frequency.hertz());
    clock.set_ticks(input.start);
    let quota = input.quota.quota(u32::MAX);
    if input.is_queue { queue(&input, quota, &clock) } else { bucket(&input, quota, &clock) }
}

/// The meter is the mirror image of the token bucket.
fn bucket(input: &LeakyInput, quota: Quota, clock: &ManualClock) {
    let tokens = RateLimiter::with_clock(quota, clock);
    let leaky = RateLimiter::with_algorithm(LeakyBucket::new(quota), clock);
    for &(by, n) in input.calls.iter().take(MOST_STEPS) {
        match by {
            Move::Pass(ticks) | Move::Parts(ticks) => clock.advance_ticks(ticks.into()),
            Move::PassLong(ticks) => clock.advance_ticks(ticks >> 8),
            Move::Acquire(_) => {
                let wait = tokens.check_n(quota.burst_size()).err().and_then(|denied| denied.retry_after());
                assert_eq!(leaky.check_n(quota.burst_size()).err().and_then(|denied| denied.retry_after()), wait);
                clock.advance(wait.unwrap_or(Duration::ZERO).min(Duration::from_hours(100 * 24)));
            }
        }
        assert_eq!(tokens.check_n(n.number()), leaky.check_n(n.number()));
        assert_eq!(tokens.peek(), leaky.peek());
        assert_eq!(u64::from(leaky.level()) + u64::from(tokens.peek().remaining()), u64::from(quota.burst_size()));
    }
}

/// Each call leaves when the previous one has, and a call that does not fit is refused.
///
/// The model is matched to within a tick, or to what `enter_n` states for deep debts.
fn queue(input: &LeakyInput, quota: Quota, clock: &ManualClock) {
    let queue = LeakyQueue::with_clock(quota, clock);
    assert_eq!(queue.enter_n(0), Ok(Duration::ZERO), "this call starts the line");
    if quota.limit() == 0 {
        return never_leaves(&queue, quota);
    }
    let mut model = Queue::new(quota, input.frequency.hertz());
    // If more than a burst leaves in a tick, the order cannot be observed.
    if model.interval_in_ticks() == 0 {
        return;
    }
    // Three units, if they are longer than a tick: for rounding and for the multiplier's precision.
    let deepest_debt = 11 * i128::from(quota.burst_size());
    let early = 1 + ((i128::from(model.interval_in_ticks()) * deepest_debt) >> 58);
    // Less than half a cycle of positions, of which the first eighth lies before the start. A queue may stay unused for
    // that long. A tick is at most 4 units, and the deepest debt at most 2^61.
    let half_a_circle = (1 << 60).max(3 * deepest_debt * i128::from(model.interval_in_ticks()));
    let (mut passed, mut untouched) = (0, 0);
    for &(by, n) in input.calls.iter().take(MOST_STEPS) {
        let (n, interval) = (n.number(), model.interval_in_ticks());
        let ticks = match by {
            Move::Pass(ticks) => ticks.into(),
            Move::PassLong(ticks) => ticks.min(interval.saturating_mul(16)),
            Move::Parts(parts) => u64::try_from((u128::from(interval) * u128::from(parts)) >> 12).unwrap_or(u64::MAX),
            Move::Acquire(off) => u64::try_from((model.wait() + i128::from(off)).max(0)).unwrap_or(u64::MAX),
        };
        passed += i128::from(ticks);
        untouched += i128::from(ticks);
        // A line lasts 2^63 ticks.
        if passed >= 1 << 62 || untouched >= half_a_circle {
            return;
        }
        clock.advance_ticks(ticks);
        model.pass(ticks);
        match queue.enter_n(n) {
            Ok(wait) if n == 0 => assert_eq!(wait, Duration::ZERO),
            Ok(wait) => {
                assert!(model.has_room(n, early), "{n} into {model:?}");
                let (wait, slack) = ticks_of(wait, input.frequency.hertz());
                // A wait beyond the clock's range is cut off at its end.
                let exact = model.wait().min(i128::from(u64::MAX));
                assert!(wait + early >= exact && wait <= exact + early + slack, "{wait} of {exact}");
                model.enter(n);
                untouched = 0;
            }
            Err(denied) => {
                assert!(!model.has_room(n, 0), "{n} into {model:?}");
                assert_eq!(denied.exceeds_burst(), n > quota.burst_size());
            }
        }
        assert!(queue.level() <= quota.burst_size());
    }
}

/// The first call leaves, and none after it ever does.
fn never_leaves(queue: &LeakyQueue<&ManualClock>, quota: Quota) {
    let is_refused_for_ever = |answer: Result<Duration, Denied>| {
        answer
            .is_err_and(|denied| denied.retry_after().is_none() && denied.exceeds_burst() == (quota.burst_size() == 0))
    };
    let first = queue.enter();
    assert!(if quota.burst_size() == 0 { is_refused_for_ever(first) } else { first == Ok(Duration::ZERO) });
    assert!(is_refused_for_ever(queue.enter()));
}
