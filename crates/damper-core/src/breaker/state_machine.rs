//! The rules of a breaker: the next state, from the present one, without atomics or a clock.

use super::state_word::{Phase, Probes, Snapshot, Word};
use super::{CircuitOpen, State};

/// The settings of a breaker, in the units of its word.
pub(crate) trait Settings {
    type Word: Word;

    /// A reading of the clock.
    type Now: Copy;

    /// The inputs of a cooldown beside the settings.
    type Request: Copy;

    /// How many consecutive failures trip the breaker, if any do.
    fn failure_threshold(&self) -> Option<u32>;
    fn probe_limits(&self) -> ProbeLimits;
    /// In percent; `None` if any failure of a probe opens the breaker again.
    fn probe_failure_rate(&self) -> Option<u32>;

    /// When the cooldown ends that begins at `now`, after so many reopenings.
    fn open_until(&self, reopens: u32, now: Self::Now, request: Self::Request) -> u64;
    /// The rest of a cooldown, in microseconds; 0 when it is over.
    fn cooldown_left(&self, until: u64, now: Self::Now) -> u64;

    /// Whether the half-open state ends by itself.
    fn has_half_open_deadline(&self) -> bool;
    /// When a half-open state ends that begins at `now`.
    fn half_open_until(&self, now: Self::Now) -> u32;
    fn is_half_open_over(&self, deadline: u32, now: Self::Now) -> bool;
}

/// How many probes there may be, and must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeLimits {
    pub(crate) most_in_flight: u32,
    pub(crate) successes_to_close: u32,
}

impl ProbeLimits {
    /// The most probes that a decision can need.
    #[inline]
    fn decisive(self) -> u32 {
        self.most_in_flight.max(self.successes_to_close)
    }
}

/// The state of a breaker with these settings.
pub(crate) type SnapshotOf<S> = Snapshot<<S as Settings>::Word>;

/// The decision on a call that asks for admission.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) enum CallDecision<S: Settings> {
    /// It passes, and nothing changes.
    Pass,
    /// It passes as a probe, with this next snapshot.
    Probe(SnapshotOf<S>),
    Refuse(CircuitOpen),
    /// At this time the breaker has been half-open for too long, and opens again.
    HalfOpenTooLong(S::Now),
}

/// The rules, for settings of either width.
pub(crate) trait StateMachine: Settings {
    /// Decides about a call at `now`, which is read only where it matters.
    #[inline]
    fn admit(&self, current: SnapshotOf<Self>, now: impl FnOnce() -> Self::Now) -> CallDecision<Self>
    where
        Self: Sized,
    {
        match current.phase() {
            Phase::Closed { .. } | Phase::ForcedClosed | Phase::Disabled { .. } => CallDecision::Pass,
            Phase::Open { until } => {
                let now = now();
                match self.cooldown_left(until, now) {
                    0 => {
                        let deadline = self.half_open_until(now);
                        let probes = Probes { in_flight: 1, succeeded: 0, failed: 0, deadline };
                        CallDecision::Probe(current.transition_to(current.reopens(), Phase::HalfOpen(probes)))
                    }
                    left => CallDecision::Refuse(CircuitOpen::for_micros(left)),
                }
            }
            Phase::HalfOpen(probes) => {
                if self.has_half_open_deadline() {
                    let now = now();
                    if self.is_half_open_over(probes.deadline, now) {
                        return CallDecision::HalfOpenTooLong(now);
                    }
                }
                // Not more in flight than allowed, nor more than can still be needed.
                if probes.in_flight < self.probe_limits().most_in_flight
                    && probes.in_flight + probes.succeeded + probes.failed < self.probe_limits().decisive()
                {
                    let probes = Probes { in_flight: probes.in_flight + 1, ..probes };
                    CallDecision::Probe(current.with(Phase::HalfOpen(probes)))
                } else {
                    CallDecision::Refuse(CircuitOpen::PROBING)
                }
            }
            Phase::ForcedOpen => CallDecision::Refuse(CircuitOpen::FORCED),
        }
    }

