//! Instructions per operation, in an emulator that takes a nanosecond for each (`-icount shift=0`).
//!
//! `SysTick` counts one in 40.
//!
//! 10,000 calls of each, less as many of nothing. The limiters' clock is the bare register of a timer ([`Timer0`],
//! itself a row); the last rows have the clock that firmware would take, [`Time`], which extends it to 64 bits. The
//! rows ask for yes or no and nothing else. On a processor the clock cycles are more, and the proportions alike.
#![no_std]
#![no_main]

use core::hint::black_box;
use cortex_m::Peripherals;
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::entry;
use cortex_m_semihosting::hprintln;
use damper_core::keyed::KeyedSlots;
use damper_core::time::Seed;
use damper_core::{
    BreakerConfig, CircuitBreaker, CircuitBreaker32, Clock, KeyedLimiter, Quota, RateLimiter, RateLimiter32,
    TokenBucket,
};
use damper_firmware::board::{self, TIME, Time, Timer0};
use damper_firmware::claims::Claims;

const CALLS: u32 = 10_000;

/// Nanoseconds of a tick of `SysTick`, and so instructions.
const INSTRUCTIONS_PER_TICK: u32 = 1_000_000_000 / board::HERTZ;

/// More than is asked for, and hardly anything.
const AMPLE: Quota = Quota::per_second(10).burst(1_000_000);
const SCARCE: Quota = Quota::per_hour(1).burst(1);

static AMPLE_64: RateLimiter<TokenBucket, Timer0> = RateLimiter::with_clock(AMPLE, Timer0);
static SCARCE_64: RateLimiter<TokenBucket, Timer0> = RateLimiter::with_clock(SCARCE, Timer0);
static TIMED_64: RateLimiter<TokenBucket, &Time> = RateLimiter::with_clock(AMPLE, &TIME);
static BREAKER_64: CircuitBreaker<Timer0> = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, Timer0);
static OPEN_64: CircuitBreaker<Timer0> = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, Timer0);

static AMPLE_32: RateLimiter32<Timer0> = limiter_32(AMPLE);
static SCARCE_32: RateLimiter32<Timer0> = limiter_32(SCARCE);
static TIMED_32: RateLimiter32<&Time> = match RateLimiter32::new(AMPLE, &TIME) {
    Ok(limiter) => limiter,
    Err(_) => panic!(),
};
static BREAKER_32: CircuitBreaker32<Timer0> = breaker_32();
static OPEN_32: CircuitBreaker32<Timer0> = breaker_32();

static SLOTS: KeyedSlots<8> = KeyedSlots::new();
static TABLE: KeyedLimiter<u16, Timer0, Seed> = KeyedLimiter::in_slots(AMPLE, &SLOTS, Timer0, Seed::new(1, 2));

const fn limiter_32(quota: Quota) -> RateLimiter32<Timer0> {
    match RateLimiter32::new(quota, Timer0) {
        Ok(limiter) => limiter,
        Err(_) => panic!(),
    }
}

const fn breaker_32() -> CircuitBreaker32<Timer0> {
    match CircuitBreaker32::new(BreakerConfig::DEFAULT, Timer0) {
        Ok(breaker) => breaker,
        Err(_) => panic!(),
    }
}

/// Another one at every call.
fn next_key() -> u16 {
    // It counts down, and is never read twice within a tick.
    SYST::get_current() as u16
}

/// Ticks of many calls.
#[inline(never)]
fn ticks(call: impl Fn() -> bool) -> u32 {
    let before = SYST::get_current();
    for _ in 0..CALLS {
        black_box(call());
    }
    // It counts down, in 24 bits.
    before.wrapping_sub(SYST::get_current()) & 0x00FF_FFFF
}

/// The rows, each with the most instructions that it may take on a Cortex-M4.
struct Rows {
    of_nothing: u32,
    claims: Claims,
}

impl Rows {
    fn row(&mut self, name: &str, at_most: Option<u32>, call: impl Fn() -> bool) {
        // Once before, for what is computed at first use.
        black_box(call());
        let instructions = (ticks(call) - self.of_nothing) * INSTRUCTIONS_PER_TICK / CALLS;
        match at_most {
            // A Cortex-M0 has no compare-and-swap, and no multiplication to 64 bits.
            Some(most) if cfg!(target_has_atomic = "32") => {
                self.claims.claim(instructions <= most, format_args!("{name:<44}{instructions:>5}, at most {most}"));
            }
            _ => hprintln!("          {:<44}{:>5}", name, instructions),
        }
    }
}

#[entry]
fn main() -> ! {
    let mut systick = Peripherals::take().expect("once").SYST;
    systick.set_clock_source(SystClkSource::Core);
    systick.set_reload(0x00FF_FFFF);
    systick.clear_current();
    systick.enable_counter();
    board::start_timer(u32::MAX);
    for _ in 0..5 {
        _ = OPEN_64.call(|| Err::<(), _>(()));
        _ = OPEN_32.call(|| Err::<(), _>(()));
    }

    hprintln!("instructions per operation");
    let mut rows = Rows { of_nothing: ticks(|| true), claims: Claims::new() };
    rows.row("clock: the bare register", None, || Timer0.now() > 0);
    rows.row("clock: extended to 64 bits", None, || TIME.now() > 0);
    rows.row("limiter, 32-bit word: allowed", Some(40), || AMPLE_32.check().is_ok());
    rows.row("limiter, 32-bit word: denied", None, || SCARCE_32.check().is_ok());
    rows.row("limiter, 64-bit word: allowed", Some(130), || AMPLE_64.check().is_ok());
    rows.row("limiter, 64-bit word: denied", None, || SCARCE_64.check().is_ok());
    rows.row("breaker, 32-bit word: closed, a success", None, || BREAKER_32.call(|| Ok::<_, ()>(())).is_ok());
    rows.row("breaker, 32-bit word: open", None, || OPEN_32.call(|| Ok::<_, ()>(())).is_ok());
    rows.row("breaker, 64-bit word: closed, a success", None, || BREAKER_64.call(|| Ok::<_, ()>(())).is_ok());
    rows.row("breaker, 64-bit word: open", None, || OPEN_64.call(|| Ok::<_, ()>(())).is_ok());
    rows.row("table: a key that is known, allowed", None, || TABLE.check(black_box(&7)).is_ok());
    rows.row("table: a key that takes an idle slot", None, || TABLE.check(&next_key()).is_ok());
    rows.row("limiter, 32-bit word, on the extended clock", None, || TIMED_32.check().is_ok());
    rows.row("limiter, 64-bit word, on the extended clock", None, || TIMED_64.check().is_ok());
    rows.claims.exit()
}
