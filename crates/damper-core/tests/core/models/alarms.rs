//! A timer on a manual clock, for futures that sleep.

use damper::ManualClock;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A timer on the manual clock.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    pub(crate) clock: Arc<ManualClock>,
    frequency: u64,
    alarms: Arc<Mutex<Vec<(u64, Waker)>>>,
}

impl Timer {
    /// Creates a timer of this many ticks a second.
    pub(crate) fn new(frequency: u64) -> Self {
        Self { clock: Arc::new(ManualClock::with_frequency(frequency)), frequency, alarms: Arc::default() }
    }

    pub(crate) fn now(&self) -> u64 {
        damper::Clock::now(&*self.clock)
    }

    /// Advances to the next alarm, at most to `target`.
    pub(crate) fn advance_towards(&self, target: u64) {
        let next = self.alarms.lock().unwrap().iter().map(|&(due, _)| due).min().unwrap_or(target);
        self.clock.advance_ticks(next.clamp(self.now(), target) - self.now());
        let due = self.alarms.lock().unwrap().extract_if(.., |&mut (due, _)| due <= self.now()).collect::<Vec<_>>();
        for (_, waker) in due {
            waker.wake();
        }
    }
}

/// A sleep on the timer.
#[derive(Debug)]
pub(crate) struct Sleeping {
    timer: Timer,
    due: u64,
}

impl Future for Sleeping {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.timer.now() >= self.due {
            return Poll::Ready(());
        }
        self.timer.alarms.lock().unwrap().push((self.due, context.waker().clone()));
        Poll::Pending
    }
}

impl damper::time::Sleep for Timer {
    type Sleeping = Sleeping;

    fn sleep(&self, duration: Duration) -> Sleeping {
        let ticks = (duration.as_nanos() * u128::from(self.frequency)).div_ceil(1_000_000_000);
        Sleeping { timer: self.clone(), due: self.now() + u64::try_from(ticks).unwrap() }
    }
}

/// Notes that a task was woken.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Flag {
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}
