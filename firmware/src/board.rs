//! The board: Arm's MPS2 with a Cortex-M4 (or M3), as QEMU has it.
//!
//! This is the file to change for another.
//!
//! It has the only `unsafe` of these programs: a board's registers are memory that is there by the manual, not by
//! Rust's rules.

use core::ptr;
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use damper_core::Clock;
use damper_core::time::{ExtendedTimer, FixedFrequency, Timer};

/// Ticks per second of the processor, of `SysTick`, and of the timers.
pub const HERTZ: u32 = 25_000_000;

/// Ticks per millisecond.
pub const MILLI: u64 = HERTZ as u64 / 1_000;

// The registers of the first of the board's timers (CMSDK), which counts down in 32 bits.
const CONTROL: *mut u32 = 0x4000_0000 as *mut u32;
const VALUE: *mut u32 = 0x4000_0004 as *mut u32;
const RELOAD: *mut u32 = 0x4000_0008 as *mut u32;

/// The lowest `BITS` of the first timer.
#[derive(Clone, Copy, Debug)]
pub struct Timer0<const BITS: u32 = 32>;

impl<const BITS: u32> Timer for Timer0<BITS> {
    const HERTZ: u64 = HERTZ as u64;
    const BITS: u32 = BITS;

    #[inline]
    fn count(&self) -> u32 {
        // SAFETY: the register exists on this board, and reading it changes nothing. A memory-mapped register has no safe
        // access, and this board has no crate for its registers.
        !unsafe { ptr::read_volatile(VALUE) }
    }
}

/// The bare register as a clock: the cheapest one, correct for one period of 171 s.
///
/// `instructions` measures with it.
impl Clock for Timer0 {
    #[inline]
    fn now(&self) -> u64 {
        self.count().into()
    }

    #[inline]
    fn frequency(&self) -> u64 {
        HERTZ.into()
    }
}

impl FixedFrequency for Timer0 {
    const HERTZ: u64 = HERTZ as u64;
}

/// The clock of all limits and breakers.
pub type Time = ExtendedTimer<Timer0>;

/// The time since the timer was started, and where it stood then.
///
/// `SysTick`, or the main loop, reads it more often than every 86 s.
pub static TIME: Time = ExtendedTimer::new(Timer0);

/// Starts the timer so that it wraps after so many ticks, and then every 2^32.
pub fn start_timer(ticks: u32) {
    // SAFETY: the registers exist on this board, and only this function writes them. They have no safe access, as above.
    unsafe {
        ptr::write_volatile(RELOAD, u32::MAX);
        ptr::write_volatile(VALUE, ticks);
        ptr::write_volatile(CONTROL, 1);
    }
}

/// Lets `SysTick` interrupt every `ticks`.
pub fn start_interrupts(timer: &mut SYST, ticks: u32) {
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(ticks - 1);
    timer.clear_current();
    timer.enable_counter();
    timer.enable_interrupt();
}

/// Ends what [`start_interrupts`] began.
pub fn stop_interrupts(timer: &mut SYST) {
    timer.disable_interrupt();
    timer.disable_counter();
}
