//! One decision of a limiter of one limit.

use crate::still::still;
use crate::{Call, Row, prepared, rows};
use damper::limit::{FixedWindow, LeakyBucket, SlidingCounter, SlidingLog};
use damper::{
    Bulkhead, Clock, LeakyQueue, LeasingBucket, LimitSet, ManualClock, Pausable, Quota, RateLimiter, RateLimiter32,
    Striped, TokenBucket,
};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const ROWS: &[Row] = rows![
    check_allowed,
    check_denied,
    live_allowed,
    live_denied,
    constant_allowed,
    constant_denied,
    check_n,
    check_allowed_whole,
    check_denied_whole,
    peek,
    retry_after - check_denied,
    lease,
    striped,
    pausable_allowed,
    pausable_after_pause,
    pausable_paused,
    layered_allowed,
    layered_denied,
    reserved_and_settled,
    lease_settled,
    layered_settled,
    leaky_bucket,
    leaky_queue,
    fixed_window_allowed,
    fixed_window_denied,
    sliding_counter_allowed,
    sliding_counter_denied,
    sliding_log_allowed - tick,
    sliding_log_denied,
    check32_allowed,
    check32_denied,
];

/// More than is ever taken.
const PLENTY: Quota = Quota::per_hour(1).burst(1_000_000);

/// The one token is taken before the counting starts.
const ONE: Quota = Quota::per_hour(1);

/// The tokens of a lease and a stripe: they are filled ten times in a thousand calls.
const HELD: u32 = 100;

fn check_allowed() -> Call {
    let limiter = RateLimiter::with_algorithm(TokenBucket::new(PLENTY), still!());
    Box::new(move || limiter.check().is_ok())
}

fn check_denied() -> Call {
    let limiter = RateLimiter::with_algorithm(TokenBucket::new(ONE), still!());
    prepared(Box::new(move || limiter.check().is_err()))
}

/// As `Constant`: once for both answers.
#[inline(never)]
fn live(limiter: &RateLimiter<TokenBucket, Shared>) -> bool {
    limiter.check().is_ok()
}

#[inline(never)]
fn constant(bucket: &Constant) -> bool {
    bucket.check(1)
}

fn live_allowed() -> Call {
    let limiter = RateLimiter::with_clock(PLENTY, Shared);
    Box::new(move || live(&limiter))
}

fn live_denied() -> Call {
    let limiter = RateLimiter::with_clock(ONE, Shared);
    prepared(Box::new(move || !live(&limiter)))
}

fn constant_allowed() -> Call {
    let bucket = Constant::new(1_000_000);
    Box::new(move || constant(&bucket))
}

fn constant_denied() -> Call {
    let bucket = Constant::new(1);
    prepared(Box::new(move || !constant(&bucket)))
}

/// Of as many tokens as only the caller knows.
fn check_n() -> Call {
    let limiter = RateLimiter::with_clock(PLENTY, still!());
    let n = black_box(3);
    Box::new(move || limiter.check_n(n).is_ok())
}

/// Uses the whole answer, whose caller otherwise only asks which it is.
///
/// The compiler leaves out what no caller looks at, unless the decision is too large, or in too many places, to be
/// inlined.
fn check_allowed_whole() -> Call {
    let limiter = RateLimiter::with_clock(PLENTY, still!());
    Box::new(move || black_box(limiter.check()).is_ok())
}

fn check_denied_whole() -> Call {
    let limiter = RateLimiter::with_clock(ONE, still!());
    prepared(Box::new(move || black_box(limiter.check()).is_err()))
}

fn peek() -> Call {
    let limiter = RateLimiter::with_clock(PLENTY, still!());
    // A look does not start the line.
    _ = limiter.check_n(0);
    Box::new(move || limiter.peek().used() == 0)
}

/// Of a refusal.
fn retry_after() -> Call {
    let limiter = RateLimiter::with_clock(ONE, still!());
    prepared(Box::new(move || limiter.check().is_err_and(|denied| denied.retry_after().is_some())))
}

fn lease() -> Call {
    let bucket = LeasingBucket::new(PLENTY, HELD).expect("less than the burst");
    let mut lease =
        Arc::new(RateLimiter::with_algorithm(bucket, still!())).lease_owned(HELD).expect("within the budget");
    Box::new(move || lease.check().is_ok())
}

fn striped() -> Call {
    let limiter = Striped::with_stripes(PLENTY, 2 * HELD, 2, still!()).expect("less than the burst");
    Box::new(move || limiter.check().is_ok())
}

fn pausable_allowed() -> Call {
    let limiter = Pausable::with_clock(RateLimiter::with_clock(PLENTY, still!()), still!());
    Box::new(move || limiter.check().is_ok())
}

fn pausable_after_pause() -> Call {
    let clock = Arc::new(ManualClock::new());
    let limiter = Pausable::with_clock(RateLimiter::with_clock(PLENTY, still!()), Arc::clone(&clock));
    limiter.pause_for(Duration::from_secs(1));
    clock.advance(Duration::from_secs(1));
    Box::new(move || limiter.check().is_ok())
}

fn pausable_paused() -> Call {
    let limiter = Pausable::with_clock(RateLimiter::with_clock(PLENTY, still!()), still!());
    limiter.pause_for(Duration::from_secs(1));
    Box::new(move || limiter.check().is_err())
}

