//! The deadline of a request that was received.

use super::{DeadlineReport, Expired, Iso8601, Receipt, SpecifiedDeadline};
use damper_core::deadline::Deadline;
use damper_core::time::{Clock, DefaultClock};
use std::fmt;
use std::time::Duration;

/// The deadline of a request that was received: how it was specified, and how much of its time is left.
#[derive(Clone)]
pub struct ReceivedDeadline<C = DefaultClock> {
    specified: SpecifiedDeadline,
    budget: Duration,
    receipt: Receipt<C>,
}

/// Budgets beyond this are sent as instants.
const LONGEST_DURATION_SENT: Duration = Duration::from_hours(1);

impl<C: Clock + Clone> ReceivedDeadline<C> {
    pub(super) fn new(specified: SpecifiedDeadline, budget: Duration, receipt: Receipt<C>) -> Self {
        Self { specified, budget, receipt }
    }

    /// Returns the deadline as it was specified.
    #[must_use]
    pub fn specified(&self) -> &SpecifiedDeadline {
        &self.specified
    }

    /// Returns the time since the request was received, rounded up to the clock's tick.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.receipt.elapsed()
    }

    /// Returns the time that is left, rounded down to the clock's tick; zero once the deadline has passed.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.budget.saturating_sub(self.elapsed())
    }

    /// Returns whether the deadline has passed.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Returns the elapsed time, unless the deadline has passed: both by one reading of the clock.
    pub(crate) fn check(&self) -> Result<Duration, Expired> {
        let elapsed = self.elapsed();
        if elapsed < self.budget { Ok(elapsed) } else { Err(Expired { report: self.report_after(elapsed), elapsed }) }
    }

    /// Returns the rest of the time as a deadline of damper, which was set now.
    #[must_use]
    pub fn deadline(&self) -> Deadline<C> {
        Deadline::with_clock(self.remaining(), self.receipt.clock().clone())
    }

    /// Returns the deadline report of an answer now.
    #[must_use]
    pub fn report(&self) -> DeadlineReport {
        self.report_after(self.elapsed())
    }

    /// The report at a moment that another decision was made on.
    pub(crate) fn report_after(&self, elapsed: Duration) -> DeadlineReport {
        DeadlineReport::new(self.specified.clone(), self.budget, elapsed)
    }

    /// Returns whichever passes first.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        if other.remaining() < self.remaining() { other } else { self }
    }

    /// Returns the deadline for a call that is made for this request: the time that is left now.
    ///
    /// `None` if that is less than a millisecond.
    ///
    /// An instant is passed on as it came, and more than an hour becomes one.
    #[must_use]
    pub fn downstream(&self) -> Option<SpecifiedDeadline> {
        let left = self.remaining();
        if left < Duration::from_millis(1) {
            return None;
        }
        if self.specified.instant().is_some() {
            return Some(self.specified.clone());
        }
        let rest = SpecifiedDeadline::after(left);
        if left <= LONGEST_DURATION_SENT {
            return Some(rest);
        }
        let end = self.receipt.date_now().checked_add(left).and_then(Iso8601::at);
        Some(end.map_or(rest, SpecifiedDeadline::at))
    }
}

impl<C: Clock> fmt::Debug for ReceivedDeadline<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivedDeadline")
            .field("specified", &self.specified)
            .field("budget", &self.budget)
            .field("receipt", &self.receipt)
            .finish()
    }
}
