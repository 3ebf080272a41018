//! The state machine of a breaker: computes the next snapshot from the present one, without atomics or a clock.

use super::state_word::{HalfOpenDeadline, MAX_FAILURES, Phase, Probes, Snapshot, WrappingMicros};
use super::window::OutcomeCounts;
use super::{BreakerConfig, Cause, State};
use crate::time::{Micros, MicrosReading, random};
use core::time::Duration;

/// The settings as the state machine needs them; times in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateMachine {
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

/// The decision on a call that asks for admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum CallDecision {
    /// It passes, and nothing changes.
    Pass,
    /// It passes as a probe, with this next snapshot.
    Probe(Snapshot),
    /// It is refused for so many microseconds.
    Open(u64),
    /// It is refused while probes are in flight.
    Probing,
    /// It is refused until somebody resets the breaker.
    Forced,
    /// At this time the breaker has been half-open for too long, and opens again.
    HalfOpenTooLong(MicrosReading),
}

/// The inputs of a cooldown beside the settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct CooldownRequest {
    /// The wait that the server asked for; zero if none.
    pub(super) retry_after: Duration,
    /// The breaker's address, which differs from one to the other, for the jitter.
    pub(super) address: u64,
}

impl StateMachine {
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

    /// When the cooldown ends that begins after `reopens` times that probes failed.
    fn open_until(
        &self,
        reopens: u32,
        now: MicrosReading,
        CooldownRequest { retry_after, address }: CooldownRequest,
    ) -> WrappingMicros {
        let mut time = self.cooldown;
        for _ in 0..reopens {
            // Below 2^43, times at most 10,000.
            time = (time * u64::from(self.cooldown_factor) / 1_000).min(self.max_cooldown);
        }
        let most = time / 100 * u64::from(self.cooldown_jitter);
        // Random, and less than all of it: that would leave no time at all.
        time -= random::below(most, random::scatter(address, now.micros));
        let asked_for = Micros::of_duration(retry_after).min(self.max_retry_after);
        WrappingMicros::from_micros(now.micros).after(time.max(asked_for).max(1))
    }

    /// What is left of the cooldown, in microseconds; 0 when it is over.
    ///
    /// Times wrap, so one that lies further ahead than a cooldown can reach has passed long ago. Half the range is as far
    /// as it can lie, whatever the skew.
    const fn cooldown_left(&self, until: WrappingMicros, now: MicrosReading) -> u64 {
        let left = until.since(WrappingMicros::from_micros(now.micros));
        let longest = if self.max_cooldown > self.max_retry_after { self.max_cooldown } else { self.max_retry_after };
        if left > WrappingMicros::FARTHEST || left > longest.saturating_add(now.skew) { 0 } else { left }
    }

    /// The most probes that a decision can need.
    const fn decisive_probes(&self) -> u32 {
        if self.max_probes > self.successes_to_close { self.max_probes as u32 } else { self.successes_to_close as u32 }
    }

    /// Decides about a call at `now`, which is read only where it matters.
    #[inline]
    pub(super) fn admit(&self, current: Snapshot, now: impl FnOnce() -> MicrosReading) -> CallDecision {
        match current.phase {
            Phase::Closed { .. } | Phase::ForcedClosed | Phase::Disabled { .. } => CallDecision::Pass,
            Phase::Open { until } => {
                let now = now();
                match self.cooldown_left(until, now) {
                    0 => {
                        let probes = Probes { in_flight: 1, succeeded: 0, failed: 0, deadline: self.deadline(now) };
                        CallDecision::Probe(current.transition_to(Phase::HalfOpen(probes)))
                    }
                    left => CallDecision::Open(left),
                }
            }
            Phase::HalfOpen(probes) => self.admit_probe(current, probes, now),
            Phase::ForcedOpen => CallDecision::Forced,
        }
    }

    fn admit_probe(&self, current: Snapshot, probes: Probes, now: impl FnOnce() -> MicrosReading) -> CallDecision {
        if self.max_half_open > 0 {
            let now = now();
            if self.is_half_open_too_long(probes, now) {
                return CallDecision::HalfOpenTooLong(now);
            }
        }
        // Not more in flight than allowed, nor more than can still be needed.
        if probes.in_flight < self.max_probes.into()
            && probes.in_flight + probes.succeeded + probes.failed < self.decisive_probes()
        {
            CallDecision::Probe(current.with(Phase::HalfOpen(Probes { in_flight: probes.in_flight + 1, ..probes })))
        } else {
            CallDecision::Probing
        }
    }

    /// The parts in which `max_half_open` is measured, in microseconds; 0 if there is none.
    const fn half_open_part(&self) -> u64 {
        self.max_half_open.div_ceil(HalfOpenDeadline::PARTS)
    }

    /// Whether `max_half_open` has passed, where there is one.
    const fn is_half_open_too_long(&self, probes: Probes, now: MicrosReading) -> bool {
        let part = self.half_open_part();
        // Both ends of the time may be in the middle of a part.
        part > 0 && {
            // Beyond half of the range it makes no difference, so it saturates.
            let farthest = self.max_half_open.saturating_add(now.skew).div_ceil(part).saturating_add(1);
            probes.deadline.has_passed(now.micros / part, farthest)
        }
    }

