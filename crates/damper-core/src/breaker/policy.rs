//! The state machine of a breaker: from one snapshot to the next, free of atomics and clocks.

use super::chance::chance;
use super::change::Cause;
use super::window::Tally;
use super::word::{Deadline, Instant, MAX_FAILURES, Phase, Probes, Snapshot};
use super::{BreakerConfig, State};
use crate::time::Micros;
use core::time::Duration;

/// The settings as the state machine needs them; times in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
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

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Admission {
    /// It passes, and nothing changes.
    Pass,
    /// It passes as a probe, with this next snapshot, of the same turn or a next one.
    Probe(Snapshot),
    /// It is refused for so many microseconds.
    Open(u64),
    /// It is refused while probes are out.
    Probing,
    /// It is refused until somebody resets the breaker.
    Forced,
    /// At this moment the breaker has been half-open for too long, and opens again.
    HalfOpenTooLong(Now),
}

/// The moment as a decision needs it, read when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Now {
    pub(super) micros: u64,
    /// How far it may lie before one that was read earlier.
    pub(super) skew: u64,
}

/// How long to stay open, apart from the settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFor {
    /// What the callee asked for.
    pub(super) retry_after: Duration,
    /// Where the breaker is, which differs from one to the other.
    pub(super) place: u64,
}

impl Policy {
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

    /// Whether calls are timed to tell which are slow.
    #[inline]
    pub(super) const fn tells_slow_calls(&self) -> bool {
        self.slow_rate > 0
    }

    #[inline]
    pub(super) const fn is_slow(&self, micros: u64) -> bool {
        self.slow_rate > 0 && micros >= self.slow_after
    }

    pub(super) const fn abandoned_probes_fail(&self) -> bool {
        self.abandoned_probes_fail
    }

    /// Whether what a window has trips the breaker, and why.
    #[inline]
    pub(super) fn judge(&self, tally: Tally, capacity: u32) -> Option<Cause> {
        // A rate is at least one percent.
        if tally.failed | tally.slow == 0 || tally.calls < self.minimum_calls.min(capacity) {
            return None;
        }
        let is_reached =
            |rate: u8, of: u32| rate > 0 && u64::from(of) * 100 >= u64::from(rate) * u64::from(tally.calls);
        if is_reached(self.failure_rate, tally.failed) {
            Some(Cause::FailureRate)
        } else if is_reached(self.slow_rate, tally.slow) {
            Some(Cause::SlowRate)
        } else {
            None
        }
    }

    /// Until when to stay open after so many times that probes failed.
    fn open_until(&self, reopens: u32, now: Now, OpenFor { retry_after, place }: OpenFor) -> Instant {
        let mut time = self.cooldown;
        for _ in 0..reopens {
            // Below 2^43, times at most 10,000.
            time = (time * u64::from(self.cooldown_factor) / 1_000).min(self.max_cooldown);
        }
        let most = time / 100 * u64::from(self.cooldown_jitter);
        // A part of it, by chance; never all, for that would be no time at all.
        time -= ((u128::from(most) * u128::from(chance(place, now.micros))) >> 64) as u64;
        let asked_for = Micros::of_duration(retry_after).min(self.max_retry_after);
        Instant::from_micros(now.micros).after(time.max(asked_for).max(1))
    }

    /// What is left of the cooldown, in microseconds; 0 when it is over.
    ///
    /// Moments wrap, so one that lies further ahead than a cooldown can reach has passed long ago; half the circle is as
    /// far as it can lie, whatever the skew.
    const fn cooldown_left(&self, until: Instant, now: Now) -> u64 {
        let left = until.since(Instant::from_micros(now.micros));
        let longest = if self.max_cooldown > self.max_retry_after { self.max_cooldown } else { self.max_retry_after };
        if left > Instant::FARTHEST || left > longest.saturating_add(now.skew) { 0 } else { left }
    }

    /// How many probes are needed at the most.
    const fn sample(&self) -> u32 {
        if self.max_probes > self.successes_to_close { self.max_probes as u32 } else { self.successes_to_close as u32 }
    }

    /// What becomes of a call at `now`, which is asked for only when it matters.
    #[inline]
    pub(super) fn admit(&self, current: Snapshot, now: impl FnOnce() -> Now) -> Admission {
        match current.phase {
            Phase::Closed { .. } | Phase::ForcedClosed | Phase::Disabled { .. } => Admission::Pass,
            Phase::Open { until } => {
                let now = now();
                match self.cooldown_left(until, now) {
                    0 => {
                        let probes = Probes { out: 1, succeeded: 0, failed: 0, deadline: self.deadline(now) };
                        Admission::Probe(current.transition_to(Phase::HalfOpen(probes)))
                    }
                    left => Admission::Open(left),
                }
            }
            Phase::HalfOpen(probes) => self.admit_probe(current, probes, now),
            Phase::ForcedOpen => Admission::Forced,
        }
    }

    fn admit_probe(&self, current: Snapshot, probes: Probes, now: impl FnOnce() -> Now) -> Admission {
        if self.max_half_open > 0 {
            let now = now();
            if self.is_half_open_over(probes, now) {
                return Admission::HalfOpenTooLong(now);
            }
        }
        // Not more in flight than allowed, nor more than can still be needed.
        if probes.out < self.max_probes.into() && probes.out + probes.succeeded + probes.failed < self.sample() {
            Admission::Probe(current.with(Phase::HalfOpen(Probes { out: probes.out + 1, ..probes })))
        } else {
            Admission::Probing
        }
    }

