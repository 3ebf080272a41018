//! The deadline report of a response.

use super::SpecifiedDeadline;
use crate::document::MeshDuration;
use damper_core::deadline::Deadline;
use damper_core::time::Clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// The deadline report of a response.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// use core::time::Duration;
/// use damper::mesh::DeadlineReport;
/// use damper::{Deadline, ManualClock};
///
/// let clock = ManualClock::new();
/// let deadline = Deadline::with_clock(Duration::from_secs(30), &clock);
/// clock.advance(Duration::from_millis(127));
/// let report = DeadlineReport::of(&deadline);
/// assert_eq!(report.remaining.to_string(), "29873 millisecond");
/// assert_eq!(report.utilization, 0.004);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeadlineReport {
    /// The deadline as it was specified.
    pub specified: SpecifiedDeadline,
    /// The time since the request was received, rounded up to milliseconds.
    pub elapsed: MeshDuration,
    /// The remaining time, rounded down to milliseconds.
    pub remaining: MeshDuration,
    /// The part of the time that has elapsed, from 0 to 1, rounded to three decimals.
    pub utilization: f64,
}

impl DeadlineReport {
    pub(super) fn new(specified: SpecifiedDeadline, budget: Duration, elapsed: Duration) -> Self {
        let utilization = if elapsed >= budget { 1.0 } else { elapsed.as_secs_f64() / budget.as_secs_f64() };
        Self {
            specified,
            elapsed: MeshDuration::rounded_up(elapsed),
            remaining: MeshDuration::rounded_down(budget.saturating_sub(elapsed)),
            utilization: (utilization * 1_000.0).round() / 1_000.0,
        }
    }

    /// Reports a damper deadline now.
    ///
    /// It is written as the duration with which it was set.
    #[must_use]
    pub fn of<C: Clock>(deadline: &Deadline<C>) -> Self {
        let (specified, remaining) = (deadline.specified(), deadline.remaining());
        // One reading of the clock makes the two add up to the specified time.
        let elapsed = if remaining.is_zero() { deadline.elapsed() } else { specified.saturating_sub(remaining) };
        Self::new(SpecifiedDeadline::after(specified), specified, elapsed)
    }

    /// Returns the report as the data of the extension.
    #[must_use]
    pub fn to_value(&self) -> Value {
        // Texts and finite numbers are always JSON values.
        serde_json::to_value(self).unwrap_or_default()
    }
}
