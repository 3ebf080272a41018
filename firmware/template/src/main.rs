//! Reads a sensor through a breaker and sends alarms within a limit.
//!
//! Copy this folder, then change `memory.x` and `src/board.rs` for your board and this file for your program.
#![no_std]
#![no_main]

mod board;

use board::{TIME, Time};
use core::time::Duration;
use cortex_m as _; // links its critical section, which a Cortex-M0 needs for every word
use cortex_m_rt::entry;
use damper::{BreakerConfig, CircuitBreaker32, Quota, RateLimiter32};

// The README shows the code from here to the end.

/// Ten alarms a second, five at once.
static ALARMS: RateLimiter32<&Time> = match RateLimiter32::new(Quota::per_second(10).burst(5), &TIME) {
    Ok(limiter) => limiter,
    Err(_) => panic!("the burst does not fit 32 bits"), // a compile error
};

/// After three consecutive failures the bus is left alone for 100 ms.
static BUS: CircuitBreaker32<&Time> = match CircuitBreaker32::new(BUS_CONFIG, &TIME) {
    Ok(breaker) => breaker,
    Err(_) => panic!("the settings do not fit 32 bits"),
};
const BUS_CONFIG: BreakerConfig =
    match BreakerConfig::builder().failure_threshold(3).cooldown(Duration::from_millis(100)).build() {
        Ok(config) => config,
        Err(_) => panic!("a setting is out of range"),
    };

#[entry]
fn main() -> ! {
    board::start();
    loop {
        // An open breaker returns at once and does not touch the bus.
        if let Ok(celsius) = BUS.call(board::read_sensor)
            && celsius > 30
            && ALARMS.check().is_ok()
        {
            board::send_alarm(celsius);
        }
    }
}
