//! A signal that threads wait for until a state changes.
//!
//! A waiter and a thread that changes the state each write, fence (`SeqCst`) and then read what the other one wrote. The
//! waiter counts itself and then reads the state. The other thread changes the state and then looks for waiters. Without
//! both fences a wake-up could be lost.

#[cfg(any(loom, shuttle))]
use super::model::{Condvar, Mutex, MutexGuard};
#[cfg(not(any(loom, shuttle)))]
use super::native::{Condvar, Mutex, MutexGuard};
use super::{AtomicUsize, Ordering, fence};
use core::time::Duration;
use std::sync::PoisonError;

/// A counter of changes. Only waiters and threads that signal a change take its lock.
#[derive(Debug)]
pub(crate) struct Signal {
    changes: Mutex<u64>,
    changed: Condvar,
    /// The threads that have a [`Waiter`].
    waiters: AtomicUsize,
}

/// Counts a thread that may wait, until it is dropped.
#[derive(Debug)]
struct Waiter<'a>(&'a Signal);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed: counted too long, a thread costs a needless signal.
        self.0.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Signal {
    super::const_unless_loom! {
        pub(crate) const fn new() -> Self {
            Self { changes: Mutex::new(0), changed: Condvar::new(), waiters: AtomicUsize::new(0) }
        }
    }

    /// Blocks the thread for as long as `remaining` returns, and calls it again after every change.
    ///
    /// `None` waits for the next change.
    pub(crate) fn wait_out(&self, remaining: impl Fn() -> Option<Duration>) {
        if remaining() == Some(Duration::ZERO) {
            return;
        }
        // Before `remaining` looks at what changes: a change after that look sees that this thread waits. loom-tests:
        // waiting::refund_wakes_a_waiter.
        let _waiter = self.waiter();
        loop {
            // The changes first: one after the look ends the wait. loom-tests: waiting::quota_change_wakes_a_waiter.
            let seen = self.changes();
            match remaining() {
                Some(Duration::ZERO) => return,
                wait => self.wait(seen, wait),
            }
        }
    }

    /// Counts this thread as one that may wait for what [`raise_for_waiters`](Self::raise_for_waiters) signals.
    fn waiter(&self) -> Waiter<'_> {
        // ORDERING: Relaxed, with the SeqCst fence that pairs with the one in `raise_for_waiters`: either this thread
        // sees the change when it looks afterwards, or the other one sees that it waits. loom-tests:
        // waiting::refund_wakes_a_waiter.
        self.waiters.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Waiter(self)
    }

    /// Wakes all waiters like [`raise`](Self::raise). Without a waiter it takes no lock.
    pub(crate) fn raise_for_waiters(&self) {
        // ORDERING: the SeqCst fence orders the caller's change before this load of the waiters; it pairs with the one in
        // `waiter`. loom-tests: waiting::refund_wakes_a_waiter.
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) > 0 {
            self.raise();
        }
    }

    /// Returns the number of changes so far.
    pub(super) fn changes(&self) -> u64 {
        *self.lock()
    }

    /// Wakes all waiters, after a change.
    pub(crate) fn raise(&self) {
        let mut changes = self.lock();
        *changes = changes.wrapping_add(1);
        drop(changes);
        self.changed.notify_all();
    }

    /// Waits until the number of changes differs from `seen`, or for `longest`. It may return earlier.
    pub(super) fn wait(&self, seen: u64, longest: Option<Duration>) {
        let changes = self.lock();
        if *changes != seen {
            return;
        }
        // The result does not matter: the caller looks again.
        match longest {
            Some(longest) => drop(self.changed.wait_timeout(changes, longest)),
            None => drop(self.changed.wait(changes)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        // No code panics while it holds the lock.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
