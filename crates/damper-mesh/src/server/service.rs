//! Reads the envelope, limits, honours the deadline, writes the answer.

use super::http_response::http_response;
use super::layer::Settings;
use super::{IncomingCall, MeshLayer};
use crate::deadline::{DeadlineReport, Receipt, ReceivedDeadline, SpecifiedDeadline, run_until};
use crate::document::{Capabilities, MeshError, Meta, Request, Response};
use crate::scopes::Caller;
use bytes::Bytes;
use damper_core::deadline::Deadline;
use damper_core::limit::{KeyedAlgorithm, TokenBucket};
use damper_core::time::{Clock, DefaultClock, Sleep};
use damper_http::Head;
use http_body_util::{BodyExt, Full, Limited};
use serde::Deserialize;
use serde_json::Value;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A service of functions, as a [`MeshLayer`] serves it over HTTP.
///
/// # Cancel safety
///
/// A future that is dropped drops that of the function. What the request took of its limits stays taken.
pub struct MeshService<S, Z, C = DefaultClock, A = TokenBucket> {
    service: S,
    layer: MeshLayer<Z, C, A>,
}

impl<S, Z, C, A> MeshService<S, Z, C, A> {
    pub(super) fn new(service: S, layer: MeshLayer<Z, C, A>) -> Self {
        Self { service, layer }
    }
}

impl<S: Clone, Z: Clone, C, A> Clone for MeshService<S, Z, C, A> {
    fn clone(&self) -> Self {
        Self::new(self.service.clone(), self.layer.clone())
    }
}

impl<S: fmt::Debug, Z, C: fmt::Debug, A> fmt::Debug for MeshService<S, Z, C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeshService").field("service", &self.service).field("layer", &self.layer).finish()
    }
}

type Answered = Result<http::Response<Full<Bytes>>, Infallible>;

impl<S, Z, C, A, B> tower_service::Service<http::Request<B>> for MeshService<S, Z, C, A>
where
    S: tower_service::Service<IncomingCall<C>, Response = Value, Error = MeshError> + Clone + Send + 'static,
    S::Future: Send,
    Z: Sleep + Clone + Send + Sync + 'static,
    Z::Sleeping: Send,
    C: Clock + Clone + Send + Sync + 'static,
    A: KeyedAlgorithm + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = http::Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answered> + Send>>;

    /// Always ready: a service that is not makes its own requests wait, and refusals do not wait for it.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let receipt = Receipt::with_clock(self.layer.settings.scopes.clock().clone());
        let (service, settings) = (self.service.clone(), Arc::clone(&self.layer.settings));
        let sleep = self.layer.sleep.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let http = http::Request::from_parts(head, ());
            let answer = match read(body, settings.max_request).await {
                Ok(request) => serve(service, &settings, &sleep, &receipt, http, request).await,
                Err((id, error)) => Response::error(id, MeshError::new(MeshError::INVALID_REQUEST, error)),
            };
            Ok(http_response(&answer))
        })
    }
}

/// Reads the envelope; else returns the id as far as there is one, and what is wrong.
async fn read<B>(body: B, max_request: usize) -> Result<Request, (Option<String>, String)>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let bytes = match Limited::new(body, max_request).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Err((None, error.to_string())),
    };
    Request::from_json(&bytes).map_err(|error| (id_in(&bytes), error.to_string()))
}

/// The id of a request that is malformed otherwise.
fn id_in(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Identified {
        id: String,
    }
    serde_json::from_slice(bytes).ok().map(|Identified { id }| id)
}

/// Answers a request that could be read.
async fn serve<S, C, A>(
    service: S,
    settings: &Settings<C, A>,
    sleep: &impl Sleep,
    receipt: &Receipt<C>,
    http: http::Request<()>,
    request: Request,
) -> Response
where
    S: tower_service::Service<IncomingCall<C>, Response = Value, Error = MeshError>,
    C: Clock + Clone + Send + Sync + 'static,
    A: KeyedAlgorithm,
{
    let id = request.id.clone();
    let specified = match request.deadline() {
        Ok(specified) => specified,
        Err(error) => {
            return Response::error(Some(id), MeshError::new(MeshError::INVALID_REQUEST, error.to_string()));
        }
    };
    let own = specified.map(|specified| receipt.deadline(specified));
    let deadline = earliest(own.clone(), &http, receipt);
    if let Some(deadline) = deadline.as_ref().filter(|deadline| deadline.is_expired()) {
        return exceeded(id, &deadline.report(), Meta::default());
    }
    if request.call.function == Capabilities::FUNCTION && request.call.version == Capabilities::VERSION {
        let answer = Response::ok(id, settings.scopes.capabilities(&settings.name).to_value());
        return reported(answer, own.as_ref());
    }
    let caller = (settings.caller)(Caller::of(&request.call.function), &Head::of(&http), &request);
    if let Err(denied) = settings.scopes.check(caller) {
        let answer = Response::error(Some(id), denied.rate_limited()).with_meta(denied.meta());
        return reported(answer, own.as_ref());
    }
    let caller = caller.to_owned();
    let call = IncomingCall { request, http, deadline: deadline.clone() };
    let outcome = run_until(called(service, call), deadline.as_ref(), sleep).await;
    // The usage is that of now: the function may have taken its time.
    let usage = settings.scopes.peek(caller.borrowed());
    match outcome {
        Ok(Ok(result)) => {
            let meta = usage.meta().took(receipt.elapsed());
            reported(Response::ok(id, result).with_meta(meta), own.as_ref())
        }
        Ok(Err(error)) => reported(Response::error(Some(id), error).with_meta(usage.meta_beside_error()), own.as_ref()),
        Err(expired) => exceeded(id, &expired.report, usage.meta_beside_error()),
    }
}

/// The earlier of the request's deadline and the one that a layer of HTTP found.
fn earliest<C: Clock + Clone + Send + Sync + 'static>(
    own: Option<ReceivedDeadline<C>>,
    http: &http::Request<()>,
    receipt: &Receipt<C>,
) -> Option<ReceivedDeadline<C>> {
    let found = http.extensions().get::<Deadline<C>>().filter(|deadline| !deadline.is_never());
    // It is counted from the receipt, as the other is.
    let found = found.map(|deadline| {
        receipt.deadline(SpecifiedDeadline::after(deadline.remaining().saturating_add(receipt.elapsed())))
    });
    match (own, found) {
        (Some(own), Some(found)) => Some(own.earlier(found)),
        (own, found) => own.or(found),
    }
}

/// Calls a service once it is ready.
async fn called<S, C>(mut service: S, call: IncomingCall<C>) -> Result<Value, MeshError>
where
    S: tower_service::Service<IncomingCall<C>, Response = Value, Error = MeshError>,
{
    poll_fn(|context| service.poll_ready(context)).await?;
    service.call(call).await
}

/// Adds what came of the deadline that the request has.
fn reported<C: Clock + Clone>(answer: Response, deadline: Option<&ReceivedDeadline<C>>) -> Response {
    match deadline {
        Some(deadline) => answer.with_deadline(&deadline.report()),
        None => answer,
    }
}

fn exceeded(id: String, report: &DeadlineReport, meta: Meta) -> Response {
    Response::error(Some(id), report).with_meta(meta).with_deadline(report)
}
