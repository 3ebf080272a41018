//! A program that does as little as can be, with a limiter, a breaker or a table, or without.
//!
//! `run` builds it in each way and prints the differences.
//!
//! Each is asked as firmware asks it: yes or no. The clock is in all of them, and in the one without any.
#![no_std]
#![no_main]

use core::hint::black_box;
use core::panic::PanicInfo;
// Not that of the other programs, which prints.
#[path = "../board.rs"]
#[expect(dead_code, unreachable_pub, reason = "only the clock is used here")]
mod board;
#[cfg(any(feature = "limiter", feature = "breaker"))]
#[path = "../words.rs"]
#[expect(dead_code, unreachable_pub, reason = "as above")]
mod words;

use cortex_m_rt::entry;
use damper_core::Clock;

#[cfg(feature = "limiter")]
static MESSAGES: words::Limiter = words::limiter(damper_core::Quota::per_second(10).burst(5));

#[cfg(feature = "breaker")]
static BUS: words::Breaker = words::breaker(damper_core::BreakerConfig::DEFAULT);

/// For sixteen keys.
#[cfg(feature = "table")]
static NODES: damper_core::KeyedLimiter<u16, &board::Time, damper_core::time::Seed> = {
    static SLOTS: damper_core::keyed::KeyedSlots<8> = damper_core::keyed::KeyedSlots::new();
    let seed = damper_core::time::Seed::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);
    damper_core::KeyedLimiter::in_slots(damper_core::Quota::per_second(10).burst(5), &SLOTS, &board::TIME, seed)
};

#[entry]
fn main() -> ! {
    board::start_timer(u32::MAX);
    loop {
        let now = black_box(board::TIME.now());
        #[cfg(feature = "limiter")]
        black_box(MESSAGES.check().is_ok());
        #[cfg(feature = "breaker")]
        black_box(BUS.call(|| if now & 1 == 0 { Ok(()) } else { Err(()) }).is_ok());
        #[cfg(feature = "table")]
        black_box(NODES.check(&(now as u16)).is_ok());
        _ = now;
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}
