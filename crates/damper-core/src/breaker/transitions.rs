//! The changes of a breaker's word, by compare-and-swap.

use super::circuit_breaker::OnUnwind;
use super::state_machine::{CallDecision, Settings, Share};
use super::state_word::{Generation, Phase, Snapshot, StateWord, Word};
use super::{Cause, CircuitOpen, State};
use crate::sync::SpinWait;
use core::mem;
use core::time::Duration;

/// A breaker of either width: its word, its settings and its clock. The trait provides the changes.
pub(crate) trait Transitions {
    type Word: Word;
    type Now: Copy;
    type Request: Copy;
    type Settings<'a>: Settings<Word = Self::Word, Now = Self::Now, Request = Self::Request>
    where
        Self: 'a;

    /// Returns the word of the breaker's state.
    fn word(&self) -> &StateWord<Self::Word>;

    /// Reads the settings, which count if they [are in force](Self::are_in_force) after all other inputs were read.
    fn settings(&self) -> Self::Settings<'_>;

    /// Returns whether these are still the settings in force.
    fn are_in_force(&self, settings: &Self::Settings<'_>) -> bool;

    /// Reads the clock, after the word was loaded.
    ///
    /// So the reading is before the time in the word only by clock skew.
    fn now(&self) -> Self::Now;

    /// Returns a cooldown with the server's `Retry-After`.
    fn cooldown(&self, retry_after: Duration) -> Self::Request;

    /// Handles a call that this half-open state refused because probes are in flight.
    fn probe_refused(&self, _half_open: Snapshot<Self::Word>) {}

    /// Returns whether the next call of this returning state is one of the share that passes.
    ///
    /// Only a breaker with a ramp is asked.
    fn takes_turn(&self, _returning: Snapshot<Self::Word>, _share: Share) -> bool {
        true
    }

    /// Handles a change of the generation, after it was made. Without a `cause`, the states determine it.
    fn changed(&self, old: Snapshot<Self::Word>, new: Snapshot<Self::Word>, cause: Option<Cause>);

    /// Returns the generation if the breaker is closed, for the fast path; otherwise the loaded word.
    #[inline]
    fn closed_generation(&self) -> Result<Generation, Snapshot<Self::Word>> {
        let current = self.word().load();
        if current.is_closed() { Ok(current.generation()) } else { Err(current) }
    }

    /// Returns whether a call of this generation is a probe: the generation determines the state.
    #[inline]
    fn is_probe(&self, generation: Generation) -> bool {
        let current = self.word().load();
        current.generation() == generation && matches!(current.phase(), Phase::HalfOpen(_))
    }

    /// Returns the state that a call would find now, and for how many microseconds it would be refused.
    #[inline]
    fn state_of(&self, current: Snapshot<Self::Word>) -> (State, Option<u64>) {
        loop {
            let settings = self.settings();
            let state = settings.state_at(current, || self.now(), self.cooldown(Duration::ZERO));
            if self.are_in_force(&settings) {
                return state;
            }
        }
    }

    /// Lets a call pass, or refuses it.
    ///
    /// It does not back off, because a swap fails only when another thread took one of the few probes.
    fn admit_or_refuse(&self, mut current: Snapshot<Self::Word>) -> Result<Generation, CircuitOpen> {
        loop {
            let settings = self.settings();
            let decision = settings.admit(current, || self.now(), || self.cooldown(Duration::ZERO));
            if self.are_in_force(&settings) {
                match decision {
                    CallDecision::Pass => return Ok(current.generation()),
                    CallDecision::Probe(next) => {
                        // If the listener of the change panics, no permit exists that would free the probe's place.
                        let place = OnUnwind(|| self.released(next.generation()));
                        let is_taken = self.replace(current, next, None);
                        mem::forget(place);
                        if is_taken {
                            return Ok(next.generation());
                        }
                    }
                    CallDecision::Refuse(open) => {
                        if open == CircuitOpen::PROBING {
                            self.probe_refused(current);
                        }
                        return Err(open);
                    }
                    CallDecision::Share(share) => {
                        return if self.takes_turn(current, share) {
                            Ok(current.generation())
                        } else {
                            Err(CircuitOpen::returning(share.stage.grows_in))
                        };
                    }
                    CallDecision::Returned(next) => {
                        // If the swap fails, the next round judges the state that another thread left there.
                        _ = self.replace(current, next, None);
                    }
                    CallDecision::HalfOpenTooLong(next) => {
                        // If the swap fails, the next round judges the state that another thread left there.
                        _ = self.replace(current, next, Some(Cause::HalfOpenTooLong));
                    }
                }
            }
            current = self.word().load();
        }
    }

    /// Records a success of a call of this generation; `None` if the generation is over.
    #[inline]
    fn after_success(&self, generation: Generation) -> Option<Snapshot<Self::Word>> {
        self.settle(generation, None, |settings, current| {
            settings.after_success(current, || self.now(), || self.cooldown(Duration::ZERO))
        })
    }

    /// Records a failure of a call of this generation.
    #[inline]
    fn after_failure(&self, generation: Generation, retry_after: Duration) {
        self.settle(generation, None, |settings, current| {
            settings.after_failure(current, || self.now(), self.cooldown(retry_after))
        });
    }

    /// Records that a call of this generation ended without a verdict: a probe's place becomes free.
    #[cold]
    fn released(&self, generation: Generation) {
        self.settle(generation, None, |settings, current| settings.after_no_verdict(current));
    }

    /// Replaces the word of this generation by its `next`, and returns that.
    ///
    /// The result of a call of another generation is discarded.
    #[inline]
    fn settle<'a>(
        &'a self,
        generation: Generation,
        cause: Option<Cause>,
        next: impl Fn(&Self::Settings<'a>, Snapshot<Self::Word>) -> Snapshot<Self::Word>,
    ) -> Option<Snapshot<Self::Word>> {
        let spin_wait = SpinWait::new();
        loop {
            let settings = self.settings();
            let current = self.word().load();
            if current.generation() != generation {
                return None;
            }
            let next = next(&settings, current);
            if self.are_in_force(&settings) && (next == current || self.replace(current, next, cause)) {
                return Some(next);
            }
            spin_wait.spin();
        }
    }

    /// Opens the breaker for a first cooldown, whatever the present state.
    fn trip(&self) {
        loop {
            let settings = self.settings();
            let current = self.word().load();
            let next = settings.opened(current, 0, self.now(), self.cooldown(Duration::ZERO));
            if self.are_in_force(&settings) && self.replace(current, next, Some(Cause::Control)) {
                return;
            }
        }
    }

    /// Puts the breaker into a state, whatever the present one.
    fn force(&self, phase: Phase) {
        loop {
            let current = self.word().load();
            if self.replace(current, current.transition_to(0, phase), Some(Cause::Control)) {
                return;
            }
        }
    }

    /// Swaps `old` for `new`, unless the word has changed, and reports a change of the generation.
    #[inline]
    fn replace(&self, old: Snapshot<Self::Word>, new: Snapshot<Self::Word>, cause: Option<Cause>) -> bool {
        if !self.word().replace(old, new) {
            return false;
        }
        if old.generation() != new.generation() {
            self.changed(old, new, cause);
        }
        true
    }
}
