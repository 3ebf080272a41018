//! A gate before services of any request.

use crate::ClassifyResult;
use crate::side::{Judged, Side, Stand};
use core::fmt;
use damper_core::CallError;
use damper_core::gate::{AnswerOf, Ask, Ending, Gate, Permit, Verdict};
use damper_core::retry::EveryErr;

/// A gate before services of any request.
///
/// It is asked about the request itself, and the call ends with its future. It changes nothing of a request that waited: if the request says how
/// much time is left, as a header of HTTP may, it says the time from before the wait. `damper::http::ClientGate` updates that header.
///
/// The caller gets [`CallError::Refused`] with the refusal, or [`CallError::Failed`] with the error of the service.
#[derive(Clone, Copy)]
pub struct Plain<G, J = EveryErr> {
    pub(crate) gate: G,
    pub(crate) classify: J,
}

impl<G: Gate + Clone, J: Clone> Stand for Plain<G, J> {
    type Gate = G;

    #[inline]
    fn gate(&self) -> &G {
        &self.gate
    }
}

impl<R, T, E, G, J> Side<R, T, E> for Plain<G, J>
where
    G: Ask<R> + Clone,
    J: ClassifyResult<T, E> + Clone,
{
    type Held = Judged<G::Permit, J>;
    type Refused = G::Refusal;
    type Response = T;
    type Error = CallError<E, G::Refusal>;

    #[inline]
    fn ask(&self, request: &R) -> AnswerOf<G> {
        self.gate.ask(request)
    }

    #[inline]
    fn hold(&self, permit: G::Permit, _: &R) -> Self::Held {
        Judged { permit, judge: self.classify.clone() }
    }

    #[inline]
    fn refuse(&self, refusal: G::Refusal, _: &R) -> G::Refusal {
        refusal
    }

    #[inline]
    fn refused(refused: G::Refusal) -> Result<T, Self::Error> {
        Err(CallError::Refused(refused))
    }

    #[inline]
    fn judge(held: &mut Option<Self::Held>, result: &Result<T, E>) {
        let verdict = match held {
            Some(Judged { judge, .. }) if G::Permit::LEARNS => judge.verdict(result),
            _ => Verdict::of(Ending::Success),
        };
        held.take().end(&verdict);
    }

    #[inline]
    fn respond(_: &mut Option<Self::Held>, result: Result<T, E>) -> Result<T, Self::Error> {
        result.map_err(CallError::Failed)
    }

    #[inline]
    fn failed(error: E) -> Self::Error {
        CallError::Failed(error)
    }
}

impl<G, J> fmt::Debug for Plain<G, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").finish_non_exhaustive()
    }
}
