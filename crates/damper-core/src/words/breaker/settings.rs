//! The settings of a breaker on a word that the program places.

use super::state::{DEADLINE_BITS, PlacedWord, UNTIL_BITS};
use crate::breaker::state_machine::{ProbeLimits, Settings};
use crate::breaker::state_word::{Phase, Snapshot};
use crate::breaker::{BreakerConfig, Tally};
use crate::out_of_range::OutOfRange;
use crate::word32::{FixedSettings, longest_cooldown, unsupported};
use core::time::Duration;

/// The least time half-open, if the settings have none.
///
/// A result that comes later is discarded. So this time has to be longer than all probes together, with the time between
/// them.
const DEFAULT_HALF_OPEN: Duration = Duration::from_secs(300);

/// The settings of a process, with its rule for the closed state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedSettings<'a> {
    pub(super) fixed: FixedSettings<PlacedWord<'a>, UNTIL_BITS, DEADLINE_BITS>,
    /// `None` if consecutive failures alone decide.
    pub(super) tally: Option<Tally>,
}

impl PlacedSettings<'_> {
    pub(super) fn new(config: &BreakerConfig, hertz: u64, skew: u64) -> Result<Self, OutOfRange> {
        // Without an end the probes of a dead process would hold their places for ever.
        let max_half_open = config.max_half_open().unwrap_or_else(|| longest_cooldown(config).max(DEFAULT_HALF_OPEN));
        let fixed = FixedSettings::new(config, max_half_open, hertz, skew)?;
        let tally = match config.failure_rate() {
            Some(_) => Some(Tally::new(config).ok_or(unsupported("window"))?),
            None => None,
        };
        Ok(Self { fixed, tally })
    }
}

impl<'a> Settings for &PlacedSettings<'a> {
    type Word = PlacedWord<'a>;

    /// The tick.
    type Now = u64;

    type Request = ();

    #[inline]
    fn failure_threshold(self) -> Option<u32> {
        (&self.fixed).failure_threshold()
    }

    #[inline]
    fn probe_limits(self) -> ProbeLimits {
        (&self.fixed).probe_limits()
    }

    #[inline]
    fn probe_failure_rate(self) -> Option<u32> {
        (&self.fixed).probe_failure_rate()
    }

    #[inline]
    fn open_until(self, reopens: u32, now: u64, (): ()) -> u64 {
        (&self.fixed).open_until(reopens, now, ())
    }

    #[inline]
    fn cooldown_left(self, until: u64, now: u64) -> u64 {
        (&self.fixed).cooldown_left(until, now)
    }

    #[inline]
    fn has_half_open_deadline(self) -> bool {
        (&self.fixed).has_half_open_deadline()
    }

    #[inline]
    fn half_open_until(self, now: u64) -> u32 {
        (&self.fixed).half_open_until(now)
    }

    #[inline]
    fn is_half_open_over(self, current: Snapshot<PlacedWord<'a>>, now: u64) -> bool {
        (&self.fixed).is_half_open_over(current, now)
    }

    #[inline]
    fn after_outcome(
        self,
        current: Snapshot<PlacedWord<'a>>,
        failures: u32,
        failed: bool,
    ) -> Option<Snapshot<PlacedWord<'a>>> {
        match &self.tally {
            None => (&self.fixed).after_outcome(current, failures, failed),
            Some(tally) => {
                let outcomes = tally.after(current.payload(), failed)?;
                Some(current.with(Phase::Closed { failures: 0 }).with_payload(outcomes))
            }
        }
    }
}
