//! What comes of a call that was made: to the window, to the word, and to who listens.

use super::admission::Admitted;
use super::policy::Policy;
use super::window::{Outcome, Span};
use super::word::{Generation, Phase, Snapshot};
use super::{Cause, CircuitBreaker, OnStateChange, StateChange, Verdict};
use crate::sync::Backoff;
use crate::time::Clock;
use core::time::Duration;

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    #[inline]
    pub(super) fn record_verdict(&self, admitted: Admitted, verdict: Verdict) {
        match verdict {
            Verdict::Success => self.succeeded(admitted),
            Verdict::Failure => self.failed(admitted, Duration::ZERO),
            Verdict::RetryAfter(wait) => self.failed(admitted, wait),
            Verdict::Ignored => self.released(admitted),
        }
    }

    #[inline]
    fn succeeded(&self, admitted: Admitted) {
        let Admitted { generation, began } = admitted;
        if self.policy.has_rates() {
            self.record_outcome(generation, false, began, Duration::ZERO);
        }
        if !self.word.is_closed_without_failure(generation) {
            self.succeeded_slow(admitted);
        }
    }

    /// Returns what the success left, unless it is late.
    #[cold]
    fn succeeded_slow(&self, admitted: Admitted) -> Option<Snapshot> {
        if self.is_slow_probe(admitted) {
            self.failed(admitted, Duration::ZERO);
            return None;
        }
        self.settle(admitted.generation, None, |current| self.policy.after_success(current))
    }

    /// Whether the call is a probe that took as long as a slow call.
    ///
    /// Reads the clock for probes only: the window has timed a call of the closed state already.
    fn is_slow_probe(&self, Admitted { generation, began }: Admitted) -> bool {
        if !self.policy.tells_slow_calls() {
            return false;
        }
        let current = self.word.load();
        // While the generation is that of the call, so is the state.
        current.generation == generation
            && matches!(current.phase, Phase::HalfOpen(_))
            && self.policy.is_slow(self.timed().saturating_sub(began))
    }

    #[cold]
    pub(super) fn failed(&self, Admitted { generation, began }: Admitted, retry_after: Duration) {
        if self.policy.has_rates() {
            self.record_outcome(generation, true, began, retry_after);
        }
        self.settle(generation, None, |current| {
            self.policy.after_failure(current, || self.now(), self.open_for(retry_after))
        });
    }

    #[cold]
    fn released(&self, Admitted { generation, .. }: Admitted) {
        self.settle(generation, None, Policy::after_no_verdict);
    }

    /// The permit was dropped without a verdict.
    #[cold]
    pub(super) fn abandoned(&self, admitted: Admitted) {
        let is_probe = matches!(self.word.load().phase, Phase::HalfOpen(_));
        if self.policy.abandoned_probes_fail() && is_probe {
            self.failed(admitted, Duration::ZERO);
        } else {
            self.released(admitted);
        }
    }

    /// Counts a probe whose call goes on as a success, and returns what the rest of the call is told with.
    ///
    /// If the success closes the breaker, the rest is a call of the closed state. Otherwise it changes nothing. A call
    /// that is no probe is told with what it was admitted with.
    #[inline]
    pub(super) fn probe_answered(&self, admitted: Admitted) -> Admitted {
        match self.word.closed_generation() {
            Ok(_) => admitted,
            Err(_) => self.probe_answered_slow(admitted),
        }
    }

    #[cold]
    fn probe_answered_slow(&self, admitted: Admitted) -> Admitted {
        let current = self.word.load();
        // While the generation is that of the call, so is the state.
        if current.generation != admitted.generation || !matches!(current.phase, Phase::HalfOpen(_)) {
            return admitted;
        }
        match self.succeeded_slow(admitted) {
            Some(Snapshot { generation, phase: Phase::Closed { .. }, .. }) => {
                Admitted { generation, began: self.timed() }
            }
            _ => Admitted { generation: Generation::NONE, began: 0 },
        }
    }

    /// Records an outcome in the window, if it is that of a call in the closed state, and trips if that is too many.
    #[inline]
    fn record_outcome(&self, generation: Generation, failed: bool, began: u64, retry_after: Duration) {
        if self.word.closed_generation() != Ok(generation) && !self.is_disabled(generation) {
            return;
        }
        let is_current = || self.word.load().generation == generation;
        let call = || {
            let ended = self.timed();
            let slow = self.policy.is_slow(ended.saturating_sub(began));
            (Outcome { failed, slow }, Span { began, ended })
        };
        let Some(tally) = self.window.record(generation, is_current, call) else {
            return;
        };
        if let Some(cause) = self.policy.judge(tally, self.window.capacity()) {
            self.trip(generation, cause, retry_after);
        }
    }

    #[cold]
    fn is_disabled(&self, generation: Generation) -> bool {
        let current = self.word.load();
        current.generation == generation && matches!(current.phase, Phase::Disabled { .. })
    }

    #[cold]
    fn trip(&self, generation: Generation, cause: Cause, retry_after: Duration) {
        self.settle(generation, Some(cause), |current| match current.phase {
            Phase::Closed { .. } => self.policy.tripped(current, self.now(), self.open_for(retry_after)),
            _ => current,
        });
    }

    /// Brings the word from this turn of the state to the next, and returns what it has left there; a result of an
    /// earlier turn is dropped.
    #[inline]
    fn settle(
        &self,
        generation: Generation,
        cause: Option<Cause>,
        next: impl Fn(Snapshot) -> Snapshot,
    ) -> Option<Snapshot> {
        let backoff = Backoff::new();
        loop {
            let current = self.word.load();
            if current.generation != generation {
                return None;
            }
            let next = next(current);
            if next == current || self.replace(current, next, cause) {
                return Some(next);
            }
            backoff.spin();
        }
    }

    /// Puts `new` in the place of `old`, if that is still there, and tells of it if it is another turn: with a cause
    /// of its own, or that which follows from the states.
    #[inline]
    pub(super) fn replace(&self, old: Snapshot, new: Snapshot, cause: Option<Cause>) -> bool {
        if !self.word.replace(old, new) {
            return false;
        }
        if old.generation != new.generation {
            let (from, to) = (old.phase.state(), new.phase.state());
            self.listener.on_state_change(StateChange {
                from,
                to,
                cause: cause.unwrap_or_else(|| Cause::of(from, to)),
                generation: new.generation.to_bits() as u32,
            });
        }
        true
    }
}
