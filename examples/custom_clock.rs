//! A clock of one's own: a timer of 32 bits that wraps, as firmware has it.

use damper::{Clock, Quota, RateLimiter, TokenBucket};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Stands for the timer's register: 32,768 ticks a second, and back to zero after 36 hours.
static REGISTER: AtomicU32 = AtomicU32::new(u32::MAX - 2_000);

#[derive(Debug)]
struct Timer;

/// Ticks with the wraps counted: the last reading in 64 bits.
static LAST: AtomicU64 = AtomicU64::new(0);

impl Clock for Timer {
    /// Extends the register to 64 bits; right as long as somebody reads it once in 36 hours.
    fn now(&self) -> u64 {
        let extended = |last: u64| last + u64::from(REGISTER.load(Ordering::Relaxed).wrapping_sub(last as u32));
        // Nothing else is published through it, and a reading that lost the race reads again.
        let previous = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(extended(last)));
        previous.map_or_else(|last| last, extended)
    }

    fn frequency(&self) -> u64 {
        32_768
    }
}

/// One message every quarter of a second, two at once.
static MESSAGES: RateLimiter<TokenBucket, Timer> = RateLimiter::with_clock(Quota::per_second(4).burst(2), Timer);

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
