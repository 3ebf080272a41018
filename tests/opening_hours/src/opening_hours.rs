//! The gate.

use crate::Closed;
use damper::gate::{Answer, AnswerOf, Ask, Gate, Never};
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// An hour and a day, in nanoseconds.
const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;

/// Lets calls pass between two hours of the day.
///
/// Calls pass from the moment of opening, and until just before the moment of closing. The hours may go over midnight: from 22 to 6.
///
/// # Examples
///
/// ```
/// use damper::gate::Ask;
/// use damper_opening_hours::OpeningHours;
/// use std::time::Duration;
///
/// let noon = || Duration::from_secs(12 * 3600);
/// assert!(OpeningHours::new(8, 20, noon)?.ask("a call").is_pass());
/// assert!(!OpeningHours::new(22, 6, noon)?.ask("a call").is_pass());
/// # Ok::<(), damper_opening_hours::OpeningHoursError>(())
/// ```
#[derive(Clone, Copy)]
pub struct OpeningHours<F> {
    opens: u32,
    closes: u32,
    time_of_day: F,
}

impl<F: Fn() -> Duration> OpeningHours<F> {
    /// Creates a gate that is open from the hour `opens` until the hour `closes`.
    ///
    /// `time_of_day` returns the time since midnight. Whole days in it are left out.
    ///
    /// # Errors
    ///
    /// [`OpeningHoursError`] unless `opens` is from 0 to 23, `closes` is from 1 to 24, and they differ.
    pub fn new(opens: u32, closes: u32, time_of_day: F) -> Result<Self, OpeningHoursError> {
        match (opens, closes) {
            (24.., _) => Err(OpeningHoursError::Opens(opens)),
            (_, 0 | 25..) => Err(OpeningHoursError::Closes(closes)),
            _ if opens == closes => Err(OpeningHoursError::Same(opens)),
            _ => Ok(Self { opens, closes, time_of_day }),
        }
    }
}

impl<F: Fn() -> Duration> Gate for OpeningHours<F> {
    type Permit = (); // it learns nothing from calls, and holds nothing while they last
    type Refusal = Closed;
    type Wait = Never<(), Closed>; // no call waits

    /// Refuses all calls while it is closed, so that a service need not become ready for them.
    fn refusal(&self) -> Option<Closed> {
        let now = ((self.time_of_day)().as_nanos() % u128::from(DAY)) as u64;
        let since_opening = (now + DAY - u64::from(self.opens) * HOUR) % DAY;
        // From 1 to 24, also if the gate closes after midnight.
        let open_hours = u64::from((self.closes + 23 - self.opens) % 24 + 1);
        let is_open = since_opening < open_hours * HOUR;
        (!is_open).then(|| Closed { opens: self.opens, opens_in: Duration::from_nanos(DAY - since_opening) })
    }
}

impl<F: Fn() -> Duration, Q: ?Sized> Ask<Q> for OpeningHours<F> {
    fn ask(&self, _call: &Q) -> AnswerOf<Self> {
        self.refusal().map_or(Answer::Pass(()), Answer::Refuse)
    }
}

impl<F> fmt::Debug for OpeningHours<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { opens, closes, time_of_day: _ } = self;
        f.debug_struct("OpeningHours").field("opens", opens).field("closes", closes).finish_non_exhaustive()
    }
}

/// Hours that are no opening hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpeningHoursError {
    /// The hour of opening is not an hour of the day.
    Opens(u32),
    /// The hour of closing is not an hour of the day.
    Closes(u32),
    /// Opening and closing are the same hour, which could mean always or never.
    Same(u32),
}

impl fmt::Display for OpeningHoursError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opens(hour) => write!(f, "opens is {hour}, it must be a whole number from 0 to 23"),
            Self::Closes(hour) => write!(f, "closes is {hour}, it must be a whole number from 1 to 24"),
            Self::Same(hour) => write!(f, "opens and closes are both {hour}, they must differ"),
        }
    }
}

impl Error for OpeningHoursError {}

#[cfg(test)]
mod tests {
    use super::*;
    use damper::gate::{Refusal, is_refusal};

    const NANO: Duration = Duration::from_nanos(1);

    fn hours(hours: u32) -> Duration {
        Duration::from_hours(hours.into())
    }

