//! Breakers in shadow mode.

use super::{ShadowCounts, Shadowed};
use crate::breaker::permit::sealed::{Breaker, Recorder};
use crate::breaker::permit::{AdmittedCall, BreakerRef, Permit};
use crate::breaker::{CallError, CircuitBreaker, CircuitOpen, OnStateChange, Verdict};
use crate::time::Clock;
use core::fmt;
use core::ops::Deref;

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;

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
    /// As [`call`](Self::call).
    #[inline]
    pub fn call_with<T, E>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Verdict,
    ) -> Result<T, CallError<E>> {
        self.guarded(call, classify)
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
    /// As [`try_acquire`](Self::try_acquire).
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    #[inline]
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<Permit<Arc<Self>>, CircuitOpen> {
        Permit::admitted_by(Arc::clone(self))
    }
}

impl<B: Breaker, S: Breaker> Breaker for Shadowed<B, S> {
    #[inline]
    fn admit(&self) -> Result<Self::Ticket, CircuitOpen> {
        let (in_force, candidate) = (self.in_force.admit(), self.candidate.admit());
        self.counts.record(&in_force, &candidate);
        if in_force.is_err()
            && let Ok(ticket) = candidate
        {
            // The call is not made. This gives back the place of a probe, and is no verdict.
            self.candidate.record(ticket, Verdict::Ignored);
        }
        Ok((in_force?, candidate.ok()))
    }
}

impl<B: Recorder, S: Recorder> Recorder for Shadowed<B, S> {
    type Ticket = (B::Ticket, Option<S::Ticket>);

    #[inline]
    fn record(&self, (ticket, candidate): Self::Ticket, verdict: Verdict) {
        self.in_force.record(ticket, verdict);
        if let Some(ticket) = candidate {
            self.candidate.record(ticket, verdict);
        }
    }

    #[inline]
    fn abandoned(&self, (ticket, candidate): Self::Ticket) {
        self.in_force.abandoned(ticket);
        if let Some(ticket) = candidate {
            self.candidate.abandoned(ticket);
        }
    }

    #[inline]
    fn probe_answered(&self, (ticket, candidate): Self::Ticket) -> Self::Ticket {
        (self.in_force.probe_answered(ticket), candidate.map(|ticket| self.candidate.probe_answered(ticket)))
    }
}

/// The breaker in force for one call, and a candidate if that would have let the call pass too.
///
/// Layers whose breakers are chosen by the request have such pointers in their [permits](crate::breaker::Permit).
#[derive(Debug)]
pub struct ShadowedRef<B: BreakerRef, S: BreakerRef>(ChosenBreakers<B, S>);

/// The breakers that a [`ShadowedRef`] points to.
pub struct ChosenBreakers<B, S> {
    in_force: B,
    candidate: Option<S>,
}

impl<B: BreakerRef, S: BreakerRef> Deref for ShadowedRef<B, S> {
    type Target = ChosenBreakers<B, S>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<B: BreakerRef, S: BreakerRef> Recorder for ChosenBreakers<B, S> {
    type Ticket = (<B::Target as Recorder>::Ticket, Option<<S::Target as Recorder>::Ticket>);

    #[inline]
    fn record(&self, (ticket, candidate): Self::Ticket, verdict: Verdict) {
        self.in_force.record(ticket, verdict);
        if let (Some(breaker), Some(ticket)) = (&self.candidate, candidate) {
            breaker.record(ticket, verdict);
        }
    }

    #[inline]
    fn abandoned(&self, (ticket, candidate): Self::Ticket) {
        self.in_force.abandoned(ticket);
        if let (Some(breaker), Some(ticket)) = (&self.candidate, candidate) {
            breaker.abandoned(ticket);
        }
    }

    #[inline]
    fn probe_answered(&self, (ticket, candidate): Self::Ticket) -> Self::Ticket {
        let candidate = candidate.zip(self.candidate.as_ref()).map(|(ticket, breaker)| breaker.probe_answered(ticket));
        (self.in_force.probe_answered(ticket), candidate)
    }
}

impl<B: BreakerRef, S: BreakerRef> fmt::Debug for ChosenBreakers<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChosenBreakers")
            .field("in_force", &&*self.in_force)
            .field("candidate", &self.candidate.as_deref())
            .finish()
    }
}

/// Joins the answers of the breaker in force and of a candidate to one call, and counts their refusals.
///
/// # Errors
///
/// [`CircuitOpen`] of the breaker in force.
#[inline]
pub fn join<B: BreakerRef, S: BreakerRef>(
    in_force: Result<Permit<B>, CircuitOpen>,
    candidate: Result<Permit<S>, CircuitOpen>,
    counts: &ShadowCounts,
) -> Result<Permit<ShadowedRef<B, S>>, CircuitOpen> {
    counts.record(&in_force, &candidate);
    let in_force = match in_force {
        Ok(permit) => permit,
        Err(open) => {
            // The call is not made.
            if let Ok(permit) = candidate {
                permit.ignore();
            }
            return Err(open);
        }
    };
    let candidate = candidate.ok().and_then(Permit::into_call);
    match in_force.into_call() {
        Some(AdmittedCall { breaker: in_force, ticket }) => {
            let (candidate, of_candidate) = candidate.map(|AdmittedCall { breaker, ticket }| (breaker, ticket)).unzip();
            let breaker = ShadowedRef(ChosenBreakers { in_force, candidate });
            Ok(Permit::of(AdmittedCall { breaker, ticket: (ticket, of_candidate) }))
        }
        // A permit has its call until it is used up.
        None => Err(CircuitOpen::for_micros(0)),
    }
}
