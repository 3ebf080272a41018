//! Gates in shadow mode.

use super::Shadowed;
use crate::gate::{Answer, AnswerOf, Ask, Ending, Forecast, Gate, Permit, Verdict, WaitsWith};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use pin_project_lite::pin_project;

/// A call that may wait at the gate in force counts as let pass.
///
/// Calls do not wait at the candidate: one that would have to is not counted. A call that is refused without being asked about, because the
/// gate in force refuses all, is refused by the candidate too if that refuses all.
impl<A: Gate, B: Gate> Gate for Shadowed<A, B> {
    type Permit = WithCandidate<A::Permit, B::Permit>;
    type Refusal = A::Refusal;
    type Wait = WaitWithCandidate<A::Wait, B::Permit>;

    #[inline]
    fn refusal(&self) -> Option<A::Refusal> {
        self.in_force.refusal()
    }

    fn refused_unasked(&self, refusal: &A::Refusal) {
        self.in_force.refused_unasked(refusal);
        let by_candidate = self.candidate.refusal();
        if let Some(refusal) = &by_candidate {
            self.candidate.refused_unasked(refusal);
        }
        self.counts.record(&Err::<(), _>(()), &by_candidate.map_or(Ok(()), Err));
    }
}

impl<Q: ?Sized, A: Ask<Q>, B: Ask<Q>> Ask<Q> for Shadowed<A, B> {
    /// Returns the forecast of the gate in force.
    fn forecast(&self, call: &Q) -> Forecast<A::Refusal> {
        self.in_force.forecast(call)
    }

    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        let (in_force, candidate) = (self.in_force.ask(call), self.candidate.ask(call).at_once());
        if let Some(candidate) = &candidate {
            let in_force = if matches!(in_force, Answer::Refuse(_)) { Err(()) } else { Ok(()) };
            self.counts.record(&in_force, candidate);
        }
        let candidate = candidate.and_then(Result::ok);
        match in_force {
            Answer::Pass(permit) => Answer::Pass(WithCandidate { permit, candidate, has_waited: false }),
            Answer::Wait(wait) => Answer::Wait(WaitWithCandidate { wait, candidate }),
            Answer::Refuse(refusal) => {
                candidate.end(&Verdict::of(Ending::NotSent));
                Answer::Refuse(refusal)
            }
        }
    }
}

/// The permit of a gate in force, and that of a candidate if it would have let the call pass too.
///
/// Both learn everything, unless the call has waited: a candidate would measure the wait too, so its permit then ends as that of a
/// call that was not made. A response reports the limit of the gate in force.
///
/// The gate in force learns first: if a listener of the candidate panics, that verdict is not lost. If one of its own panics, the
/// candidate's permit is dropped.
#[derive(Debug)]
pub struct WithCandidate<A, B> {
    permit: A,
    candidate: Option<B>,
    /// Whether the call has waited at the gate in force, since the candidate let it pass.
    has_waited: bool,
}

impl<A: Permit, B: Permit> Permit for WithCandidate<A, B> {
    const LEARNS: bool = A::LEARNS || B::LEARNS;
    const HOLDS: bool = A::HOLDS || B::HOLDS;

    #[inline]
    fn answered(&mut self, verdict: &Verdict) {
        self.permit.answered(verdict);
        if !self.has_waited {
            self.candidate.answered(verdict);
        }
    }

    #[inline]
    fn first_data(&mut self) {
        self.permit.first_data();
        if !self.has_waited {
            self.candidate.first_data();
        }
    }

    #[inline]
    fn end(self, verdict: &Verdict) {
        self.permit.end(verdict);
        if self.has_waited {
            self.candidate.end(&Verdict::of(Ending::NotSent));
        } else {
            self.candidate.end(verdict);
        }
    }

    #[inline]
    fn panicked(self) {
        self.permit.panicked();
        if self.has_waited {
            self.candidate.end(&Verdict::of(Ending::NotSent));
        } else {
            self.candidate.panicked();
        }
    }

    #[inline]
    fn usual_latency(&self) -> Option<Duration> {
        self.permit.usual_latency()
    }

    #[inline]
    fn was_asked(&self) -> bool {
        self.permit.was_asked()
    }
}

pin_project! {
    /// The wait at a gate in force, with the permit of a candidate.
    #[derive(Debug)]
    pub struct WaitWithCandidate<W, B> {
        #[pin]
        wait: W,
        candidate: Option<B>,
    }
}

impl<W: WaitsWith<S>, B, S> WaitsWith<S> for WaitWithCandidate<W, B> {
    fn keep(&self, service: &mut S) -> S {
        self.wait.keep(service)
    }

    fn releases(&self) -> bool {
        self.wait.releases()
    }

    fn give_back(service: &mut S) -> bool {
        W::give_back(service)
    }
}

impl<W: Future<Output = Result<A, R>>, A, B: Permit, R> Future for WaitWithCandidate<W, B> {
    type Output = Result<WithCandidate<A, B>, R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let in_force = ready!(this.wait.poll(context));
        let candidate = this.candidate.take();
        Poll::Ready(match in_force {
            Ok(permit) => Ok(WithCandidate { permit, candidate, has_waited: true }),
            Err(refusal) => {
                candidate.end(&Verdict::of(Ending::NotSent));
                Err(refusal)
            }
        })
    }
}
