//! A small copy of how a change wakes a waiter, with bugs that the real one does not have.
//!
//! A door that is opened once, in the place of a quota under which there are tokens.

use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::sync::{Condvar, Mutex, MutexGuard};

/// The flaws of this copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing: for the proof that the copy is one.
    None,
    /// A waiter counts the changes after it looked at the door.
    LateCount,
    /// A change is counted without the lock.
    NoLock,
    /// A change is counted before it is made.
    EarlyRaise,
}

#[derive(Debug)]
pub struct Door {
    bug: Bug,
    open: AtomicBool,
    /// Counts the changes; under the lock, but for the bug.
    changes: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Door {
    /// A closed one.
    pub fn new(bug: Bug) -> Self {
        Self {
            bug,
            open: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            lock: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    pub fn open(&self) {
        if self.bug == Bug::EarlyRaise {
            self.raise();
        }
        self.open.store(true, Ordering::Release);
        if self.bug != Bug::EarlyRaise {
            self.raise();
        }
    }

    /// Blocks until it is open.
    pub fn wait(&self) {
        loop {
            let early = if self.bug == Bug::LateCount { None } else { Some(self.seen()) };
            if self.open.load(Ordering::Acquire) {
                return;
            }
            let seen = early.unwrap_or_else(|| self.seen());
            let lock = self.lock();
            if self.changes.load(Ordering::Acquire) == seen {
                drop(self.changed.wait(lock).unwrap());
            }
        }
    }

    fn seen(&self) -> u64 {
        let _lock = self.lock();
        self.changes.load(Ordering::Acquire)
    }

    fn raise(&self) {
        let lock = if self.bug == Bug::NoLock { None } else { Some(self.lock()) };
        self.changes.fetch_add(1, Ordering::AcqRel);
        drop(lock);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap()
    }
}
