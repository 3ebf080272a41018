//! Lets one test at a time have the machine.

use std::sync::{Mutex, MutexGuard, PoisonError};

static MACHINE: Mutex<()> = Mutex::new(());

/// Keeps the other tests of this program waiting until it is dropped.
#[derive(Debug)]
pub struct Exclusive {
    _guard: MutexGuard<'static, ()>,
}

/// Waits until no other test of this program measures.
#[must_use]
pub fn exclusive() -> Exclusive {
    Exclusive { _guard: MACHINE.lock().unwrap_or_else(PoisonError::into_inner) }
}
