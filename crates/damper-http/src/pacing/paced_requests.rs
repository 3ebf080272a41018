//! Requests that are only paced, at a gate.

use super::Pacers;
use crate::deadline::SentTimeout;
use crate::rate_limit::grpc::grpc_type;
use crate::telemetry::PacingTelemetry;
use crate::{Head, ResponseHead, wire};
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::{PacerOf, PacerSource, TimeLeft};
use damper_core::throttle::{Hints, PaceTooSlow, ReadHints};
use damper_tower::PacedSide;
use damper_tower::internal::ObservePacing;
use http::{Request, Response};

/// The gate at which requests sleep, and the reader of their responses.
pub(super) type PacedRequests<T, H, Z> = PacedSide<ByHead<T>, HintsOfHead<H>, Z, SleepUntil, PacingTelemetry>;

/// Chooses the pacer of a request by its head.
#[derive(Clone, Debug)]
pub struct ByHead<T>(pub(super) T);

impl<T: Pacers> PacerSource for ByHead<T> {
    type Strategy = T::Strategy;
    type Clock = T::Clock;
    type Pacer = T::Pacer;
}

impl<T: Pacers, Q> PacerOf<Request<Q>> for ByHead<T> {
    #[inline]
    fn pacer(&self, request: &Request<Q>) -> T::Pacer {
        self.0.pacer(&Head::of(request))
    }
}

/// Reads the hints in the head of a response. Transport errors say nothing about the limit.
#[derive(Clone, Debug)]
pub struct HintsOfHead<H>(pub(super) H);

impl<R, E, H: for<'a> ReadHints<ResponseHead<'a>>> ReadHints<Result<Response<R>, E>> for HintsOfHead<H> {
    #[inline]
    fn hints(&self, result: &Result<Response<R>, E>) -> Hints {
        result.as_ref().map_or(Hints::UNKNOWN, |response| self.0.hints(&ResponseHead::of(response)))
    }
}

/// Finds the earliest deadline of a request.
///
/// It looks in the extensions, in `grpc-timeout`, and in the timeout that an outer layer has written.
#[derive(Clone, Copy, Debug)]
pub struct SleepUntil;

impl<Q> TimeLeft<Request<Q>> for SleepUntil {
    fn left(&self, request: &Request<Q>) -> Option<Duration> {
        let given = request.extensions().get::<Deadline>().filter(|deadline| !deadline.is_never());
        let sent = request.extensions().get::<SentTimeout>().map(SentTimeout::left);
        [given.map(Deadline::remaining), sent, grpc_timeout(request)].into_iter().flatten().min()
    }
}

/// Returns the `grpc-timeout` that a request carries.
fn grpc_timeout<Q>(request: &Request<Q>) -> Option<Duration> {
    grpc_type(&Head::of(request)).and_then(|_| wire::grpc_timeout_in(request.headers()))
}

impl<Q> ObservePacing<Request<Q>> for PacingTelemetry {
    #[inline]
    fn unslept(&self) {
        self.record_unslept();
    }

    fn slept(&self, sleep: Duration) {
        self.record_slept(sleep);
    }

    /// Tells the server how much time is left.
    fn awake(&self, left: Duration, request: &mut Request<Q>) {
        if let Some(sent) = request.extensions().get::<SentTimeout>().cloned() {
            sent.write(request.headers_mut(), left);
        } else if grpc_timeout(request).is_some() {
            request.headers_mut().insert(wire::GRPC_TIMEOUT, wire::grpc_timeout(left));
        }
    }

    fn refused(&self, refusal: PaceTooSlow) {
        self.record_refused(refusal.retry_after(), refusal);
    }

    fn rejected(&self, sleep: Duration) {
        self.record_rejected(Some(sleep));
    }
}
