//! The receipt of a request.

use super::{ReceivedDeadline, SpecifiedDeadline};
use damper_core::deadline::Deadline;
use damper_core::time::{Clock, DefaultClock};
use std::fmt;
use std::time::{Duration, SystemTime};

/// The receipt of a request, from which its deadline counts even if it is read later.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// use core::time::Duration;
/// use damper::ManualClock;
/// use damper::mesh::{Receipt, SpecifiedDeadline};
///
/// let clock = ManualClock::new();
/// let receipt = Receipt::with_clock(&clock);
/// clock.advance(Duration::from_secs(1)); // the body arrives
/// let deadline = receipt.deadline(SpecifiedDeadline::after(Duration::from_secs(5)));
/// assert_eq!(deadline.remaining(), Duration::from_secs(4));
/// ```
#[derive(Clone, Copy)]
pub struct Receipt<C = DefaultClock> {
    /// A deadline that passed at the receipt. Its elapsed time is that since the receipt.
    began: Deadline<C>,
    clock: C,
    date: SystemTime,
}

impl Receipt {
    /// Records that a request is received now.
    #[must_use]
    pub fn now() -> Self {
        Self::with_clock(damper_core::Monotonic)
    }
}

impl<C: Clock + Clone> Receipt<C> {
    /// Records that a request is received now, by a clock of your own.
    ///
    /// A reference to a clock is a clock too.
    #[must_use]
    pub fn with_clock(clock: C) -> Self {
        Self::dated(clock, SystemTime::now())
    }

    /// Records a receipt like [`with_clock`](Self::with_clock), at a known date.
    ///
    /// Deadlines that are instants are compared with the date.
    #[must_use]
    pub fn dated(clock: C, date: SystemTime) -> Self {
        Self { began: Deadline::with_clock(Duration::ZERO, clock.clone()), clock, date }
    }

    /// Returns the time since the receipt, rounded up to the clock's tick.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the present date.
    pub(super) fn date_now(&self) -> SystemTime {
        self.date.checked_add(self.elapsed()).unwrap_or(self.date)
    }

    pub(super) fn clock(&self) -> &C {
        &self.clock
    }

    /// Returns the deadline of the received request.
    #[must_use]
    pub fn deadline(&self, specified: SpecifiedDeadline) -> ReceivedDeadline<C> {
        let budget = specified.budget(self.date);
        ReceivedDeadline::new(specified, budget, self.clone())
    }

    /// Returns the deadline after this time, which may be zero.
    pub(crate) fn within(&self, budget: Duration) -> ReceivedDeadline<C> {
        ReceivedDeadline::new(SpecifiedDeadline::after(budget), budget, self.clone())
    }
}

impl<C: Clock> fmt::Debug for Receipt<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt")
            .field("elapsed", &self.began.elapsed())
            .field("date", &self.date)
            .finish_non_exhaustive()
    }
}
