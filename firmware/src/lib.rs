//! The board, its clock and the claims that the programs in `src/bin` share.
#![no_std]

pub mod board;
pub mod claims;
pub mod envelope;
pub mod words;

use core::panic::PanicInfo;
use cortex_m_semihosting::{debug, hprintln};

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}