fn layered_allowed() -> Call {
    let limiter = LimitSet::with_clock([PLENTY, PLENTY], still!());
    Box::new(move || limiter.check().is_ok())
}

/// By the second, so that what the first gave is given back.
fn layered_denied() -> Call {
    let limiter = LimitSet::with_clock([PLENTY, ONE], still!());
    prepared(Box::new(move || limiter.check().is_err()))
}

/// An estimate of twice the bill.
fn reserved_and_settled() -> Call {
    let limiter = RateLimiter::with_clock(PLENTY, still!());
    Box::new(move || limiter.reserve(2).map(|call| call.settle(1)).is_ok())
}

fn lease_settled() -> Call {
    let bucket = LeasingBucket::new(PLENTY, HELD).expect("less than the burst");
    let mut lease =
        Arc::new(RateLimiter::with_algorithm(bucket, still!())).lease_owned(HELD).expect("within the budget");
    Box::new(move || lease.reserve(2).map(|call| call.settle(1)).is_ok())
}

/// Two limits and a bulkhead.
fn layered_settled() -> Call {
    let limits = LimitSet::with_clock([PLENTY, PLENTY], still!()).with_bulkhead(Bulkhead::new(8));
    Box::new(move || limits.reserve([1, 2]).map(|call| call.settle([1, 1])).is_ok())
}

fn leaky_bucket() -> Call {
    let limiter = RateLimiter::with_algorithm(LeakyBucket::new(PLENTY), still!());
    Box::new(move || limiter.check().is_ok())
}

fn leaky_queue() -> Call {
    let queue = LeakyQueue::with_clock(PLENTY, still!());
    Box::new(move || queue.enter().is_ok())
}

fn fixed_window_allowed() -> Call {
    let limiter = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_hour(1_000_000)), still!());
    Box::new(move || limiter.check().is_ok())
}

fn fixed_window_denied() -> Call {
    let limiter = RateLimiter::with_algorithm(FixedWindow::new(ONE), still!());
    prepared(Box::new(move || limiter.check().is_err()))
}

fn sliding_counter_allowed() -> Call {
    let limiter = RateLimiter::with_algorithm(
        SlidingCounter::new(Quota::per_hour(1_000_000)).expect("the burst is the limit"),
        still!(),
    );
    Box::new(move || limiter.check().is_ok())
}

fn sliding_counter_denied() -> Call {
    let limiter = RateLimiter::with_algorithm(SlidingCounter::new(ONE).expect("the burst is the limit"), still!());
    prepared(Box::new(move || limiter.check().is_err()))
}

fn log() -> SlidingLog {
    SlidingLog::new(Quota::per_second(100)).expect("the burst is the limit")
}

/// The clock of a log, moved on.
fn tick() -> Call {
    let clock = Arc::new(ManualClock::new());
    Box::new(move || {
        clock.advance(A_HUNDREDTH);
        clock.now() > 0
    })
}

const A_HUNDREDTH: Duration = Duration::from_millis(10);

/// Full, and the oldest entry has just gone.
fn sliding_log_allowed() -> Call {
    let clock = Arc::new(ManualClock::new());
    let limiter = RateLimiter::with_algorithm(log(), Arc::clone(&clock));
    Box::new(move || {
        clock.advance(A_HUNDREDTH);
        limiter.check().is_ok()
    })
}

fn sliding_log_denied() -> Call {
    let limiter = RateLimiter::with_algorithm(log(), still!());
    prepared(Box::new(move || limiter.check().is_err()))
}

fn check32_allowed() -> Call {
    let limiter = RateLimiter32::new(PLENTY, still!()).expect("the burst fits");
    Box::new(move || limiter.check().is_ok())
}

fn check32_denied() -> Call {
    let limiter = RateLimiter32::new(ONE, still!()).expect("the burst fits");
    prepared(Box::new(move || limiter.check().is_err()))
}

/// A constant, so that a register for the time is no part of the difference.
#[derive(Clone, Copy, Debug)]
struct Shared;

impl Clock for Shared {
    fn now(&self) -> u64 {
        1
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

/// A token bucket whose quota can never change: what a live one is compared with.
#[derive(Debug)]
struct Constant {
    word: AtomicU64,
    origin: u64,
    start: u64,
    mult: u64,
    shift: u32,
    fraction_bits: u32,
    /// The burst, in units.
    full: u64,
}

impl Constant {
    fn new(burst: u32) -> Self {
        Self {
            word: AtomicU64::new(0),
            origin: 0,
            start: 1 << 60,
            mult: 1 << 61,
            shift: 60,
            fraction_bits: 4,
            full: u64::from(burst) << 4,
        }
    }

    fn check(&self, n: u32) -> bool {
        if u64::from(n) > self.full >> self.fraction_bits {
            return false;
        }
        let word = self.word.load(Ordering::Relaxed);
        let elapsed = Shared.now().wrapping_sub(self.origin) as i64;
        let units = (i128::from(elapsed) * i128::from(self.mult as i64)) >> (self.shift & 63);
        let at = self.start.wrapping_add_signed(units as i64);
        let owed = (word.wrapping_sub(at) as i64).max(0) as u64;
        let after = owed + (u64::from(n) << self.fraction_bits);
        if after > self.full {
            return false;
        }
        self.word.compare_exchange_weak(word, at.wrapping_add(after), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