    /// In what parts the longest time half-open is measured; 0 if there is none.
    const fn half_open_part(&self) -> u64 {
        self.max_half_open.div_ceil(Deadline::PARTS)
    }

    /// Whether the longest time half-open has passed, where there is one.
    const fn is_half_open_over(&self, probes: Probes, now: Now) -> bool {
        let part = self.half_open_part();
        // Both ends of the time may be in the middle of a part.
        part > 0 && {
            // Beyond half of the circle it makes no difference, so it saturates.
            let farthest = self.max_half_open.saturating_add(now.skew).div_ceil(part).saturating_add(1);
            probes.deadline.has_passed(now.micros / part, farthest)
        }
    }

    /// When the time half-open is over that begins at `now`.
    const fn deadline(&self, now: Now) -> Deadline {
        match self.half_open_part() {
            0 => Deadline::at(0),
            part => Deadline::at(now.micros.saturating_add(self.max_half_open).div_ceil(part)),
        }
    }

    /// After a success of a call of this turn.
    #[inline]
    pub(super) fn after_success(&self, current: Snapshot) -> Snapshot {
        match current.phase {
            Phase::Closed { .. } => current.with(Phase::Closed { failures: 0 }),
            Phase::Disabled { .. } => current.with(Phase::Disabled { failures: 0 }),
            Phase::HalfOpen(Probes { out, succeeded, failed, deadline }) => {
                let probes = Probes { out: out.saturating_sub(1), succeeded: succeeded + 1, failed, deadline };
                self.weighed(current, probes)
            }
            Phase::Open { .. } | Phase::ForcedOpen | Phase::ForcedClosed => current,
        }
    }

    /// Closed, if the probes suffice.
    fn weighed(&self, current: Snapshot, probes: Probes) -> Snapshot {
        let is_enough = match self.probe_failure_rate {
            0 => probes.succeeded >= self.successes_to_close.into(),
            // Even if all that are to come failed.
            rate => (self.sample() - probes.succeeded.min(self.sample())) * 100 < u32::from(rate) * self.sample(),
        };
        if is_enough {
            current.start_over(Phase::Closed { failures: 0 })
        } else {
            current.with(Phase::HalfOpen(probes))
        }
    }

    /// After a failure of a call of this turn, at `now`, which is asked for only when it opens.
    pub(super) fn after_failure(&self, current: Snapshot, now: impl FnOnce() -> Now, open_for: OpenFor) -> Snapshot {
        match current.phase {
            Phase::Closed { failures } if self.is_tripped_by(failures + 1) => self.tripped(current, now(), open_for),
            Phase::Closed { failures } => current.with(Phase::Closed { failures: one_more(failures) }),
            Phase::Disabled { failures } => current.with(Phase::Disabled { failures: one_more(failures) }),
            Phase::HalfOpen(Probes { out, succeeded, failed, deadline }) => {
                let probes = Probes { out: out.saturating_sub(1), succeeded, failed: failed + 1, deadline };
                let is_too_many = match self.probe_failure_rate {
                    0 => true,
                    rate => probes.failed * 100 >= u32::from(rate) * self.sample(),
                };
                if is_too_many { self.reopened(current, now(), open_for) } else { self.weighed(current, probes) }
            }
            Phase::Open { .. } | Phase::ForcedOpen | Phase::ForcedClosed => current,
        }
    }

    /// Whether so many failures in a row trip the breaker.
    const fn is_tripped_by(&self, failures: u64) -> bool {
        failures >= self.failure_threshold as u64 && self.failure_threshold != u32::MAX
    }

    /// Open, after it was closed.
    pub(super) fn tripped(&self, current: Snapshot, now: Now, open_for: OpenFor) -> Snapshot {
        current.start_over(Phase::Open { until: self.open_until(0, now, open_for) })
    }

    /// Open, after it was half-open.
    pub(super) fn reopened(&self, current: Snapshot, now: Now, open_for: OpenFor) -> Snapshot {
        current.reopened(self.open_until(current.reopens + 1, now, open_for))
    }

    /// After a call of this turn that came to no verdict: a probe gives its place back.
    pub(super) const fn after_no_verdict(current: Snapshot) -> Snapshot {
        match current.phase {
            Phase::HalfOpen(probes) => {
                current.with(Phase::HalfOpen(Probes { out: probes.out.saturating_sub(1), ..probes }))
            }
            _ => current,
        }
    }

    /// The state that a call at `now` would find, and for how long it would be refused. So an open breaker whose
    /// cooldown is over is half-open, though no probe has passed yet, and one that was half-open for too long is open.
    pub(super) fn state(
        &self,
        current: Snapshot,
        now: impl FnOnce() -> Now,
        open_for: OpenFor,
    ) -> (State, Option<u64>) {
        match current.phase {
            Phase::Open { until } => match self.cooldown_left(until, now()) {
                0 => (State::HalfOpen, None),
                left => (State::Open, Some(left)),
            },
            Phase::HalfOpen(probes) if self.max_half_open > 0 => {
                let now = now();
                if self.is_half_open_over(probes, now) {
                    let until = self.open_until(current.reopens + 1, now, open_for);
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

/// As many failures as the word can count, at the most.
const fn one_more(failures: u64) -> u64 {
    if failures < MAX_FAILURES { failures + 1 } else { failures }
}
