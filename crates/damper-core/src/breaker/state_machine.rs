//! The rules of a breaker: the next state, from the present one, without atomics or a clock.

use super::state_word::{Phase, Probes, Snapshot, Word};
use super::{CircuitOpen, State};
use crate::ramp::Stage;

/// The settings of a breaker, in the units of its word, and the rules that follow from them.
pub(crate) trait Settings: Copy {
    /// The integer that holds the state.
    type Word: Word;

    /// A reading of the clock.
    type Now: Copy;

    /// The inputs of a cooldown beside the settings.
    type Request: Copy;

    /// Returns how many consecutive failures trip the breaker; `None` if they do not.
    fn failure_threshold(self) -> Option<u32>;

    /// Returns the limits on the number of probes.
    fn probe_limits(self) -> ProbeLimits;

    /// Returns the percentage of probes that must fail to open the breaker again; `None` if any failure does.
    fn probe_failure_rate(self) -> Option<u32>;

    /// Returns when a cooldown ends that begins at `now`, after `reopens` reopenings.
    fn open_until(self, reopens: u32, now: Self::Now, request: Self::Request) -> u64;

    /// Returns the rest of a cooldown, in microseconds; 0 when it is over.
    fn cooldown_left(self, until: u64, now: Self::Now) -> u64;

    /// Returns whether the half-open state ends by itself.
    fn has_half_open_deadline(self) -> bool;

    /// Returns when a half-open state ends that begins at `now`.
    fn half_open_until(self, now: Self::Now) -> u32;

    /// Returns whether this half-open state is over.
    fn is_half_open_over(self, current: SnapshotOf<Self>, now: Self::Now) -> bool;

    /// Returns whether a growing share of the calls passes after the probes.
    #[inline]
    fn returns_gradually(self) -> bool {
        false
    }

    /// Returns the share of the calls that passes at `now`; `None` if this returning state is over.
    #[inline]
    fn share(self, _current: SnapshotOf<Self>, _now: Self::Now) -> Option<Share> {
        None
    }

