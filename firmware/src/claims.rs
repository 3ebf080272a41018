//! A program's claims about itself, and its exit status.

use core::fmt::Display;
use cortex_m_semihosting::{debug, hprintln};

/// Claims that were checked, and whether all of them held.
#[derive(Debug)]
pub struct Claims {
    all_hold: bool,
}

impl Claims {
    /// None yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "there is one of them in a program")]
    pub const fn new() -> Self {
        Self { all_hold: true }
    }

    /// Prints a claim and whether it holds.
    pub fn claim(&mut self, holds: bool, what: impl Display) {
        hprintln!("  {} {}", if holds { "ok     " } else { "FAILED " }, what);
        self.all_hold &= holds;
    }

    /// Ends the program: with 0 if all claims hold, else with 1.
    pub fn exit(self) -> ! {
        debug::exit(if self.all_hold { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
        // An emulator is gone by now.
        loop {}
    }
}
