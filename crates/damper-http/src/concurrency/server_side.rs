//! The limit of a layer before a server: its refusals, and the responses that hold its permits.

use super::server_settings::{LimitGate, ServerSettings};
use super::{ConcurrencyLayer, Held};
use crate::completion::{ClassifyResponse, HeldPermit, ObservedBody, OverloadInTrailers};
use crate::rate_limit::Refused;
use crate::rate_limit::grpc;
use crate::telemetry::Observe;
use crate::timed_body::TimedBody;
use crate::wire::{self, StatusDetails};
use crate::{Body, Head};
use alloc::boxed::Box;
use bytes::Bytes;
use damper_core::gate::{AnswerOf, Ask, Gate, Permit, Refusal, Verdict};
use damper_tower::internal::{Side, Stand};
use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};

type BoxError = Box<dyn core::error::Error + Send + Sync>;

impl<L: Gate, V: Clone> Stand for ConcurrencyLayer<L, V> {
    type Gate = LimitGate<L>;

    #[inline]
    fn gate(&self) -> &LimitGate<L> {
        &self.shared.gate
    }
}

impl<L, V, B, R, E> Side<Request<B>, Response<R>, E> for ConcurrencyLayer<L, V>
where
    L: Gate<Permit: Send + 'static> + for<'a> Ask<Head<'a>>,
    V: ClassifyResponse<E, Verdict> + Clone,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Held = Held<L::Permit, V>;
    type Refused = Box<Response<Bytes>>;
    type Response = Response<Body<TimedBody<ObservedBody<R, L::Permit, OverloadInTrailers>>>>;
    type Error = E;

    #[inline]
    fn ask(&self, request: &Request<B>) -> AnswerOf<LimitGate<L>> {
        self.shared.gate.ask(&Head::of(request))
    }

    #[inline]
    fn hold(&self, permit: Option<L::Permit>, request: &Request<B>) -> Self::Held {
        let ServerSettings { min_budget, stall_limit, telemetry, .. } = &self.shared.settings;
        let Some(permit) = permit else { return Held::exempt() };
        if permit.was_asked() {
            Observe::<L::Refusal>::allowed(telemetry);
        }
        Held::new(HeldPermit::new(permit, &Head::of(request), min_budget), self.completion.clone(), *stall_limit)
    }

    #[cold]
    fn refuse(&self, refusal: L::Refusal, request: &Request<B>) -> Box<Response<Bytes>> {
        let ServerSettings { retry_after, body, telemetry, .. } = &self.shared.settings;
        let head = Head::of(request);
        telemetry.refused(&head, &refusal);
        let wait = refusal.retry_after().unwrap_or(*retry_after);
        if let Some(content_type) = grpc::grpc_type(&head) {
            let details = StatusDetails { retry_after: Some(wait), ..StatusDetails::of(&refusal) };
            return Box::new(Refused::mark(grpc::refusal(content_type, refusal.kind(), &refusal, &details)));
        }
        let status = StatusCode::from_u16(refusal.kind().http_status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let mut response = Refused::mark(body.response(&head, status, &refusal));
        response.headers_mut().insert(RETRY_AFTER, wire::retry_after(wait));
        Box::new(response)
    }

    fn refused(refused: Box<Response<Bytes>>) -> Result<Self::Response, E> {
        Ok(refused.map(Body::refusal))
    }

    #[inline]
    fn judge(held: &mut Option<Self::Held>, result: &Result<Response<R>, E>) {
        if let Some(held) = held {
            held.judge(result);
        }
    }

    #[inline]
    fn respond(held: &mut Option<Self::Held>, result: Result<Response<R>, E>) -> Result<Self::Response, E> {
        let (result, limits) = held.get_or_insert_with(Held::exempt).respond(result);
        *held = None;
        result.map(|response| response.map(|body| Body::service(TimedBody::new(body, limits))))
    }

    #[inline]
    fn abandoned(held: Self::Held) {
        held.abandoned();
    }

    fn failed(error: E) -> E {
        error
    }
}
