//! Breakers in shadow mode.

use super::Shadowed;
use crate::breaker::permit::Breaker;
use crate::breaker::{CallError, CircuitBreaker, CircuitOpen, OnStateChange, OnUnwind, Permit, Verdict, guarded_call};
use crate::time::Clock;

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::mem;

impl<C: Clock, L: OnStateChange, D: Clock, M: OnStateChange> Shadowed<CircuitBreaker<C, L>, CircuitBreaker<D, M>> {
    /// Makes one call if the breaker in force lets it pass, as [`CircuitBreaker::call`] does.
    ///
    /// The candidate learns from it.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] by the breaker in force, [`CallError::Failed`] with the call's error.
    #[inline]
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        self.call_with(call, Verdict::of)
    }

    /// Makes one call as [`call`](Self::call) does; `classify` gives the verdict on what it returned.
    ///
    /// # Errors
    ///
    /// The errors of [`call`](Self::call).
    #[inline]
    pub fn call_with<T, E>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Verdict,
    ) -> Result<T, CallError<E>> {
        guarded_call(self, call, classify)
    }

    /// Returns a permit for one call, which records the outcome in both breakers.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] of the breaker in force.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self>, CircuitOpen> {
        Permit::admitted_by(self)
    }

    /// Returns a permit as [`try_acquire`](Self::try_acquire) does, with its own reference to the breakers.
    ///
    /// # Errors
    ///
    /// The errors of [`try_acquire`](Self::try_acquire).
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    #[inline]
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<Permit<Arc<Self>>, CircuitOpen> {
        Permit::admitted_by(Arc::clone(self))
    }
}

impl<B, S: Breaker> Shadowed<B, S> {
    /// Returns a guard that frees the candidate's place of a probe.
    ///
    /// It does so if a listener of the breaker in force panics.
    fn place_of(&self, candidate: Option<S::Ticket>) -> OnUnwind<impl FnMut()> {
        OnUnwind(move || {
            if let Some(ticket) = candidate {
                self.candidate.record(ticket, Verdict::Ignored);
            }
        })
    }
}

impl<B: Breaker, S: Breaker> Breaker for Shadowed<B, S> {
    type Ticket = (B::Ticket, Option<S::Ticket>);

    #[inline]
    fn admit(&self) -> Result<Self::Ticket, CircuitOpen> {
        let in_force = self.in_force.admit();
        // If a listener of the candidate panics, no permit exists that would free the place of a probe.
        let place = OnUnwind(|| {
            if let Ok(ticket) = in_force {
                self.in_force.record(ticket, Verdict::Ignored);
            }
        });
        let candidate = self.candidate.admit();
        mem::forget(place);
        self.counts.record(&in_force, &candidate);
        if in_force.is_err()
            && let Ok(ticket) = candidate
        {
            // The call is not made. This gives back the place of a probe, and is no verdict.
            self.candidate.record(ticket, Verdict::Ignored);
        }
        Ok((in_force?, candidate.ok()))
    }

    #[inline]
    fn record(&self, (ticket, candidate): Self::Ticket, verdict: Verdict) {
        let place = self.place_of(candidate);
        self.in_force.record(ticket, verdict);
        mem::forget(place);
        if let Some(ticket) = candidate {
            self.candidate.record(ticket, verdict);
        }
    }

    #[inline]
    fn abandoned(&self, (ticket, candidate): Self::Ticket) {
        let place = self.place_of(candidate);
        self.in_force.abandoned(ticket);
        mem::forget(place);
        if let Some(ticket) = candidate {
            self.candidate.abandoned(ticket);
        }
    }

    #[inline]
    fn probe_answered(&self, (ticket, candidate): &mut Self::Ticket) {
        // The ticket in force is replaced before a listener of the candidate may panic.
        self.in_force.probe_answered(ticket);
        if let Some(ticket) = candidate {
            self.candidate.probe_answered(ticket);
        }
    }
}
