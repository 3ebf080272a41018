//! The thread that refreshes a coarse clock.

use super::{Clock, CoarseClock};
use crate::OutOfRange;
use core::convert::Infallible;
use core::ops::Deref;
use core::time::Duration;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A thread that refreshes a [`CoarseClock`] from [`Instant`], for as long as this value lives.
///
/// Dropping it, or [`stop`](Self::stop), stops the thread and waits until it has ended, which takes no longer than one
/// refresh; the clock then stands still where it is. The next ticker goes on from there, so that the pause between
/// the two is not counted.
///
/// If the system runs the thread late, the time of all limits on the clock stands still until then, and catches up at once.
/// [`CoarseClock`] says what that allows. Give the thread a core or a priority where that matters.
///
/// Several tickers on one clock are harmless: it follows the one that is furthest ahead, and never runs faster than
/// one alone would make it.
#[must_use = "the clock stops when its ticker is dropped"]
#[derive(Debug)]
#[cfg(feature = "std")]
pub struct CoarseTicker {
    /// Nothing is ever sent: the thread ends when this end of the channel is gone.
    running: Option<Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
    resolution: Duration,
}

impl CoarseTicker {
    /// Starts a thread that refreshes `clock` every `resolution`.
    ///
    /// `clock` is a `&'static CoarseClock` or an `Arc<CoarseClock>`.
    ///
    /// The system wakes a thread some 50 µs late, so a resolution far below a millisecond costs much and brings little.
    ///
    /// # Errors
    ///
    /// The system's error if it started no thread. [`InvalidInput`](io::ErrorKind::InvalidInput) if the resolution is zero: the
    /// [`OutOfRange`] is the [inner error](io::Error::get_ref).
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{CoarseClock, CoarseTicker, Quota, RateLimiter};
    /// use std::sync::Arc;
    ///
    /// let clock = Arc::new(CoarseClock::new());
    /// let limiter = RateLimiter::with_clock(Quota::per_second(50).burst(10), Arc::clone(&clock));
    /// let ticker = CoarseTicker::start(clock, Duration::from_millis(5))?;
    /// assert!(limiter.check().is_ok());
    /// # drop(ticker);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(clock: impl Deref<Target = CoarseClock> + Send + 'static, resolution: Duration) -> io::Result<Self> {
        OutOfRange::check_duration("resolution", resolution, Duration::from_nanos(1)..=Duration::MAX)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let (running, stopped) = mpsc::channel();
        let (resumed, started) = (Duration::from_nanos(clock.now()), Instant::now());
        let refresh = move || {
            while stopped.recv_timeout(resolution) == Err(RecvTimeoutError::Timeout) {
                clock.advance_to(resumed.saturating_add(started.elapsed()));
            }
        };
        let thread = thread::Builder::new().name("damper-ticker".into()).spawn(refresh)?;
        Ok(Self { running: Some(running), thread: Some(thread), resolution })
    }

    /// Stops the thread and waits until it has ended; the same as dropping the ticker.
    pub fn stop(self) {
        drop(self);
    }

    /// The time between two refreshes, as given to [`start`](Self::start).
    #[must_use]
    pub fn resolution(&self) -> Duration {
        self.resolution
    }
}

impl Drop for CoarseTicker {
    fn drop(&mut self) {
        self.running = None;
        if let Some(thread) = self.thread.take() {
            // The thread has nothing to say, and nothing to panic about.
            _ = thread.join();
        }
    }
}
