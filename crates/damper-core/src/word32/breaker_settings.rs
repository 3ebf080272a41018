//! The settings of a breaker whose times are in its word, with all that is computed from them.

use super::times::WrappingTimes;
use super::{check_fits, unsupported};
use crate::breaker::BreakerConfig;
use crate::breaker::state_machine::{ProbeLimits, Settings};
use crate::breaker::state_word::{Layout, Phase, Snapshot, Word};
use crate::out_of_range::OutOfRange;
use crate::time::Scale;
use core::marker::PhantomData;
use core::time::Duration;

const LAYOUT: Layout = u32::LAYOUT;

/// How many cooldowns there can be: the first, and one for each time that probes failed.
const COOLDOWNS: usize = LAYOUT.max_reopens() as usize + 1;

/// The settings of a breaker of 32 bits.
pub(super) type BreakerSettings32 = FixedSettings<u32, { LAYOUT.until_bits() }, { LAYOUT.deadline_bits() }>;

/// Settings that do not change, for a word `W`.
///
/// It has so many bits for the end of a cooldown and for that of the half-open state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedSettings<W, const UNTIL: u32, const DEADLINE: u32> {
    failure_threshold: u32,
    /// In units, by how many times probes failed.
    cooldowns: [u32; COOLDOWNS],
    until: WrappingTimes<UNTIL>,
    /// Microseconds per unit of `until`.
    micros: Scale,
    deadline: WrappingTimes<DEADLINE>,
    /// In units of `deadline`; 0 if there is none.
    max_half_open: u32,
    max_probes: u16,
    successes_to_close: u16,
    pub(crate) abandoned_probes_fail: bool,
    word: PhantomData<fn() -> W>,
}

/// Returns the longest cooldown that the breaker reaches.
///
/// A cooldown grows only so often, so it may never reach the maximum of the settings.
pub(crate) const fn longest_cooldown(config: &BreakerConfig) -> Duration {
    let (mut cooldown, mut reopens) = (config.cooldown(), 1);
    while reopens < COOLDOWNS {
        cooldown = grown(cooldown, config);
        reopens += 1;
    }
    cooldown
}

/// Returns the cooldown after `cooldown`.
const fn grown(cooldown: Duration, config: &BreakerConfig) -> Duration {
    let longest = config.max_cooldown().as_nanos();
    // In nanoseconds, so that none is rounded down to less than the settings say.
    let nanos = cooldown.as_nanos() * config.factor_in_thousandths() as u128 / 1_000;
    // At most 100 days.
    Duration::from_nanos(if nanos < longest { nanos } else { longest } as u64)
}

impl<W: Word, const UNTIL: u32, const DEADLINE: u32> FixedSettings<W, UNTIL, DEADLINE> {
    /// Computes the settings. `max_half_open` is the longest time half-open; zero if there is none.
    pub(crate) const fn new(
        config: &BreakerConfig,
        max_half_open: Duration,
        hertz: u64,
        skew: u64,
    ) -> Result<Self, OutOfRange> {
        if config.slow_rate().is_some() {
            return Err(unsupported("slow_rate"));
        } else if config.probe_failure_rate().is_some() {
            return Err(unsupported("probe_failure_rate"));
        } else if config.cooldown_jitter() > 0 {
            return Err(unsupported("cooldown_jitter"));
        } else if config.ramp().is_some() {
            return Err(unsupported("ramp"));
        }
        let (probes, successes) = (config.max_probes(), config.successes_to_close());
        if let Err(error) = check_fits("failure_threshold", config.failure_threshold(), W::LAYOUT.max_failures()) {
            return Err(error);
        }
        if let Err(error) = check_fits("max_probes", probes, W::LAYOUT.max_probes()) {
            return Err(error);
        }
        if let Err(error) = check_fits("successes_to_close", successes, W::LAYOUT.max_probes()) {
            return Err(error);
        }
        let longest = longest_cooldown(config);
        let until = match WrappingTimes::up_to(longest, hertz, skew) {
            Ok(times) => times,
            Err(error) => return Err(error),
        };
        let (mut cooldowns, mut cooldown, mut reopens) = ([0; COOLDOWNS], config.cooldown(), 0);
        while reopens < COOLDOWNS {
            cooldowns[reopens] = until.units_in(cooldown, hertz);
            cooldown = grown(cooldown, config);
            reopens += 1;
        }
        let deadline = match WrappingTimes::up_to(max_half_open, hertz, skew) {
            Ok(times) => times,
            Err(error) => return Err(error),
        };
        Ok(Self {
            failure_threshold: config.failure_threshold(),
            cooldowns,
            micros: until.micros(hertz),
            until,
            max_half_open: deadline.units_in(max_half_open, hertz),
            deadline,
            max_probes: probes as u16,
            successes_to_close: successes as u16,
            abandoned_probes_fail: config.abandoned_probes_fail(),
            word: PhantomData,
        })
    }
}

impl<W: Word, const UNTIL: u32, const DEADLINE: u32> Settings for &FixedSettings<W, UNTIL, DEADLINE> {
    type Word = W;

    /// The tick.
    type Now = u64;

    type Request = ();

    #[inline]
    fn failure_threshold(self) -> Option<u32> {
        Some(self.failure_threshold)
    }

    #[inline]
    fn probe_limits(self) -> ProbeLimits {
        ProbeLimits { most_in_flight: self.max_probes.into(), successes_to_close: self.successes_to_close.into() }
    }

    #[inline]
    fn probe_failure_rate(self) -> Option<u32> {
        None
    }

    #[inline]
    fn open_until(self, reopens: u32, now: u64, (): ()) -> u64 {
        self.until.after(now, self.cooldowns[(reopens as usize).min(COOLDOWNS - 1)]).into()
    }

    #[inline]
    fn cooldown_left(self, until: u64, now: u64) -> u64 {
        let Scale { mult, shift } = self.micros;
        match self.until.left(until as u32, now) {
            0 => 0,
            // Rounded up, also on a clock that stands still, where a unit is worth nothing.
            left => ((u64::from(left) * mult).saturating_sub(1) >> shift) + 1,
        }
    }

    #[inline]
    fn has_half_open_deadline(self) -> bool {
        self.max_half_open > 0
    }

    #[inline]
    fn half_open_until(self, now: u64) -> u32 {
        self.deadline.after(now, self.max_half_open)
    }

    #[inline]
    fn is_half_open_over(self, current: Snapshot<W>, now: u64) -> bool {
        matches!(current.phase(), Phase::HalfOpen(probes) if self.deadline.left(probes.deadline, now) == 0)
    }
}
