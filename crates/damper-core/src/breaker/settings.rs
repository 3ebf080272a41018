//! The settings of a breaker in a word of 64 bits, as the rules need them.

use super::state_machine::{ProbeLimits, Settings};
use super::window::OutcomeCounts;
use super::wrapping_micros::{HalfOpenDeadline, WrappingMicros};
use super::{BreakerConfig, Cause};
use crate::time::{Micros, MicrosReading, random};
use core::time::Duration;

/// The settings, with times in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct BreakerSettings {
    cooldown: u64,
    max_cooldown: u64,
    max_retry_after: u64,
    /// The longest time half-open; 0 if there is none.
    max_half_open: u64,
    /// From which duration on a call is slow; 0 if none is.
    slow_after: u64,
    failure_threshold: u32,
    minimum_calls: u32,
    /// In thousandths.
    cooldown_factor: u16,
    max_probes: u16,
    successes_to_close: u16,
    /// In percent, here and below; 0 for none.
    failure_rate: u8,
    slow_rate: u8,
    probe_failure_rate: u8,
    cooldown_jitter: u8,
    abandoned_probes_fail: bool,
}

/// The inputs of a cooldown beside the settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct CooldownRequest {
    /// The wait that the server asked for; zero if none.
    pub(super) retry_after: Duration,
    /// The breaker's address, which differs from one to the other, for the jitter.
    pub(super) address: u64,
}

impl BreakerSettings {
    pub(super) const fn new(config: &BreakerConfig) -> Self {
        let slow = config.slow_rate();
        let (slow_rate, slow_after) = match slow {
            Some((percent, duration)) => (percent as u8, Micros::of_duration(duration)),
            None => (0, 0),
        };
        Self {
            cooldown: Micros::of_duration(config.cooldown()),
            max_cooldown: Micros::of_duration(config.max_cooldown()),
            max_retry_after: Micros::of_duration(config.max_retry_after()),
            max_half_open: match config.max_half_open() {
                Some(longest) => Micros::of_duration(longest),
                None => 0,
            },
            slow_after,
            failure_threshold: config.failure_threshold(),
            minimum_calls: config.minimum_calls(),
            // All in the ranges that `BreakerConfigBuilder::build` checks.
            cooldown_factor: config.factor_in_thousandths() as u16,
            max_probes: config.max_probes() as u16,
            successes_to_close: config.successes_to_close() as u16,
            failure_rate: percent(config.failure_rate()),
            slow_rate,
            probe_failure_rate: percent(config.probe_failure_rate()),
            cooldown_jitter: config.cooldown_jitter() as u8,
            abandoned_probes_fail: config.abandoned_probes_fail(),
        }
    }

    /// Whether outcomes are recorded in a window.
    #[inline]
    pub(super) const fn has_rates(&self) -> bool {
        self.failure_rate > 0 || self.slow_rate > 0
    }

    /// Whether calls are timed, because slow ones count.
    #[inline]
    pub(super) const fn counts_slow_calls(&self) -> bool {
        self.slow_rate > 0
    }

    #[inline]
    pub(super) const fn is_slow(&self, micros: u64) -> bool {
        self.slow_rate > 0 && micros >= self.slow_after
    }

    pub(super) const fn abandoned_probes_fail(&self) -> bool {
        self.abandoned_probes_fail
    }

    /// Why the counts of a window trip the breaker, if they do.
    #[inline]
    pub(super) fn trip_cause(&self, counts: OutcomeCounts, capacity: u32) -> Option<Cause> {
        // A rate is at least one percent.
        if counts.failed | counts.slow == 0 || counts.calls < self.minimum_calls.min(capacity) {
            return None;
        }
        let is_reached =
            |rate: u8, of: u32| rate > 0 && u64::from(of) * 100 >= u64::from(rate) * u64::from(counts.calls);
        if is_reached(self.failure_rate, counts.failed) {
            Some(Cause::FailureRate)
        } else if is_reached(self.slow_rate, counts.slow) {
            Some(Cause::SlowRate)
        } else {
            None
        }
    }

    /// The parts in which `max_half_open` is measured, in microseconds; 0 if there is none.
    const fn half_open_part(&self) -> u64 {
        self.max_half_open.div_ceil(HalfOpenDeadline::PARTS)
    }
}

impl Settings for BreakerSettings {
    type Word = u64;
    type Now = MicrosReading;
    type Request = CooldownRequest;

    #[inline]
    fn failure_threshold(&self) -> Option<u32> {
        if self.failure_threshold == u32::MAX { None } else { Some(self.failure_threshold) }
    }

    #[inline]
    fn probe_limits(&self) -> ProbeLimits {
        ProbeLimits { most_in_flight: self.max_probes.into(), successes_to_close: self.successes_to_close.into() }
    }

    #[inline]
    fn probe_failure_rate(&self) -> Option<u32> {
        if self.probe_failure_rate == 0 { None } else { Some(self.probe_failure_rate.into()) }
    }

    fn open_until(
        &self,
        reopens: u32,
        now: MicrosReading,
        CooldownRequest { retry_after, address }: CooldownRequest,
    ) -> u64 {
        let mut time = self.cooldown;
        for _ in 0..reopens {
            // Below 2^43, times at most 10,000.
            time = (time * u64::from(self.cooldown_factor) / 1_000).min(self.max_cooldown);
        }
        let most = time / 100 * u64::from(self.cooldown_jitter);
        // Random, and less than all of it: that would leave no time at all.
        time -= random::below(most, random::scatter(address, now.micros));
        let asked_for = Micros::of_duration(retry_after).min(self.max_retry_after);
        WrappingMicros::from_micros(now.micros).after(time.max(asked_for).max(1)).to_bits()
    }

    /// Times wrap, so one that lies further ahead than a cooldown can reach has passed long ago. Half the range is as far
    /// as it can lie, whatever the skew.
    fn cooldown_left(&self, until: u64, now: MicrosReading) -> u64 {
        let left = WrappingMicros::from_micros(until).since(WrappingMicros::from_micros(now.micros));
        let longest = self.max_cooldown.max(self.max_retry_after);
        if left > WrappingMicros::FARTHEST || left > longest.saturating_add(now.skew) { 0 } else { left }
    }

    #[inline]
    fn has_half_open_deadline(&self) -> bool {
        self.max_half_open > 0
    }

    fn half_open_until(&self, now: MicrosReading) -> u32 {
        let deadline = match self.half_open_part() {
            0 => HalfOpenDeadline::at(0),
            part => HalfOpenDeadline::at(now.micros.saturating_add(self.max_half_open).div_ceil(part)),
        };
        deadline.to_bits()
    }

    fn is_half_open_over(&self, deadline: u32, now: MicrosReading) -> bool {
        let part = self.half_open_part();
        // Both ends of the time may be in the middle of a part.
        part > 0 && {
            // Beyond half of the range it makes no difference, so it saturates.
            let farthest = self.max_half_open.saturating_add(now.skew).div_ceil(part).saturating_add(1);
            HalfOpenDeadline::at(deadline.into()).has_passed(now.micros / part, farthest)
        }
    }
}

const fn percent(rate: Option<u32>) -> u8 {
    match rate {
        Some(percent) => percent as u8,
        None => 0,
    }
}
