//! The settings of a breaker in 32 bits, with all that is computed from them.

use super::Word32Error;
use super::state_word::{COOLDOWNS, DEADLINE_BITS, MOST_FAILURES, MOST_PROBES, UNTIL_BITS};
use super::times::WrappingTimes;
use crate::breaker::BreakerConfig;
use crate::time::Scale;
use core::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(super) struct BreakerSettings32 {
    pub(super) failure_threshold: u32,
    /// In units, by how many times probes failed.
    cooldowns: [u32; COOLDOWNS],
    until: WrappingTimes<UNTIL_BITS>,
    /// Microseconds per unit of `until`.
    micros: Scale,
    deadline: WrappingTimes<DEADLINE_BITS>,
    /// In units of `deadline`; 0 if there is none.
    max_half_open: u32,
    pub(super) max_probes: u8,
    pub(super) successes_to_close: u8,
    pub(super) abandoned_probes_fail: bool,
}

impl BreakerSettings32 {
    pub(super) const fn new(config: &BreakerConfig, hertz: u64, skew: u64) -> Result<Self, Word32Error> {
        if config.failure_rate().is_some() {
            return Err(Word32Error::Unsupported("failure_rate"));
        } else if config.slow_rate().is_some() {
            return Err(Word32Error::Unsupported("slow_rate"));
        } else if config.probe_failure_rate().is_some() {
            return Err(Word32Error::Unsupported("probe_failure_rate"));
        } else if config.cooldown_jitter() > 0 {
            return Err(Word32Error::Unsupported("cooldown_jitter"));
        }
        let (probes, successes) = (config.max_probes(), config.successes_to_close());
        if config.failure_threshold() > MOST_FAILURES {
            return Err(Word32Error::FailureThreshold(config.failure_threshold()));
        } else if probes > MOST_PROBES || successes > MOST_PROBES {
            return Err(Word32Error::Probes(if probes > successes { probes } else { successes }));
        }
        let longest = config.max_cooldown();
        let until = match WrappingTimes::up_to(longest, hertz, skew) {
            Ok(times) => times,
            Err(error) => return Err(error),
        };
        let mut cooldowns = [0; COOLDOWNS];
        // In nanoseconds, so that none is rounded down to less than the settings say.
        let (mut nanos, mut reopens) = (config.cooldown().as_nanos(), 0);
        while reopens < COOLDOWNS {
            // At most 100 days.
            cooldowns[reopens] = until.units_in(Duration::from_nanos(nanos as u64), hertz);
            nanos = nanos * config.factor_in_thousandths() as u128 / 1_000;
            if nanos > longest.as_nanos() {
                nanos = longest.as_nanos();
            }
            reopens += 1;
        }
        let half_open = match config.max_half_open() {
            Some(longest) => longest,
            None => Duration::ZERO,
        };
        let deadline = match WrappingTimes::up_to(half_open, hertz, skew) {
            Ok(times) => times,
            Err(error) => return Err(error),
        };
        Ok(Self {
            failure_threshold: config.failure_threshold(),
            cooldowns,
            micros: until.micros(hertz),
            until,
            max_half_open: deadline.units_in(half_open, hertz),
            deadline,
            max_probes: probes as u8,
            successes_to_close: successes as u8,
            abandoned_probes_fail: config.abandoned_probes_fail(),
        })
    }

    /// The most probes that a decision can need.
    pub(super) const fn decisive_probes(&self) -> u32 {
        if self.max_probes > self.successes_to_close { self.max_probes as u32 } else { self.successes_to_close as u32 }
    }

    /// When the cooldown ends that begins at the tick `now`, after so many times that probes failed.
    pub(super) fn open_until(&self, reopens: usize, now: u64) -> u32 {
        self.until.after(now, self.cooldowns[reopens.min(COOLDOWNS - 1)])
    }

    /// What is left of a cooldown at the tick `now`, in units.
    pub(super) fn open_left(&self, until: u32, now: u64) -> u32 {
        self.until.left(until, now)
    }

    /// Units of a cooldown in microseconds, rounded up.
    pub(super) fn micros(&self, units: u32) -> u64 {
        let Scale { mult, shift } = self.micros;
        (u64::from(units) * mult + ((1 << shift) - 1)) >> shift
    }

    /// When a half-open state ends that begins at the tick `now`.
    pub(super) fn half_open_until(&self, now: u64) -> u32 {
        self.deadline.after(now, self.max_half_open)
    }

    /// Whether `max_half_open`, where there is one, has passed at the tick that `now` reads.
    pub(super) fn is_half_open_over(&self, deadline: u32, now: impl FnOnce() -> u64) -> bool {
        self.max_half_open > 0 && self.deadline.left(deadline, now()) == 0
    }
}
