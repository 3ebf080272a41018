//! The board: Arm's MPS2 with a Cortex-M4 (or M3), as QEMU emulates it.
//!
//! Change this file for your board.
//!
//! It needs a timer, and has the program's only `unsafe`: a register is memory that the board's manual promises.

use core::panic::PanicInfo;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use cortex_m_semihosting::{debug, hprintln};
use damper::Clock;
use damper::time::{ExtendedTimer, Timer};

/// Ticks of the timer per second.
const HERTZ: u32 = 25_000_000;

// The registers of the board's first timer (CMSDK), which counts down in 32 bits.
const CONTROL: *mut u32 = 0x4000_0000 as *mut u32;
const VALUE: *mut u32 = 0x4000_0004 as *mut u32;
const RELOAD: *mut u32 = 0x4000_0008 as *mut u32;

/// The board's first timer.
#[derive(Debug)]
pub struct Timer0;

impl Timer for Timer0 {
    const HERTZ: u64 = HERTZ as u64;

    #[inline]
    fn count(&self) -> u32 {
        // SAFETY: the register exists on this board, and reading it changes nothing. A memory-mapped register has no safe
        // access; the crate for your board wraps this.
        !unsafe { ptr::read_volatile(VALUE) }
    }
}

/// The clock of all limits and breakers.
pub type Time = ExtendedTimer<Timer0>;

/// The timer, extended to 64 bits.
///
/// Something has to read it once in every half of the timer's period (86 s here): the main loop does.
pub static TIME: Time = ExtendedTimer::new(Timer0);

/// Starts the timer.
pub fn start() {
    // SAFETY: the registers exist on this board, and only this function writes them. They have no safe access, as above.
    unsafe {
        ptr::write_volatile(RELOAD, u32::MAX);
        ptr::write_volatile(VALUE, u32::MAX);
        ptr::write_volatile(CONTROL, 1);
    }
}

// The rest stands in for devices, so that the program can be run in the emulator. Replace it.

/// How often the sensor was asked during its failure, and how many alarms were sent.
static FAILED_READS: AtomicU32 = AtomicU32::new(0);
static ALARMS_SENT: AtomicU32 = AtomicU32::new(0);

/// Reads a sensor that answers for 100 ms and fails for 100 ms; the read after that ends the program.
///
/// # Errors
///
/// When the sensor does not answer.
pub fn read_sensor() -> Result<i32, ()> {
    match TIME.now() / (u64::from(HERTZ) / 10) {
        0 => Ok(42),
        1 => {
            count(&FAILED_READS);
            Err(())
        }
        _ => finish(),
    }
}

/// Sends an alarm by radio.
pub fn send_alarm(_celsius: i32) {
    count(&ALARMS_SENT);
}

/// Adds 1. A load and a store, because a Cortex-M0 has no atomic addition; only the main loop calls it.
fn count(counter: &AtomicU32) {
    // ORDERING: Relaxed, because no other thread or interrupt reads it.
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Ends the program: with 0 if limit and breaker kept their promises, else with 1.
fn finish() -> ! {
    let (alarms, failed) = (ALARMS_SENT.load(Ordering::Relaxed), FAILED_READS.load(Ordering::Relaxed));
    hprintln!("{} alarms in 100 ms, {} reads of the failed bus", alarms, failed);
    // Five alarms at once and one every 100 ms; three failures, and at most one probe in the 100 ms after them.
    let kept = (5..=6).contains(&alarms) && (3..=4).contains(&failed);
    debug::exit(if kept { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    // The emulator is gone by now.
    loop {}
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}
