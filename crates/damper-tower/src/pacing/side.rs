//! Calls that sleep at a pacer, which learns from their results.

use crate::side::{Side, Stand};
use core::fmt;
use core::ops::Deref;
use core::time::Duration;
use damper_core::CallError;
use damper_core::gate::{
    Answer, AnswerOf, Ask, PacedPermit, PacedWait, PacerOf, PacerSource, Paces, Permit, TimeLeft, Verdict,
};
use damper_core::throttle::{PaceTooSlow, Pacer, ReadHints, Strategy};
use damper_core::time::{Clock, Sleep};

/// A gate at which calls of any service sleep, and the reader of their results.
///
/// [`PacingLayer::without_retries`](crate::PacingLayer::without_retries) returns its layer. The caller gets [`CallError::Refused`] with a
/// [`PaceTooSlow`] if the call was not made, or [`CallError::Failed`] with the error of the service.
#[derive(Clone)]
pub struct PacedSide<P, H, Z, D = (), O = ()> {
    gate: Paces<P, Z, D>,
    hints: H,
    observer: O,
}

impl<P, H, Z, D, O> PacedSide<P, H, Z, D, O> {
    /// Puts calls before this gate, with a reader of the hints in results, and an observer of the calls.
    #[doc(hidden)]
    pub const fn observed_by(observer: O, gate: Paces<P, Z, D>, hints: H) -> Self {
        Self { gate, hints, observer }
    }
}

/// Observes paced calls with requests of the type `R`. Nobody does by `()`.
pub trait ObservePacing<R> {
    /// Records a call that is made at once.
    #[inline]
    fn unslept(&self) {}

    /// Records a call that sleeps first.
    fn slept(&self, sleep: Duration) {
        _ = sleep;
    }

    /// Brings a request up to date that has slept, and whose call has so much time left.
    fn awake(&self, left: Duration, request: &mut R) {
        _ = (left, request);
    }

    /// Records a call that is not made.
    fn refused(&self, refusal: PaceTooSlow) {
        _ = refusal;
    }

    /// Records a call that the server rejected. A call that is made again sleeps for so long.
    fn rejected(&self, sleep: Duration) {
        _ = sleep;
    }
}

impl<R> ObservePacing<R> for () {}

impl<P, H, Z, D, O> Stand for PacedSide<P, H, Z, D, O>
where
    P: PacerSource + Clone,
    H: Clone,
    Z: Sleep + Clone,
    D: Clone,
    O: Clone,
{
    type Gate = Paces<P, Z, D>;

    #[inline]
    fn gate(&self) -> &Self::Gate {
        &self.gate
    }
}

impl<R, T, E, P, H, Z, D, O> Side<R, T, E> for PacedSide<P, H, Z, D, O>
where
    P: PacerOf<R> + Clone,
    H: ReadHints<Result<T, E>> + Clone,
    Z: Sleep + Clone,
    D: TimeLeft<R> + Clone,
    O: ObservePacing<R> + Clone,
{
    type Held = PacedCall<P::Pacer, H, O>;
    type Refused = PaceTooSlow;
    type Response = T;
    type Error = CallError<E, PaceTooSlow>;

    #[inline]
    fn ask(&self, request: &R) -> AnswerOf<Self::Gate> {
        let answer = self.gate.ask(request);
        match &answer {
            Answer::Pass(_) => self.observer.unslept(),
            Answer::Wait(wait) => self.observer.slept(wait.first_sleep()),
            Answer::Refuse(_) => {}
        }
        answer
    }

    fn waited(&self, wait: &PacedWait<P::Pacer, Z>, request: &mut R) {
        self.observer.awake(wait.time_left(), request);
    }

    #[inline]
    fn hold(&self, permit: PacedPermit<P::Pacer>, _: &R) -> Self::Held {
        PacedCall { permit, hints: self.hints.clone(), observer: self.observer.clone() }
    }

    #[cold]
    fn refuse(&self, refusal: PaceTooSlow, _: &R) -> PaceTooSlow {
        self.observer.refused(refusal);
        refusal
    }

    fn refused(refused: PaceTooSlow) -> Result<T, Self::Error> {
        Err(CallError::Refused(refused))
    }

    #[inline]
    fn judge(held: &mut Option<Self::Held>, result: &Result<T, E>) {
        if let Some(PacedCall { permit, hints, observer }) = held.take()
            && let Some(sleep) = permit.learn(&hints.hints(result))
        {
            observer.rejected(sleep);
        }
    }

    #[inline]
    fn respond(_: &mut Option<Self::Held>, result: Result<T, E>) -> Result<T, Self::Error> {
        result.map_err(CallError::Failed)
    }

    fn failed(error: E) -> Self::Error {
        CallError::Failed(error)
    }
}

impl<P, H, Z, D, O> fmt::Debug for PacedSide<P, H, Z, D, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedSide").finish_non_exhaustive()
    }
}

/// A call in flight, from whose result a pacer learns.
#[derive(Debug)]
pub struct PacedCall<G, H, O> {
    permit: PacedPermit<G>,
    hints: H,
    observer: O,
}

impl<G: Deref<Target = Pacer<S, C>>, S: Strategy, C: Clock, H, O> Permit for PacedCall<G, H, O> {
    const HOLDS: bool = false;

    fn end(self, verdict: &Verdict) {
        self.permit.end(verdict);
    }

    fn panicked(self) {
        self.permit.panicked();
    }
}
