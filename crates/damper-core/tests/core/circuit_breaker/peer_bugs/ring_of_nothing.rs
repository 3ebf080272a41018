//! A ring of unchecked length, under a spin lock that stays locked after a panic.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct RingOfNothing {
    is_locked: AtomicBool,
    ring: RefCell<(Vec<bool>, usize)>,
}

impl RingOfNothing {
    pub(crate) fn new(calls: usize) -> Self {
        Self { is_locked: AtomicBool::new(false), ring: RefCell::new((vec![false; calls], 0)) }
    }

    /// Returns how many of the calls failed, or `None` where the original spins for ever.
    pub(crate) fn record(&self, failed: bool) -> Option<usize> {
        let mut patience = 1_000_000;
        while self.is_locked.swap(true, Ordering::Acquire) {
            patience -= 1;
            if patience == 0 {
                return None;
            }
            std::hint::spin_loop();
        }
        let (calls, next) = &mut *self.ring.borrow_mut();
        *next = (*next + 1) % calls.len();
        calls[*next] = failed;
        let failures = calls.iter().filter(|failed| **failed).count();
        self.is_locked.store(false, Ordering::Release);
        Some(failures)
    }
}
