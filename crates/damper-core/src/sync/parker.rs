//! A thread that waits to be woken by a `Waker`.

use super::Signal;
#[cfg(any(loom, shuttle))]
use super::model::thread_local;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::Waker;
use core::time::Duration;
#[cfg(not(any(loom, shuttle)))]
use std::thread_local;

/// Parks the thread that it belongs to.
///
/// It replaces `std::thread::park`, because that of a model checker loses a wake-up that comes while the thread waits for
/// a lock.
#[derive(Clone, Debug)]
pub(crate) struct Parker(Arc<WakeUps>);

#[derive(Debug)]
struct WakeUps(Signal);

impl Wake for WakeUps {
    fn wake(self: Arc<Self>) {
        self.0.raise();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.raise();
    }
}

thread_local! {
    static PARKER: Parker = Parker::new();
}

impl Parker {
    fn new() -> Self {
        Self(Arc::new(WakeUps(Signal::new())))
    }

    /// Returns the parker of this thread, or a new one while the thread's locals are dropped.
    pub(crate) fn of_this_thread() -> Self {
        PARKER.try_with(Clone::clone).unwrap_or_else(|_| Self::new())
    }

    /// Returns a waker that wakes the thread.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.0))
    }

    /// Returns how often the thread was woken.
    pub(crate) fn wake_ups(&self) -> u64 {
        self.0.0.changes()
    }

    /// Waits until the thread was woken more often than `seen`, or for `longest`. It may return earlier.
    pub(crate) fn wait(&self, seen: u64, longest: Option<Duration>) {
        self.0.0.wait(seen, longest);
    }
}
