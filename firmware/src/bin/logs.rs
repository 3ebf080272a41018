//! A bus that fails all the time, and a log that stays readable.
//!
//! The main loop and an interrupt report the same failure, a thousand times a second and more. One limit in words of 32 bits lets ten
//! lines a second pass. Each says how many were suppressed before it, and the program checks that the counts are exact.
//!
//! The log is the emulator's console. With `defmt` the line would be `defmt_limited!(&BUS_ERRORS, warn!("bus error {}", code))`.
#![no_std]
#![no_main]

use core::cell::Cell;
use cortex_m::Peripherals;
use cortex_m_rt::{entry, exception};
use cortex_m_semihosting::hprintln;
use critical_section::Mutex;
use damper_core::{Clock, Quota, RateLimiter32};
use damper_firmware::board::{self, MILLI, TIME, Time};
use damper_firmware::claims::Claims;
use damper_log::LogLimit;

/// Ten lines a second, and two at once.
static BUS_ERRORS: LogLimit<RateLimiter32<&Time>> =
    LogLimit::with_limiter(match RateLimiter32::new(Quota::per_second(10).burst(2), &TIME) {
        Ok(limiter) => limiter,
        Err(_) => panic!("the burst does not fit 32 bits"), // a compile error
    });

const RUN: u64 = 450 * MILLI;

/// The lines and counts that were logged, for the claims.
#[derive(Clone, Copy)]
struct Logged {
    lines: u64,
    suppressed: u64,
    interrupts: u64,
}

static LOGGED: Mutex<Cell<Logged>> = Mutex::new(Cell::new(Logged { lines: 0, suppressed: 0, interrupts: 0 }));

fn note(change: impl FnOnce(&mut Logged)) {
    critical_section::with(|section| {
        let mut logged = LOGGED.borrow(section).get();
        change(&mut logged);
        LOGGED.borrow(section).set(logged);
    });
}

/// Logs that the bus failed. The main loop and the interrupt both call it.
fn log_bus_error(from: &str) {
    if let Some(suppressed) = BUS_ERRORS.check() {
        hprintln!("  bus error, noticed by the {}{}", from, suppressed);
        note(|logged| {
            logged.lines += 1;
            logged.suppressed += suppressed.get().unwrap_or(0);
        });
    }
}

/// Every millisecond.
#[exception]
fn SysTick() {
    note(|logged| logged.interrupts += 1);
    log_bus_error("interrupt");
}

#[entry]
fn main() -> ! {
    let mut systick = Peripherals::take().expect("once").SYST;
    board::start_timer(u32::MAX);
    let started = TIME.now();
    board::start_interrupts(&mut systick, MILLI as u32);
    let mut asked = 0;
    while TIME.now() - started < RUN {
        log_bus_error("main loop");
        asked += 1;
    }
    board::stop_interrupts(&mut systick);
    let rest = BUS_ERRORS.take_suppressed();
    hprintln!("logs: the bus is back{}", rest);

    let logged = critical_section::with(|section| LOGGED.borrow(section).get());
    let all = logged.lines + logged.suppressed + rest.get().unwrap_or(0);
    let mut claims = Claims::new();
    claims.claim(logged.lines == 6, "two lines pass at once, and four more in 450 ms");
    claims.claim(all == asked + logged.interrupts, "every other failure is counted once");
    claims.claim(all > 1_000, "the log would have been unreadable");
    claims.exit()
}
