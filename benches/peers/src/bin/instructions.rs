//! Runs one kind of decision so many times, for callgrind to count the instructions of: `benches/instructions` does.
//!
//! The clock is one relaxed load, so that the decision is what is counted.

use damper::{Clock, Quota, RateLimiter, TokenBucket};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

static NOW: AtomicU64 = AtomicU64::new(1);

#[derive(Clone, Copy, Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> u64 {
        NOW.load(Ordering::Relaxed)
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

/// The same decision by a quota that can never change: what a live one is compared with.
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
        let elapsed = Still.now().wrapping_sub(self.origin) as i64;
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

#[inline(never)]
fn live(limiter: &RateLimiter<TokenBucket, Still>) -> bool {
    limiter.check().is_ok()
}

#[inline(never)]
fn constant(bucket: &Constant) -> bool {
    bucket.check(1)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (name, calls) = (arguments.next(), arguments.next().and_then(|calls| calls.parse::<u32>().ok()));
    let (Some(name), Some(calls)) = (name, calls) else {
        eprintln!("usage: instructions live_allowed|live_denied|constant_allowed|constant_denied CALLS");
        return ExitCode::from(2);
    };
    // Enough for every call, or for none.
    let burst = if name.ends_with("allowed") { u32::MAX } else { 1 };
    let limiter = RateLimiter::with_clock(Quota::per_hour(1).burst(burst), Still);
    let bucket = Constant::new(burst);
    let _ = (limiter.check(), bucket.check(1));
    let allowed = match &*name {
        "live_allowed" | "live_denied" => (0..calls).filter(|_| live(black_box(&limiter))).count(),
        _ => (0..calls).filter(|_| constant(black_box(&bucket))).count(),
    };
    assert_eq!(allowed, if burst == 1 { 0 } else { calls as usize }, "every call is of the kind that is counted");
    ExitCode::SUCCESS
}
