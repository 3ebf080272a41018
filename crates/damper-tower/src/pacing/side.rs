//! Calls that sleep at a pacer, which learns from their results.

use crate::side::{Judged, Side, Stand};
use core::fmt;
use core::time::Duration;
use damper_core::gate::{AnswerOf, Ask, Gate, PacerSource, Paces};
use damper_core::throttle::{Hints, PaceTooSlow};
use damper_core::time::Sleep;
use damper_core::{CallError, Reads};

/// A gate at which calls of any service sleep, and the reader of their results.
///
/// [`PacingLayer::without_retries`](crate::PacingLayer::without_retries) returns its layer. The caller gets [`CallError::Refused`] with a
/// [`PaceTooSlow`] if the call was not made, or [`CallError::Failed`] with the error of the service.
#[derive(Clone)]
pub struct PacedSide<P, H, Z, D = ()> {
    pub(super) gate: Paces<P, Z, D>,
    pub(super) hints: H,
}

impl<P, H, Z, D> Stand for PacedSide<P, H, Z, D>
where
    P: PacerSource + Clone,
    H: Clone,
    Z: Sleep + Clone,
    D: Clone,
{
    type Gate = Paces<P, Z, D>;

    #[inline]
    fn gate(&self) -> &Self::Gate {
        &self.gate
    }
}

impl<R, T, E, P, H, Z, D> Side<R, T, E> for PacedSide<P, H, Z, D>
where
    P: PacerSource + Reads<R, <P as PacerSource>::Pacer> + Clone,
    H: Reads<Result<T, E>, Hints> + Clone,
    Z: Sleep + Clone,
    D: Reads<R, Option<Duration>> + Clone,
{
    type Held = Judged<<Self::Gate as Gate>::Permit, H>;
    type Refused = PaceTooSlow;
    type Response = T;
    type Error = CallError<E, PaceTooSlow>;

    #[inline]
    fn ask(&self, request: &R) -> AnswerOf<Self::Gate> {
        self.gate.ask(request)
    }

    #[inline]
    fn hold(&self, permit: <Self::Gate as Gate>::Permit, _: &R) -> Self::Held {
        Judged { permit, judge: self.hints.clone() }
    }

    fn refuse(&self, refusal: PaceTooSlow, _: &R) -> PaceTooSlow {
        refusal
    }

    fn refused(refused: PaceTooSlow) -> Result<T, Self::Error> {
        Err(CallError::Refused(refused))
    }

    #[inline]
    fn judge(held: &mut Option<Self::Held>, result: &Result<T, E>) {
        if let Some(Judged { permit, judge }) = held.take() {
            permit.learn(&judge.read_from(result));
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

impl<P, H, Z, D> fmt::Debug for PacedSide<P, H, Z, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedSide").finish_non_exhaustive()
    }
}
