//! The board: QEMU's `virt` with two harts, which run in machine mode.
//!
//! It has the only `unsafe` of the program, for registers that are memory by the manual, and the start of a hart.

use core::arch::{asm, global_asm};
use core::fmt;
use core::ptr;
use damper_core::Clock;

/// Ticks per second of the timer that both harts read.
pub(crate) const HERTZ: u32 = 10_000_000;

const TIME: *const u64 = 0x0200_BFF8 as *const u64;
const UART: *mut u8 = 0x1000_0000 as *mut u8;
const FINISHER: *mut u32 = 0x0010_0000 as *mut u32;

// A stack of 64 KiB for each hart, from the end. Others than the first two sleep.
global_asm!(
    ".section .text.start",
    ".globl _start",
    "_start:",
    "    csrr a0, mhartid",
    "    li t0, 2",
    "    bgeu a0, t0, 1f",
    "    la sp, stacks_end",
    "    slli t1, a0, 16",
    "    sub sp, sp, t1",
    "    call start",
    "1:  wfi",
    "    j 1b",
);

/// Called by a hart on its own stack.
// SAFETY: no other symbol of the program has this name.
#[unsafe(no_mangle)]
extern "C" fn start(hart: usize) -> ! {
    crate::main(hart)
}

/// The timer of the board, one for all harts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time;

impl Clock for Time {
    #[inline]
    fn now(&self) -> u64 {
        // SAFETY: the register exists on this board, and reading it changes nothing. A memory-mapped register has no safe access.
        unsafe { ptr::read_volatile(TIME) }
    }

    #[inline]
    fn frequency(&self) -> u64 {
        HERTZ.into()
    }
}

/// The serial port, to which only the first hart writes.
pub(crate) struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: the register exists on this board, and takes a byte at any time in the emulator.
            unsafe { ptr::write_volatile(UART, byte) };
        }
        Ok(())
    }
}

/// Sleeps until the emulator ends.
pub(crate) fn sleep() -> ! {
    loop {
        // SAFETY: the instruction waits for an interrupt, and touches no memory.
        unsafe { asm!("wfi", options(nomem, nostack)) };
    }
}

/// Ends the emulator: with 0, or with 1.
pub(crate) fn exit(is_success: bool) -> ! {
    let command = if is_success { 0x5555 } else { 0x0001_3333 };
    // SAFETY: the register exists on this board; writing these values ends the emulator.
    unsafe { ptr::write_volatile(FINISHER, command) };
    sleep()
}
