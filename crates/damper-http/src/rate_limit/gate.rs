//! The limit of a layer as a gate.

use super::costs::{ONE_TOKEN, Settling};
use super::settings::RateLimitSettings;
use super::shadow::CandidateAnswer;
use crate::Head;
use crate::limit::{Correction, Limit, LimitAnswer, Refusal, Reservation, Standing};
use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use core::ops::ControlFlow;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use damper_core::gate::{self, AnswerOf, Ask, Gate, Permit, RefusalKind, WaitsWith};
use pin_project_lite::pin_project;

/// The decision of the limit to let a request pass, and what its candidate has decided on the same one.
#[derive(Debug)]
pub struct Decided {
    pub(super) decision: Passage,
    /// The tokens that the request costs before its response is known.
    pub(super) cost: u32,
    pub(super) candidate: CandidateAnswer,
}

/// The answer to a request that may pass.
///
/// A reservation has its standing in its box, so that the answer to all other requests does not grow.
pub(super) enum Passage {
    /// The limit remembers nothing of the request. Its standing, if it was asked for.
    Taken(Option<Standing>),
    /// The limit makes reservations, and responses correct costs.
    Reserved(Box<dyn Reservation>),
}

/// A refusal of the limit, and what its candidate has decided on the same request.
///
/// In a box, because every service has room for a refusal, and is cloned for each request.
#[derive(Clone)]
pub struct ComparedRefusal(Box<(Refusal, CandidateAnswer)>);

impl ComparedRefusal {
    #[cold]
    fn new(refusal: Refusal, candidate: CandidateAnswer) -> Self {
        Self(Box::new((refusal, candidate)))
    }

    pub(super) fn refusal(&self) -> &Refusal {
        &self.0.0
    }

    pub(super) fn candidate(&self) -> &CandidateAnswer {
        &self.0.1
    }
}

/// An exempt request has no permit.
impl<L: Limit> Gate for RateLimitSettings<L> {
    type Permit = Option<Decided>;
    type Refusal = ComparedRefusal;
    type Wait = LimitWait<L::Future>;
}

impl<'a, L: Limit> Ask<Head<'a>> for RateLimitSettings<L> {
    #[inline]
    fn ask(&self, head: &Head<'a>) -> AnswerOf<Self> {
        let cost = if self.is_plain {
            ONE_TOKEN
        } else {
            match self.prepare(head) {
                ControlFlow::Continue(cost) => cost,
                ControlFlow::Break(answer) => return answer,
            }
        };
        let candidate = self.ask_candidate(head, cost);
        match self.limit.decide(head, cost, self.detail) {
            gate::Answer::Pass(standing) => {
                gate::Answer::Pass(Some(Decided { decision: Passage::Taken(standing), cost, candidate }))
            }
            gate::Answer::Wait(decision) => gate::Answer::Wait(LimitWait { decision, cost, candidate }),
            gate::Answer::Refuse(refusal) => gate::Answer::Refuse(ComparedRefusal::new(refusal, candidate)),
        }
    }
}

impl<L: Limit> RateLimitSettings<L> {
    /// Returns the cost of a request, or the answer to one that is exempt or reserves its cost.
    ///
    /// Apart, so that plain layers do not grow.
    #[cold]
    fn prepare(&self, head: &Head<'_>) -> ControlFlow<AnswerOf<Self>, u32> {
        let Some(cost) = self.cost_of(head) else { return ControlFlow::Break(gate::Answer::Pass(None)) };
        let Some(Correction::Reserve(reserve)) = self.settling.as_ref().map(Settling::correction) else {
            return ControlFlow::Continue(cost);
        };
        let candidate = self.ask_candidate(head, cost);
        ControlFlow::Break(match reserve(&self.limit, head, cost, self.headers.detail()) {
            Ok(reservation) => {
                gate::Answer::Pass(Some(Decided { decision: Passage::Reserved(reservation), cost, candidate }))
            }
            Err(refusal) => gate::Answer::Refuse(ComparedRefusal::new(refusal, candidate)),
        })
    }
}

/// Tokens are taken, and not held: nothing is to be told when the call has ended.
impl Permit for Decided {
    const LEARNS: bool = false;
    const HOLDS: bool = false;
}

impl gate::Refusal for ComparedRefusal {
    fn kind(&self) -> RefusalKind {
        self.refusal().kind()
    }

    fn retry_after(&self) -> Option<Duration> {
        self.refusal().retry_after()
    }

    fn standing(&self) -> Option<Standing> {
        self.refusal().standing()
    }
}

impl fmt::Display for ComparedRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal().fmt(f)
    }
}

impl Error for ComparedRefusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.refusal().source()
    }
}

impl fmt::Debug for ComparedRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal().fmt(f)
    }
}

impl fmt::Debug for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(standing) => f.debug_tuple("Taken").field(standing).finish(),
            Self::Reserved(reservation) => f.debug_tuple("Reserved").field(&reservation.taken()).finish(),
        }
    }
}

pin_project! {
    /// The wait for a decision. Dropping it gives back no tokens that the limit has taken already.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct LimitWait<F> {
        #[pin]
        decision: F,
        cost: u32,
        candidate: CandidateAnswer,
    }
}

impl<F: Future<Output = LimitAnswer>> Future for LimitWait<F> {
    type Output = Result<Option<Decided>, ComparedRefusal>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let decision = ready!(this.decision.poll(context));
        let (cost, candidate) = (*this.cost, this.candidate.take());
        Poll::Ready(match decision {
            Ok(standing) => Ok(Some(Decided { decision: Passage::Taken(standing), cost, candidate })),
            Err(refusal) => Err(ComparedRefusal::new(refusal, candidate)),
        })
    }
}

impl<F: WaitsWith<S>, S> WaitsWith<S> for LimitWait<F> {
    fn keep(&self, service: &mut S) -> S {
        self.decision.keep(service)
    }
}

impl<F> fmt::Debug for LimitWait<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitWait").field("cost", &self.cost).finish_non_exhaustive()
    }
}
