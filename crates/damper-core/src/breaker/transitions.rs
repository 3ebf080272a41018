//! The changes of a breaker's word, by compare-and-swap.

use super::state_machine::{CallDecision, Settings, SnapshotOf, StateMachine};
use super::state_word::{Generation, Phase, StateWord};
use super::{Cause, CircuitOpen, State};
use crate::sync::SpinWait;
use core::time::Duration;

/// A breaker of either width: its word, its settings and its clock. The changes follow from these.
pub(crate) trait Transitions {
    type Settings: Settings;

    fn word_and_settings(&self) -> (&StateWord<<Self::Settings as Settings>::Word>, &Self::Settings);

    /// Reads the clock: after the word, so that only its own skew can put it before the reading in the word.
    fn now(&self) -> <Self::Settings as Settings>::Now;

    /// A cooldown that the server asks to last for `retry_after`.
    fn cooldown(&self, retry_after: Duration) -> <Self::Settings as Settings>::Request;

    /// Is called after every change of the generation. The cause, where none is given, follows from the states.
    fn changed(&self, old: SnapshotOf<Self::Settings>, new: SnapshotOf<Self::Settings>, cause: Option<Cause>);

    #[inline]
    fn word(&self) -> &StateWord<<Self::Settings as Settings>::Word> {
        self.word_and_settings().0
    }

    #[inline]
    fn settings(&self) -> &Self::Settings {
        self.word_and_settings().1
    }

    /// The generation, if the breaker is closed, for the fast path of a call; otherwise what the word held.
    #[inline]
    fn closed_generation(&self) -> Result<Generation, SnapshotOf<Self::Settings>> {
        let current = self.word().load();
        if current.is_closed() { Ok(current.generation()) } else { Err(current) }
    }

    /// Whether a call of this generation is a probe: while the generation is that of the call, so is the state.
    #[inline]
    fn is_probe(&self, generation: Generation) -> bool {
        let current = self.word().load();
        current.generation() == generation && matches!(current.phase(), Phase::HalfOpen(_))
    }

    /// The state that a call would find now, and for how many microseconds it would be refused.
    #[inline]
    fn state_of(&self, current: SnapshotOf<Self::Settings>) -> (State, Option<u64>) {
        self.settings().state_at(current, || self.now(), self.cooldown(Duration::ZERO))
    }

    /// Lets a call pass, or refuses it. Does not back off: a swap fails only when another thread took one of the few probes.
    fn admit_or_refuse(&self, mut current: SnapshotOf<Self::Settings>) -> Result<Generation, CircuitOpen> {
        loop {
            match self.settings().admit(current, || self.now()) {
                CallDecision::Pass => return Ok(current.generation()),
                CallDecision::Probe(next) => {
                    if self.replace(current, next, None) {
                        return Ok(next.generation());
                    }
                }
                CallDecision::Refuse(open) => return Err(open),
                CallDecision::HalfOpenTooLong(now) => {
                    let next =
                        self.settings().opened(current, current.reopens() + 1, now, self.cooldown(Duration::ZERO));
                    // If the swap fails, the state that another thread left there is judged next.
                    _ = self.replace(current, next, Some(Cause::HalfOpenTooLong));
                }
            }
            current = self.word().load();
        }
    }

    /// Records a success of a call of this generation; `None` if that is over.
    #[inline]
    fn after_success(&self, generation: Generation) -> Option<SnapshotOf<Self::Settings>> {
        self.settle(generation, None, |current| self.settings().after_success(current))
    }

    /// Records a failure of a call of this generation.
    #[inline]
    fn after_failure(&self, generation: Generation, retry_after: Duration) {
        self.settle(generation, None, |current| {
            self.settings().after_failure(current, || self.now(), self.cooldown(retry_after))
        });
    }

    /// Records that a call of this generation came to no verdict: a probe's place becomes free.
    #[cold]
    fn released(&self, generation: Generation) {
        self.settle(generation, None, Self::Settings::after_no_verdict);
    }

    /// Replaces the word of this generation by `next` of it, and returns that; the result of a call of another
    /// generation is discarded.
    #[inline]
    fn settle(
        &self,
        generation: Generation,
        cause: Option<Cause>,
        next: impl Fn(SnapshotOf<Self::Settings>) -> SnapshotOf<Self::Settings>,
    ) -> Option<SnapshotOf<Self::Settings>> {
        let spin_wait = SpinWait::new();
        loop {
            let current = self.word().load();
            if current.generation() != generation {
                return None;
            }
            let next = next(current);
            if next == current || self.replace(current, next, cause) {
                return Some(next);
            }
            spin_wait.spin();
        }
    }

    /// Brings the breaker into a state, whatever the one before.
    fn force(&self, phase: Phase) {
        loop {
            let current = self.word().load();
            if self.replace(current, current.transition_to(0, phase), Some(Cause::Control)) {
                return;
            }
        }
    }

    /// Swaps `old` for `new`, unless the word has changed; then reports the change, if it is one of the generation.
    #[inline]
    fn replace(&self, old: SnapshotOf<Self::Settings>, new: SnapshotOf<Self::Settings>, cause: Option<Cause>) -> bool {
        if !self.word().replace(old, new) {
            return false;
        }
        if old.generation() != new.generation() {
            self.changed(old, new, cause);
        }
        true
    }
}
