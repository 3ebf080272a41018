//! The outcome of a call, as a sign of the service's load.

use super::{AdaptiveLimit, LimitRule};
use crate::concurrency::BulkheadPermit;
use crate::gate::{Ending, Verdict};
use crate::time::Clock;
use core::ops::Deref;
use core::time::Duration;

/// The outcome of a call, as a sign of the service's load, for an [`AdaptiveLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Outcome {
    /// The service did its work: its duration counts.
    Success,
    /// The service refused the call because it is overloaded (503), or the call timed out.
    ///
    /// A timeout counts only if it left the call as long as one usually takes.
    Overloaded,
    /// No sign of load: the caller gave up, the request was invalid, or an error came fast.
    ///
    /// A refusal because the caller is over a quota (429) is none either.
    Ignored,
}

impl Outcome {
    /// Returns the outcome of a call by its result alone: `Ok` is a success, `Err` is ignored.
    ///
    /// A fast error says nothing about the service's load.
    pub const fn of<T, E>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Success,
            Err(_) => Self::Ignored,
        }
    }
}

/// Reads from a call the load of its server.
impl From<&Verdict> for Outcome {
    #[inline]
    fn from(verdict: &Verdict) -> Self {
        match verdict.ending {
            Ending::Success => Self::Success,
            ending if ending.is_overload() => Self::Overloaded,
            _ => Self::Ignored,
        }
    }
}

impl<L, R, C> BulkheadPermit<L>
where
    L: Deref<Target = AdaptiveLimit<R, C>>,
    R: LimitRule,
    C: Clock,
{
    /// Returns the latency of the unloaded service, if the limit's rule has learned one.
    #[must_use]
    pub fn baseline(&self) -> Option<Duration> {
        self.parts().0.baseline()
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::concurrency::{LimitBounds, WindowPlan, WindowSummary};
    use crate::time::ManualClock;
    use core::time::Duration;

    /// Takes each call as a window, and keeps the latency of the last one.
    #[derive(Clone, Copy, Debug)]
    struct LastCall(Option<Duration>);

    impl LimitRule for LastCall {
        fn first(&self) -> WindowPlan {
            WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(LimitBounds::DEFAULT.max()) }
        }

        fn next(&mut self, window: &WindowSummary) -> WindowPlan {
            self.0 = window.latency();
            self.first()
        }
    }

    #[test]
    fn latency_ends_with_an_early_record_and_the_slot_with_the_permit() {
        let clock = ManualClock::new();
        let limit = AdaptiveLimit::with_rule(LastCall(None), &clock);
        // The first call only begins the first window, and is not counted in it.
        limit.try_acquire().unwrap().success();
        let permit = limit.try_acquire().unwrap();
        clock.advance(Duration::from_millis(8));
        permit.record_early(Outcome::Success);
        clock.advance(Duration::from_secs(60));
        assert_eq!(limit.in_flight(), 1);
        drop(permit);
        assert_eq!(limit.in_flight(), 0);
        let latency = limit.rule().0.unwrap();
        assert!(latency.abs_diff(Duration::from_millis(8)) < Duration::from_micros(100), "{latency:?}");
    }
}
