//! Something that changes now and then, and that threads wait for.

#[cfg(any(loom, shuttle))]
use super::model::{Condvar, Mutex, MutexGuard};
#[cfg(not(any(loom, shuttle)))]
use super::native::{Condvar, Mutex, MutexGuard};
use core::time::Duration;
use std::sync::PoisonError;

/// Counts changes. Who waits takes a lock, and whoever makes a change; nobody else does.
#[derive(Debug)]
pub(crate) struct Signal {
    changes: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    super::const_unless_loom! {
        pub(crate) const fn new() -> Self {
            Self { changes: Mutex::new(0), changed: Condvar::new() }
        }
    }

    /// How many changes there were.
    pub(crate) fn changes(&self) -> u64 {
        *self.lock()
    }

    /// Wakes all who wait, after a change.
    pub(crate) fn raise(&self) {
        let mut changes = self.lock();
        *changes = changes.wrapping_add(1);
        drop(changes);
        self.changed.notify_all();
    }

    /// Waits until there was another change than the `seen` ones, or for as long as `longest`; at times shorter.
    pub(crate) fn wait(&self, seen: u64, longest: Option<Duration>) {
        let changes = self.lock();
        if *changes != seen {
            return;
        }
        // Whether it was poisoned, woken or timed out: the caller looks again.
        match longest {
            Some(longest) => drop(self.changed.wait_timeout(changes, longest)),
            None => drop(self.changed.wait(changes)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        // Nothing panics while it is held.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
