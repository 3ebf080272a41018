//! Requests that are only paced, at a gate.

use crate::deadline::SentTimeout;
use crate::rate_limit::grpc::grpc_type;
use crate::telemetry::{Event, RefusalDetails, Telemetry};
use crate::{Head, ResponseHead, wire};
use core::fmt;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::{Answer, AnswerOf, Ask, Gate, PacerSource, Paces};
use damper_core::throttle::{Hints, PaceTooSlow};
use damper_core::time::Sleep;
use damper_core::{CallError, Reads};
use damper_tower::internal::{Judged, Side, Stand};
use http::{Request, Response};

/// The gate at which requests sleep, and the reader of their responses.
#[derive(Clone)]
pub struct PacedRequests<T, H, Z> {
    gate: Paces<T, Z, SleepUntil>,
    hints: H,
    telemetry: Telemetry,
}

impl<T, H, Z> PacedRequests<T, H, Z> {
    pub(super) fn new(pacers: T, hints: H, sleep: Z, telemetry: Telemetry) -> Self {
        Self { gate: Paces::new(pacers, sleep).time_left(SleepUntil), hints, telemetry }
    }
}

impl<T: PacerSource + Clone, H: Clone, Z: Sleep + Clone> Stand for PacedRequests<T, H, Z> {
    type Gate = Paces<T, Z, SleepUntil>;

    #[inline]
    fn gate(&self) -> &Self::Gate {
        &self.gate
    }
}

impl<T, H, Z, B, R, E> Side<Request<B>, Response<R>, E> for PacedRequests<T, H, Z>
where
    T: PacerSource + for<'a> Reads<Head<'a>, <T as PacerSource>::Pacer> + Clone,
    H: for<'a> Reads<ResponseHead<'a>, Hints> + Clone,
    Z: Sleep + Clone,
{
    type Held = Judged<<Self::Gate as Gate>::Permit, (H, Telemetry)>;
    type Refused = PaceTooSlow;
    type Response = Response<R>;
    type Error = CallError<E, PaceTooSlow>;

    #[inline]
    fn ask(&self, request: &Request<B>) -> AnswerOf<Self::Gate> {
        let answer = self.gate.ask(&Head::of(request));
        match &answer {
            Answer::Pass(_) => self.telemetry.count(Event::Allowed),
            Answer::Wait(wait) => self.telemetry.record_slept(wait.first_sleep()),
            Answer::Refuse(_) => {}
        }
        answer
    }

    /// Tells the server how much time is left.
    fn waited(&self, wait: &<Self::Gate as Gate>::Wait, request: &mut Request<B>) {
        if let Some(sent) = request.extensions().get::<SentTimeout>().cloned() {
            sent.write(request.headers_mut(), wait.time_left());
        } else if grpc_timeout(&Head::of(request)).is_some() {
            request.headers_mut().insert(wire::GRPC_TIMEOUT, wire::grpc_timeout(wait.time_left()));
        }
    }

    #[inline]
    fn hold(&self, permit: <Self::Gate as Gate>::Permit, _: &Request<B>) -> Self::Held {
        Judged { permit, judge: (self.hints.clone(), self.telemetry.clone()) }
    }

    #[cold]
    fn refuse(&self, refusal: PaceTooSlow, _: &Request<B>) -> PaceTooSlow {
        refuse(&self.telemetry, refusal)
    }

    fn refused(refused: PaceTooSlow) -> Result<Response<R>, Self::Error> {
        Err(CallError::Refused(refused))
    }

    /// Lets the pacer learn from a response. A transport error says nothing about the limit.
    #[inline]
    fn judge(held: &mut Option<Self::Held>, result: &Result<Response<R>, E>) {
        if let (Some(Judged { permit, judge: (hints, telemetry) }), Ok(response)) = (held.take(), result)
            && let Some(sleep) = permit.learn(&hints.read_from(&ResponseHead::of(response)))
        {
            telemetry.record_rejected(Some(sleep));
        }
    }

    #[inline]
    fn respond(_: &mut Option<Self::Held>, result: Result<Response<R>, E>) -> Result<Response<R>, Self::Error> {
        result.map_err(CallError::Failed)
    }

    fn failed(error: E) -> Self::Error {
        CallError::Failed(error)
    }
}

impl<T, H, Z> fmt::Debug for PacedRequests<T, H, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedRequests").finish_non_exhaustive()
    }
}

/// Records a call that is not made.
#[cold]
pub(super) fn refuse(telemetry: &Telemetry, refusal: PaceTooSlow) -> PaceTooSlow {
    telemetry.record_refused(&refusal, || RefusalDetails {
        retry_after: Some(refusal.retry_after()),
        ..RefusalDetails::default()
    });
    refusal
}

/// Finds the earliest deadline of a request.
///
/// It looks in the extensions, in `grpc-timeout`, and in the timeout that an outer layer has written.
#[derive(Clone, Copy, Debug)]
pub struct SleepUntil;

impl Reads<Head<'_>, Option<Duration>> for SleepUntil {
    fn read_from(&self, head: &Head<'_>) -> Option<Duration> {
        let given = head.extensions.get::<Deadline>().filter(|deadline| !deadline.is_never());
        let sent = head.extensions.get::<SentTimeout>().map(SentTimeout::left);
        [given.map(Deadline::remaining), sent, grpc_timeout(head)].into_iter().flatten().min()
    }
}

/// Returns the `grpc-timeout` that a request carries.
fn grpc_timeout(head: &Head<'_>) -> Option<Duration> {
    grpc_type(head).and_then(|_| wire::grpc_timeout_in(head.headers))
}