    fn just_before(hour: u32) -> Duration {
        hours(hour).saturating_sub(NANO)
    }

    /// Returns the time until opening at this time of day; `None` if the gate is open.
    fn wait(opens: u32, closes: u32, at: Duration) -> Option<Duration> {
        let gate = OpeningHours::new(opens, closes, || at).unwrap();
        let refusal = gate.ask("a call").into_result().err();
        assert_eq!(refusal, gate.refusal(), "a call is refused as all calls are");
        refusal.and_then(|closed| closed.retry_after())
    }

    #[test]
    fn gate_is_open_from_the_moment_of_opening_until_just_before_closing() {
        assert_eq!(wait(8, 20, just_before(8)), Some(NANO));
        assert_eq!(wait(8, 20, hours(8)), None);
        assert_eq!(wait(8, 20, just_before(20)), None);
        assert_eq!(wait(8, 20, hours(20)), Some(hours(12)));
        assert_eq!(wait(8, 20, Duration::ZERO), Some(hours(8)));
        assert_eq!(wait(8, 20, just_before(24)), Some(hours(8) + NANO));
    }

    #[test]
    fn hours_may_go_over_midnight() {
        assert_eq!(wait(22, 6, just_before(22)), Some(NANO));
        assert_eq!(wait(22, 6, hours(22)), None);
        assert_eq!(wait(22, 6, just_before(24)), None);
        assert_eq!(wait(22, 6, Duration::ZERO), None);
        assert_eq!(wait(22, 6, just_before(6)), None);
        assert_eq!(wait(22, 6, hours(6)), Some(hours(16)));
    }

    #[test]
    fn hours_may_begin_or_end_at_midnight() {
        assert_eq!(wait(0, 8, Duration::ZERO), None);
        assert_eq!(wait(0, 8, hours(8)), Some(hours(16)));
        assert_eq!(wait(16, 24, just_before(24)), None);
        assert_eq!(wait(16, 24, Duration::ZERO), Some(hours(16)));
        for hour in 0..24 {
            assert_eq!(wait(0, 24, hours(hour)), None, "it never closes");
        }
    }

    #[test]
    fn every_pair_of_hours_is_open_between_them() {
        for (opens, closes) in (0..24).flat_map(|opens| (1..=24).map(move |closes| (opens, closes))) {
            for hour in (0..24).filter(|_| opens != closes) {
                let is_open =
                    if opens < closes { opens <= hour && hour < closes } else { hour >= opens || hour < closes };
                let until = (0..24).find(|later| (hour + later) % 24 == opens).map(hours);
                let expected = if is_open { None } else { until };
                assert_eq!(wait(opens, closes, hours(hour)), expected, "{opens} to {closes} at {hour}");
            }
        }
    }

    #[test]
    fn whole_days_are_left_out_of_the_time() {
        assert_eq!(wait(8, 20, hours(24) * 365 + hours(7)), Some(hours(1)));
        assert_eq!(wait(8, 20, hours(24) * 365 + hours(8)), None);
        // The longest time ends at 7:00:16, less a nanosecond.
        assert_eq!(wait(8, 20, Duration::MAX), Some(Duration::new(3_600 - 16, 1)));
    }

    #[test]
    fn wrong_hours_are_named_with_the_allowed_ones() {
        let error = |opens, closes| OpeningHours::new(opens, closes, || Duration::ZERO).unwrap_err().to_string();
        assert_eq!(error(24, 6), "opens is 24, it must be a whole number from 0 to 23");
        assert_eq!(error(8, 0), "closes is 0, it must be a whole number from 1 to 24");
        assert_eq!(error(8, 25), "closes is 25, it must be a whole number from 1 to 24");
        assert_eq!(error(8, 8), "opens and closes are both 8, they must differ");
        assert_eq!(error(u32::MAX, u32::MAX), "opens is 4294967295, it must be a whole number from 0 to 23");
    }

    #[test]
    fn refusal_says_the_hour_and_is_known_as_a_refusal() {
        let gate = OpeningHours::new(8, 20, || hours(7)).unwrap();
        let closed = gate.refusal().unwrap();
        assert_eq!(closed.to_string(), "closed, opens at 8:00");
        assert!(is_refusal(&closed));
    }
}
