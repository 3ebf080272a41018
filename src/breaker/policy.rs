//! The state machine of a breaker: from one snapshot to the next, free of atomics and clocks.

use super::word::{Instant, Phase, Snapshot};
use super::{BreakerConfig, State};
use crate::clock::Micros;

/// The settings as the state machine needs them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    failure_threshold: u64,
    /// In microseconds.
    cooldown: u64,
    max_probes: u32,
    successes_to_close: u32,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Admission {
    /// It passes, and nothing changes.
    Pass,
    /// It passes as a probe, with this next snapshot.
    Probe(Snapshot),
    /// It is refused for so many microseconds.
    Open(u64),
    /// It is refused while probes are out.
    Probing,
}

impl Policy {
    pub(super) const fn new(config: &BreakerConfig) -> Self {
        Self {
            failure_threshold: config.failure_threshold() as u64,
            cooldown: Micros::of_duration(config.cooldown()),
            max_probes: config.max_probes(),
            successes_to_close: config.successes_to_close(),
        }
    }

    /// What is left of the cooldown, in microseconds; 0 when it is over.
    ///
    /// Moments wrap, so one that lies further ahead than a cooldown can reach has passed long ago; `skew` is how far the
    /// reading `now` may lie before the one that tripped the breaker.
    const fn cooldown_left(&self, until: Instant, now: Instant, skew: u64) -> u64 {
        let left = until.since(now);
        if left > self.cooldown.saturating_add(skew) { 0 } else { left }
    }

    /// What becomes of a call at `now`, which is asked for only when it matters.
    #[inline]
    pub(super) fn admit(&self, current: Snapshot, now: impl FnOnce() -> (Instant, u64)) -> Admission {
        match current.phase {
            Phase::Closed { .. } => Admission::Pass,
            Phase::Open { until } => {
                let (now, skew) = now();
                match self.cooldown_left(until, now, skew) {
                    0 => Admission::Probe(current.transition_to(Phase::HalfOpen { probes: 1, successes: 0 })),
                    left => Admission::Open(left),
                }
            }
            // Not more probes in flight than allowed, nor more than can still be needed.
            Phase::HalfOpen { probes, successes }
                if probes < self.max_probes && probes + successes < self.max_probes.max(self.successes_to_close) =>
            {
                Admission::Probe(current.with(Phase::HalfOpen { probes: probes + 1, successes }))
            }
            Phase::HalfOpen { .. } => Admission::Probing,
        }
    }

    /// After a success of a call of this turn.
    #[inline]
    pub(super) const fn after_success(&self, current: Snapshot) -> Snapshot {
        match current.phase {
            Phase::Closed { .. } => current.with(Phase::Closed { failures: 0 }),
            Phase::Open { .. } => current,
            Phase::HalfOpen { successes, .. } if successes + 1 >= self.successes_to_close => {
                current.transition_to(Phase::Closed { failures: 0 })
            }
            Phase::HalfOpen { probes, successes } => {
                current.with(Phase::HalfOpen { probes: probes.saturating_sub(1), successes: successes + 1 })
            }
        }
    }

    /// After a failure of a call of this turn, at `now`.
    pub(super) fn after_failure(&self, current: Snapshot, now: impl FnOnce() -> Instant) -> Snapshot {
        match current.phase {
            Phase::Closed { failures } if failures + 1 < self.failure_threshold => {
                current.with(Phase::Closed { failures: failures + 1 })
            }
            Phase::Closed { .. } | Phase::HalfOpen { .. } => {
                current.transition_to(Phase::Open { until: now().after(self.cooldown) })
            }
            Phase::Open { .. } => current,
        }
    }

    /// After a call of this turn that came to no verdict: a probe gives its place back.
    pub(super) const fn after_no_verdict(current: Snapshot) -> Snapshot {
        match current.phase {
            Phase::HalfOpen { probes, successes } => {
                current.with(Phase::HalfOpen { probes: probes.saturating_sub(1), successes })
            }
            Phase::Closed { .. } | Phase::Open { .. } => current,
        }
    }

    /// The state at `now`: an open breaker whose cooldown is over is half-open, though no probe has passed yet.
    pub(super) fn state(&self, current: Snapshot, now: impl FnOnce() -> (Instant, u64)) -> State {
        match current.phase {
            Phase::Closed { .. } => State::Closed,
            Phase::HalfOpen { .. } => State::HalfOpen,
            Phase::Open { until } => {
                let (now, skew) = now();
                if self.cooldown_left(until, now, skew) == 0 { State::HalfOpen } else { State::Open }
            }
        }
    }
}
