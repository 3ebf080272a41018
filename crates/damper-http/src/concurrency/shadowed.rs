//! Limits on the calls in flight, in shadow mode.

use super::{Acquisition, ConcurrencyLimit, ConcurrencyPermit};
use crate::Head;
use alloc::sync::Arc;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use damper_core::concurrency::Outcome;
use damper_core::shadow::{ShadowCounts, ShadowReport};
use pin_project_lite::pin_project;

/// A limit in force, and a candidate that decides beside it on the same calls.
///
/// Made by the layers' `shadow`. Clones share both, and the counts.
pub struct ShadowedLimit<L, S> {
    in_force: Arc<L>,
    candidate: Arc<S>,
    counts: Arc<ShadowCounts>,
}

impl<L, S> ShadowedLimit<L, S> {
    pub(super) fn new(in_force: Arc<L>, candidate: S) -> Self {
        Self { in_force, candidate: Arc::new(candidate), counts: Arc::new(ShadowCounts::new()) }
    }

    /// The limit in force.
    #[must_use]
    pub fn in_force(&self) -> &L {
        &self.in_force
    }

    /// The candidate.
    #[must_use]
    pub fn candidate(&self) -> &S {
        &self.candidate
    }

    /// Returns the refusals so far: by both, by the candidate only, and in force only.
    #[must_use]
    pub fn report(&self) -> ShadowReport {
        self.counts.report()
    }
}

impl<L: ConcurrencyLimit, S: ConcurrencyLimit> ConcurrencyLimit for ShadowedLimit<L, S> {
    type Permit = ShadowedPermit<L::Permit, S::Permit>;
    type Refusal = L::Refusal;
    type Future = ShadowedAcquireFuture<L::Future, S::Permit>;

    #[inline]
    fn acquire(&self, head: &Head<'_>) -> Acquisition<Self::Permit, L::Refusal, Self::Future> {
        let in_force = self.in_force.acquire(head);
        // A candidate for which the call would have had to wait holds nothing.
        let candidate = match self.candidate.acquire(head) {
            Acquisition::Now(Ok(permit)) => Ok(permit),
            Acquisition::Now(Err(_)) | Acquisition::Later(_) => Err(NoSlot),
        };
        match in_force {
            Acquisition::Now(answer) => {
                self.counts.record(&answer, &candidate);
                Acquisition::Now(answer.map(|in_force| {
                    let candidate = candidate.map_or(CandidatePermit::None, CandidatePermit::Learning);
                    ShadowedPermit { in_force, candidate }
                }))
            }
            Acquisition::Later(acquire) => {
                let counts = Arc::clone(&self.counts);
                Acquisition::Later(ShadowedAcquireFuture { acquire, candidate: Some(candidate), counts })
            }
        }
    }
}

/// The limit in force, and the refusals of both.
#[cfg(feature = "metrics")]
impl<L: damper_metrics::Source, S> damper_metrics::Source for ShadowedLimit<L, S> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.in_force.read(readings);
        readings.record_shadow(self.report());
    }
}

/// The candidate has no free slot.
#[derive(Debug)]
struct NoSlot;

/// The permit of a call in force, and that of the candidate if it gave one.
#[derive(Debug)]
pub struct ShadowedPermit<P, Q> {
    in_force: P,
    candidate: CandidatePermit<Q>,
}

/// The permit of the candidate.
#[derive(Debug)]
enum CandidatePermit<Q> {
    /// It had no free slot.
    None,
    /// It learns from the call.
    Learning(Q),
    /// It only holds its slot: the latency of a call that waited in force is not that of the service.
    Holding { _permit: Q },
}

impl<P: ConcurrencyPermit, Q: ConcurrencyPermit> ConcurrencyPermit for ShadowedPermit<P, Q> {
    const LEARNS: bool = P::LEARNS || Q::LEARNS;

    #[inline]
    fn learns(&self) -> bool {
        self.in_force.learns() || matches!(&self.candidate, CandidatePermit::Learning(permit) if permit.learns())
    }

    #[inline]
    fn record(&mut self, outcome: Outcome) {
        if self.in_force.learns() {
            self.in_force.record(outcome);
        }
        if let CandidatePermit::Learning(permit) = &mut self.candidate
            && permit.learns()
        {
            permit.record(outcome);
        }
    }

    /// Returns that of the limit in force.
    fn typical_latency(&self) -> Option<Duration> {
        self.in_force.typical_latency()
    }
}

pin_project! {
    /// A request that waits for its permit in force.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, the candidate's slot becomes free, and nothing is counted.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ShadowedAcquireFuture<F, Q> {
        #[pin]
        acquire: F,
        candidate: Option<Result<Q, NoSlot>>,
        counts: Arc<ShadowCounts>,
    }
}

impl<F: Future<Output = Result<P, R>>, P, R, Q> Future for ShadowedAcquireFuture<F, Q> {
    type Output = Result<ShadowedPermit<P, Q>, R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.acquire.poll(context));
        let candidate = this.candidate.take().unwrap_or(Err(NoSlot));
        this.counts.record(&answer, &candidate);
        Poll::Ready(answer.map(|in_force| {
            let candidate = match candidate {
                Ok(permit) => CandidatePermit::Holding { _permit: permit },
                Err(NoSlot) => CandidatePermit::None,
            };
            ShadowedPermit { in_force, candidate }
        }))
    }
}

impl<F, Q> fmt::Debug for ShadowedAcquireFuture<F, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShadowedAcquireFuture").finish_non_exhaustive()
    }
}

/// Clones share both limits.
impl<L, S> Clone for ShadowedLimit<L, S> {
    fn clone(&self) -> Self {
        Self {
            in_force: Arc::clone(&self.in_force),
            candidate: Arc::clone(&self.candidate),
            counts: Arc::clone(&self.counts),
        }
    }
}

impl<L: fmt::Debug, S: fmt::Debug> fmt::Debug for ShadowedLimit<L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShadowedLimit")
            .field("in_force", &self.in_force)
            .field("candidate", &self.candidate)
            .finish_non_exhaustive()
    }
}
