//! A limiter on a hardware timer of 32 bits that wraps.
//!
//! `ExtendedTimer` counts it on to the 64 bits of a `Clock`.

use damper::time::{ExtendedTimer, Timer};
use damper::{Quota, RateLimiter, TokenBucket};
use std::sync::atomic::{AtomicU32, Ordering};

/// Stands for the timer's register: 32,768 ticks a second, and back to zero after 36 hours.
static REGISTER: AtomicU32 = AtomicU32::new(u32::MAX - 2_000);

#[derive(Debug)]
struct RealTimeCounter;

impl Timer for RealTimeCounter {
    const HERTZ: u64 = 32_768;

    fn count(&self) -> u32 {
        REGISTER.load(Ordering::Relaxed)
    }
}

/// Right as long as the program reads it once in every half of the timer's period: in 18 hours.
static TIME: ExtendedTimer<RealTimeCounter> = ExtendedTimer::new(RealTimeCounter);

/// One message every quarter of a second, two at once.
static MESSAGES: RateLimiter<TokenBucket, &ExtendedTimer<RealTimeCounter>> =
    RateLimiter::with_clock(Quota::per_second(4).burst(2), &TIME);

fn main() {
    let mut sent = 0;
    // A second passes, in which the register wraps.
    for _ in 0..32_768 / 512 {
        let at = REGISTER.fetch_add(512, Ordering::Relaxed);
        if let Ok(allowed) = MESSAGES.check() {
            sent += 1;
            println!("register {at:#010x}: message {sent} sent, {} left", allowed.remaining());
        }
    }
    println!("{} in a second, and {}", sent, MESSAGES.check().expect_err("the bucket is empty"));
    assert_eq!(sent, 2 + 3, "the burst, and what dripped in between the first check and the last");
}