    /// Decides about a call at `now`, which is read only where it matters.
    #[inline]
    fn admit(
        self,
        current: SnapshotOf<Self>,
        now: impl FnOnce() -> Self::Now,
        request: impl FnOnce() -> Self::Request,
    ) -> CallDecision<Self> {
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
                    if self.is_half_open_over(current, now) {
                        return CallDecision::HalfOpenTooLong(self.opened(
                            current,
                            current.reopens() + 1,
                            now,
                            request(),
                        ));
                    }
                }
                // No more probes are in flight than allowed, or than can still be needed. If none is in flight, one is needed:
                // the earlier probes may be decisive under the settings now in force, although they were not under those before.
                if probes.in_flight < self.probe_limits().most_in_flight
                    && (probes.in_flight == 0
                        || probes.in_flight + probes.succeeded + probes.failed < self.probe_limits().decisive())
                {
                    let probes = Probes { in_flight: probes.in_flight + 1, ..probes };
                    CallDecision::Probe(current.with(Phase::HalfOpen(probes)))
                } else {
                    CallDecision::Refuse(CircuitOpen::PROBING)
                }
            }
            Phase::Returning { .. } => match self.share(current, now()) {
                Some(share) => CallDecision::Share(share),
                None => CallDecision::Returned(current.transition_to(0, Phase::Closed { failures: 0 })),
            },
            Phase::ForcedOpen => CallDecision::Refuse(CircuitOpen::FORCED),
        }
    }

    /// Returns the snapshot of a closed breaker after an outcome that leaves it closed.
    ///
    /// `None` if the outcome trips it. `failures` is what the closed state counts.
    #[inline]
    fn after_outcome(self, current: SnapshotOf<Self>, failures: u32, failed: bool) -> Option<SnapshotOf<Self>> {
        let failures = if failed { failures.saturating_add(1) } else { 0 };
        if failed && self.failure_threshold().is_some_and(|threshold| failures >= threshold) {
            return None;
        }
        Some(current.with(Phase::Closed { failures }))
    }

    /// Returns the snapshot after a success of a call of this generation.
    ///
    /// `now` is read only where the breaker opens, because a success completes the least number of calls of a rate. Only the breaker
    /// in `words` opens here. A `CircuitBreaker` judges its window before, and its `after_outcome` trips on no success.
    #[inline]
    fn after_success(
        self,
        current: SnapshotOf<Self>,
        now: impl FnOnce() -> Self::Now,
        request: impl FnOnce() -> Self::Request,
    ) -> SnapshotOf<Self> {
        match current.phase() {
            Phase::Closed { failures } => match self.after_outcome(current, failures, false) {
                Some(next) => next,
                None => self.opened(current, 0, now(), request()),
            },
            Phase::Disabled { .. } => current.with(Phase::Disabled { failures: 0 }),
            Phase::Returning { .. } => current.with(Phase::Returning { failures: 0 }),
            Phase::HalfOpen(probes) => {
                let in_flight = probes.in_flight.saturating_sub(1);
                self.after_probe(current, Probes { in_flight, succeeded: probes.succeeded + 1, ..probes })
            }
            Phase::Open { .. } | Phase::ForcedOpen | Phase::ForcedClosed => current,
        }
    }

    /// Returns the snapshot with these probes, which is closed if enough of them succeeded.
    ///
    /// Where there is a ramp, it is returning then.
    #[inline]
    fn after_probe(self, current: SnapshotOf<Self>, probes: Probes) -> SnapshotOf<Self> {
        let is_enough = match self.probe_failure_rate() {
            None => probes.succeeded >= self.probe_limits().successes_to_close,
            // The rate is out of reach, even if all remaining probes failed.
            Some(rate) => {
                self.probe_limits().decisive().saturating_sub(probes.succeeded) * 100
                    < rate * self.probe_limits().decisive()
            }
        };
        if is_enough && self.returns_gradually() {
            current.transition_to(current.reopens(), Phase::Returning { failures: 0 })
        } else if is_enough {
            current.transition_to(0, Phase::Closed { failures: 0 })
        } else {
            current.with(Phase::HalfOpen(probes))
        }
    }

    /// Returns the snapshot after a failure of this generation that leaves the breaker closed.
    ///
    /// `None` if the failure does more than count.
    #[inline]
    fn counted_failure(self, current: SnapshotOf<Self>) -> Option<SnapshotOf<Self>> {
        let Phase::Closed { failures } = current.phase() else { return None };
        self.after_outcome(current, failures, true)
    }

    /// Returns the snapshot after a failure of a call of this generation.
    ///
    /// `now` is read only where the breaker opens.
    #[inline]
    fn after_failure(
        self,
        current: SnapshotOf<Self>,
        now: impl FnOnce() -> Self::Now,
        request: Self::Request,
    ) -> SnapshotOf<Self> {
        if let Some(next) = self.counted_failure(current) {
            return next;
        }
        let (reopens, now) = match current.phase() {
            Phase::Closed { .. } => (0, now()),
            Phase::HalfOpen(probes) => {
                let in_flight = probes.in_flight.saturating_sub(1);
                let probes = Probes { in_flight, failed: probes.failed + 1, ..probes };
                if self
                    .probe_failure_rate()
                    .is_some_and(|rate| probes.failed * 100 < rate * self.probe_limits().decisive())
                {
                    return self.after_probe(current, probes);
                }
                (current.reopens() + 1, now())
            }
            Phase::Returning { failures } => {
                let failures = failures.saturating_add(1);
                if self.failure_threshold().is_none_or(|threshold| failures < threshold) {
                    return current.with(Phase::Returning { failures });
                }
                let now = now();
                // No call has come since the ramp ended. A result that arrives after it does not count.
                if self.share(current, now).is_none() {
                    return current.transition_to(0, Phase::Closed { failures: 0 });
                }
                (current.reopens() + 1, now)
            }
            Phase::Disabled { failures } => {
                return current.with(Phase::Disabled { failures: failures.saturating_add(1) });
            }
            Phase::Open { .. } | Phase::ForcedOpen | Phase::ForcedClosed => return current,
        };
        self.opened(current, reopens, now, request)
    }

    /// Returns the open state after `reopens` reopenings.
    ///
    /// It is out of line, so that its code exists once.
    #[inline(never)]
    fn opened(
        self,
        current: SnapshotOf<Self>,
        reopens: u32,
        now: Self::Now,
        request: Self::Request,
    ) -> SnapshotOf<Self> {
        current.transition_to(reopens, Phase::Open { until: self.open_until(reopens, now, request) })
    }

    /// Returns the snapshot after a call of this generation without a verdict: a probe's place is freed.
    #[inline]
    fn after_no_verdict(self, current: SnapshotOf<Self>) -> SnapshotOf<Self> {
        match current.phase() {
            Phase::HalfOpen(probes) => {
                current.with(Phase::HalfOpen(Probes { in_flight: probes.in_flight.saturating_sub(1), ..probes }))
            }
            _ => current,
        }
    }

    /// Returns the state that a call at `now` would find, and its refusal's length in microseconds.
    ///
    /// An open breaker whose cooldown is over is half-open, even before the first probe. One that was half-open for too long is
    /// open. One whose ramp is over is closed.
    #[inline]
    fn state_at(
        self,
        current: SnapshotOf<Self>,
        now: impl FnOnce() -> Self::Now,
        request: Self::Request,
    ) -> (State, Option<u64>) {
        match current.phase() {
            Phase::Open { until } => match self.cooldown_left(until, now()) {
                0 => (State::HalfOpen, None),
                left => (State::Open, Some(left)),
            },
            Phase::HalfOpen(_) if self.has_half_open_deadline() => {
                let now = now();
                if self.is_half_open_over(current, now) {
                    let until = self.open_until(current.reopens() + 1, now, request);
                    (State::Open, Some(self.cooldown_left(until, now)))
                } else {
                    (State::HalfOpen, None)
                }
            }
            Phase::Returning { .. } if self.share(current, now()).is_none() => (State::Closed, None),
            phase => (phase.state(), None),
        }
    }
}

/// The share of the calls that passes while a breaker returns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) stage: Stage,
    /// Where the sequence of the calls that pass begins: another place for each return.
    pub(crate) seed: u64,
}

/// The limits on the number of probes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeLimits {
    pub(crate) most_in_flight: u32,
    pub(crate) successes_to_close: u32,
}

impl ProbeLimits {
    /// Returns the most probes that a decision can need.
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
    /// The call passes, and nothing changes.
    Pass,
    /// The call passes as a probe, with this next snapshot.
    Probe(SnapshotOf<S>),
    Refuse(CircuitOpen),
    /// This share of the calls passes, and nothing changes.
    Share(Share),
    /// The ramp is over, and the breaker closes, with this next snapshot.
    Returned(SnapshotOf<S>),
    /// The breaker has been half-open for too long, and opens again, with this next snapshot.
    HalfOpenTooLong(SnapshotOf<S>),
}