    /// The snapshot after a success of a call of this generation.
    #[inline]
    fn after_success(&self, current: SnapshotOf<Self>) -> SnapshotOf<Self> {
        match current.phase() {
            Phase::Closed { .. } => current.with(Phase::Closed { failures: 0 }),
            Phase::Disabled { .. } => current.with(Phase::Disabled { failures: 0 }),
            Phase::HalfOpen(probes) => {
                let in_flight = probes.in_flight.saturating_sub(1);
                self.after_probe(current, Probes { in_flight, succeeded: probes.succeeded + 1, ..probes })
            }
            Phase::Open { .. } | Phase::ForcedOpen | Phase::ForcedClosed => current,
        }
    }

    /// Closes if enough probes succeeded.
    #[inline]
    fn after_probe(&self, current: SnapshotOf<Self>, probes: Probes) -> SnapshotOf<Self> {
        let is_enough = match self.probe_failure_rate() {
            None => probes.succeeded >= self.probe_limits().successes_to_close,
            // Even if all that are to come failed.
            Some(rate) => {
                self.probe_limits().decisive().saturating_sub(probes.succeeded) * 100
                    < rate * self.probe_limits().decisive()
            }
        };
        if is_enough {
            current.transition_to(0, Phase::Closed { failures: 0 })
        } else {
            current.with(Phase::HalfOpen(probes))
        }
    }

    /// The snapshot after a failure of a call of this generation, at `now`, which is read only where the breaker opens.
    #[inline]
    fn after_failure(
        &self,
        current: SnapshotOf<Self>,
        now: impl FnOnce() -> Self::Now,
        request: Self::Request,
    ) -> SnapshotOf<Self> {
        let reopens = match current.phase() {
            Phase::Closed { failures } => {
                let failures = failures.saturating_add(1);
                if self.failure_threshold().is_none_or(|threshold| failures < threshold) {
                    return current.with(Phase::Closed { failures });
                }
                0
            }
            Phase::HalfOpen(probes) => {
                let in_flight = probes.in_flight.saturating_sub(1);
                let probes = Probes { in_flight, failed: probes.failed + 1, ..probes };
                if self
                    .probe_failure_rate()
                    .is_some_and(|rate| probes.failed * 100 < rate * self.probe_limits().decisive())
                {
                    return self.after_probe(current, probes);
                }
                current.reopens() + 1
            }
            Phase::Disabled { failures } => {
                return current.with(Phase::Disabled { failures: failures.saturating_add(1) });
            }
            Phase::Open { .. } | Phase::ForcedOpen | Phase::ForcedClosed => return current,
        };
        self.opened(current, reopens, now(), request)
    }

    /// The open state, after so many reopenings. Out of line, to be there once.
    #[inline(never)]
    fn opened(
        &self,
        current: SnapshotOf<Self>,
        reopens: u32,
        now: Self::Now,
        request: Self::Request,
    ) -> SnapshotOf<Self> {
        current.transition_to(reopens, Phase::Open { until: self.open_until(reopens, now, request) })
    }

    /// The snapshot after a call of this generation without a verdict: a probe's place becomes free.
    #[inline]
    fn after_no_verdict(current: SnapshotOf<Self>) -> SnapshotOf<Self> {
        match current.phase() {
            Phase::HalfOpen(probes) => {
                current.with(Phase::HalfOpen(Probes { in_flight: probes.in_flight.saturating_sub(1), ..probes }))
            }
            _ => current,
        }
    }

    /// The state that a call at `now` would find, and for how many microseconds it would be refused. So an open breaker
    /// whose cooldown is over is half-open, though no probe has passed yet, and one that was half-open for too long is open.
    #[inline]
    fn state_at(
        &self,
        current: SnapshotOf<Self>,
        now: impl FnOnce() -> Self::Now,
        request: Self::Request,
    ) -> (State, Option<u64>) {
        match current.phase() {
            Phase::Open { until } => match self.cooldown_left(until, now()) {
                0 => (State::HalfOpen, None),
                left => (State::Open, Some(left)),
            },
            Phase::HalfOpen(probes) if self.has_half_open_deadline() => {
                let now = now();
                if self.is_half_open_over(probes.deadline, now) {
                    let until = self.open_until(current.reopens() + 1, now, request);
                    (State::Open, Some(self.cooldown_left(until, now)))
                } else {
                    (State::HalfOpen, None)
                }
            }
            phase => (phase.state(), None),
        }
    }
}

impl<S: Settings> StateMachine for S {}