    /// The end of a half-open state that begins at `now`.
    const fn deadline(&self, now: MicrosReading) -> HalfOpenDeadline {
        match self.half_open_part() {
            0 => HalfOpenDeadline::at(0),
            part => HalfOpenDeadline::at(now.micros.saturating_add(self.max_half_open).div_ceil(part)),
        }
    }

    /// The snapshot after a success of a call of this generation.
    #[inline]
    pub(super) fn after_success(&self, current: Snapshot) -> Snapshot {
        match current.phase {
            Phase::Closed { .. } => current.with(Phase::Closed { failures: 0 }),
            Phase::Disabled { .. } => current.with(Phase::Disabled { failures: 0 }),
            Phase::HalfOpen(Probes { in_flight, succeeded, failed, deadline }) => {
                let probes =
                    Probes { in_flight: in_flight.saturating_sub(1), succeeded: succeeded + 1, failed, deadline };
                self.after_probe(current, probes)
            }
            Phase::Open { .. } | Phase::ForcedOpen | Phase::ForcedClosed => current,
        }
    }

    /// Closes if enough probes succeeded.
    fn after_probe(&self, current: Snapshot, probes: Probes) -> Snapshot {
        let is_enough = match self.probe_failure_rate {
            0 => probes.succeeded >= self.successes_to_close.into(),
            // Even if all that are to come failed.
            rate => {
                (self.decisive_probes() - probes.succeeded.min(self.decisive_probes())) * 100
                    < u32::from(rate) * self.decisive_probes()
            }
        };
        if is_enough {
            current.start_over(Phase::Closed { failures: 0 })
        } else {
            current.with(Phase::HalfOpen(probes))
        }
    }

    /// The snapshot after a failure of a call of this generation, at `now`, which is read only where the breaker opens.
    pub(super) fn after_failure(
        &self,
        current: Snapshot,
        now: impl FnOnce() -> MicrosReading,
        request: CooldownRequest,
    ) -> Snapshot {
        match current.phase {
            Phase::Closed { failures } if self.is_tripped_by(failures + 1) => self.tripped(current, now(), request),
            Phase::Closed { failures } => current.with(Phase::Closed { failures: increment(failures) }),
            Phase::Disabled { failures } => current.with(Phase::Disabled { failures: increment(failures) }),
            Phase::HalfOpen(Probes { in_flight, succeeded, failed, deadline }) => {
                let probes = Probes { in_flight: in_flight.saturating_sub(1), succeeded, failed: failed + 1, deadline };
                let is_too_many = match self.probe_failure_rate {
                    0 => true,
                    rate => probes.failed * 100 >= u32::from(rate) * self.decisive_probes(),
                };
                if is_too_many { self.reopened(current, now(), request) } else { self.after_probe(current, probes) }
            }
            Phase::Open { .. } | Phase::ForcedOpen | Phase::ForcedClosed => current,
        }
    }

    /// Whether so many consecutive failures trip the breaker.
    const fn is_tripped_by(&self, failures: u64) -> bool {
        failures >= self.failure_threshold as u64 && self.failure_threshold != u32::MAX
    }

    /// The open state after the closed one.
    pub(super) fn tripped(&self, current: Snapshot, now: MicrosReading, request: CooldownRequest) -> Snapshot {
        current.start_over(Phase::Open { until: self.open_until(0, now, request) })
    }

    /// The open state after the half-open one.
    pub(super) fn reopened(&self, current: Snapshot, now: MicrosReading, request: CooldownRequest) -> Snapshot {
        current.reopened(self.open_until(current.reopens + 1, now, request))
    }

    /// The snapshot after a call of this generation without a verdict: a probe's place becomes free.
    pub(super) const fn after_no_verdict(current: Snapshot) -> Snapshot {
        match current.phase {
            Phase::HalfOpen(probes) => {
                current.with(Phase::HalfOpen(Probes { in_flight: probes.in_flight.saturating_sub(1), ..probes }))
            }
            _ => current,
        }
    }

    /// The state that a call at `now` would find, and for how many microseconds it would be refused. So an open breaker
    /// whose cooldown is over is half-open, though no probe has passed yet, and one that was half-open for too long is open.
    pub(super) fn state_at(
        &self,
        current: Snapshot,
        now: impl FnOnce() -> MicrosReading,
        request: CooldownRequest,
    ) -> (State, Option<u64>) {
        match current.phase {
            Phase::Open { until } => match self.cooldown_left(until, now()) {
                0 => (State::HalfOpen, None),
                left => (State::Open, Some(left)),
            },
            Phase::HalfOpen(probes) if self.max_half_open > 0 => {
                let now = now();
                if self.is_half_open_too_long(probes, now) {
                    let until = self.open_until(current.reopens + 1, now, request);
                    (State::Open, Some(self.cooldown_left(until, now)))
                } else {
                    (State::HalfOpen, None)
                }
            }
            phase => (phase.state(), None),
        }
    }
}

const fn percent(rate: Option<u32>) -> u8 {
    match rate {
        Some(percent) => percent as u8,
        None => 0,
    }
}

/// One failure more, up to the most that the word can count.
const fn increment(failures: u64) -> u64 {
    if failures < MAX_FAILURES { failures + 1 } else { failures }
}
