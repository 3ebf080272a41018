//! The deadline of a received request.

use super::{DeadlineReport, Expired, Iso8601, Receipt, SpecifiedDeadline};
use damper_core::deadline::Deadline;
use damper_core::internal::exceeded_after;
use damper_core::time::{Clock, DefaultClock};
use std::fmt;
use std::time::Duration;

/// The deadline of a received request: how it was specified, and how much time is left.
#[derive(Clone)]
pub struct ReceivedDeadline<C = DefaultClock> {
    specified: SpecifiedDeadline,
    budget: Duration,
    receipt: Receipt<C>,
}

/// Budgets beyond this are sent as instants.
const LONGEST_DURATION_SENT: Duration = Duration::from_secs(3600);

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

    /// Returns the remaining time, rounded down to the clock's tick.
    ///
    /// It is zero once the deadline has passed.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.budget.saturating_sub(self.elapsed())
    }

    /// Returns whether the deadline has passed.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Returns the elapsed time, unless the deadline has passed.
    ///
    /// Both are decided by one reading of the clock.
    pub(crate) fn check(&self) -> Result<Duration, Expired> {
        let elapsed = self.elapsed();
        if elapsed < self.budget {
            Ok(elapsed)
        } else {
            let exceeded = exceeded_after(self.budget, elapsed);
            Err(Expired { report: self.report_after(elapsed), exceeded, is_begun: false })
        }
    }

    /// Returns the remaining time as a damper deadline, set now.
    #[must_use]
    pub fn deadline(&self) -> Deadline<C> {
        Deadline::with_clock(self.remaining(), self.receipt.clock().clone())
    }

    /// Returns the deadline report of a response that is sent now.
    #[must_use]
    pub fn report(&self) -> DeadlineReport {
        self.report_after(self.elapsed())
    }

    /// Returns the report at the moment of an earlier decision.
    pub(crate) fn report_after(&self, elapsed: Duration) -> DeadlineReport {
        DeadlineReport::new(self.specified.clone(), self.budget, elapsed)
    }

    /// Returns the deadline that passes first.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        if other.remaining() < self.remaining() { other } else { self }
    }

    /// Returns the deadline for a call on behalf of this request: the time left now.
    ///
    /// It is `None` if less than a millisecond is left.
    ///
    /// An instant is passed on unchanged. More than an hour becomes an instant.
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
