//! Reads the envelope, limits, honours the deadline, writes the response.

use super::http_response::{Outcome, http_response};
use super::layer::Settings;
use super::{IncomingCall, MeshLayer};
use crate::deadline::{Expired, Receipt, ReceivedDeadline, run_until};
use crate::document::{Capabilities, MeshError, Meta, Object, Request, Response, shortened};
use crate::scopes::Caller;
use crate::telemetry::DeadlineStage;
use bytes::Bytes;
use damper_core::deadline::{Arrival, Deadline};
use damper_core::limit::{KeyedAlgorithm, TokenBucket};
use damper_core::time::{Clock, DefaultClock, Sleep};
use damper_http::Head;
use http::Method;
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
use std::time::Duration;

/// A service of functions, served over HTTP by a [`MeshLayer`].
///
/// # Cancel safety
///
/// Dropping the future drops that of the function. The request's tokens stay taken.
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

    /// Is always ready. An inner service that is not ready delays only its own requests, and no refusal.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let receipt = Receipt::with_clock(self.layer.settings.scopes.clock().clone());
        let (service, settings) = (self.service.clone(), Arc::clone(&self.layer.settings));
        let sleep = self.layer.sleep.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            if head.method != Method::POST {
                return Ok(http_response(&wrong_method(&head.method), Outcome::WrongMethod));
            }
            let http = http::Request::from_parts(head, ());
            // The HTTP deadline counts from the receipt, like the request's own.
            let found = http.extensions().get::<Deadline<C>>().filter(|deadline| !deadline.is_never());
            let found = found.map(|found| receipt.within(found.remaining().saturating_add(receipt.elapsed())));
            let (answer, outcome) = match run_until(read(body, settings.max_request), found.as_ref(), &sleep).await {
                Ok((Ok(request), _)) => {
                    Received { settings: &settings, receipt, found, request, http }.serve(service, &sleep).await
                }
                Ok((Err((id, error)), _)) => {
                    (Response::error(id, MeshError::new(MeshError::INVALID_REQUEST, error)), Outcome::Unreadable)
                }
                Err(Expired { report, exceeded, .. }) => {
                    settings.telemetry.deadlines.record_exceeded(DeadlineStage::Arrival, &exceeded);
                    (Response::error(None, &report), Outcome::Expired)
                }
            };
            Ok(http_response(&answer, outcome))
        })
    }
}

/// Returns the response to an HTTP request that is not a POST.
fn wrong_method(method: &Method) -> Response {
    let message = format!("the method is {}, it must be POST", shortened(method.as_str()));
    Response::error(None, MeshError::new(MeshError::INVALID_REQUEST, message))
}

/// Reads the envelope, or returns its id, if there is one, and its mistake.
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

/// Returns the id of an otherwise malformed request.
fn id_in(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Identified {
        id: String,
    }
    serde_json::from_slice(bytes).ok().map(|Object(Identified { id })| id)
}

/// A request that was read.
struct Received<'a, C, A> {
    settings: &'a Settings<C, A>,
    receipt: Receipt<C>,
    /// The deadline found by an HTTP layer.
    found: Option<ReceivedDeadline<C>>,
    request: Request,
    http: http::Request<()>,
}

impl<C, A> Received<'_, C, A>
where
    C: Clock + Clone + Send + Sync + 'static,
    A: KeyedAlgorithm,
{
    /// Responds to the request.
    async fn serve<S>(self, service: S, sleep: &impl Sleep) -> (Response, Outcome)
    where
        S: tower_service::Service<IncomingCall<C>, Response = Value, Error = MeshError>,
    {
        let Self { settings, receipt, found, request, http } = self;
        let id = request.id.clone();
        let specified = match request.deadline() {
            Ok(specified) => specified,
            Err(error) => {
                let error = MeshError::new(MeshError::INVALID_REQUEST, error.to_string());
                return (Response::error(Some(id), error), Outcome::Unreadable);
            }
        };
        let own = specified.map(|specified| receipt.deadline(specified)).filter(|own| is_believed(own, settings));
        let deadline = match (&own, found) {
            (Some(own), Some(found)) => Some(own.clone().earlier(found)),
            (own, found) => own.clone().or(found),
        };
        let expired = |Expired { report, exceeded, is_begun }, meta| {
            let stage = if is_begun { DeadlineStage::Response } else { DeadlineStage::Arrival };
            settings.telemetry.deadlines.record_exceeded(stage, &exceeded);
            let elapsed = exceeded.elapsed();
            // The report has the client's deadline as specified, even if the HTTP deadline was earlier.
            let report = own.as_ref().map_or(report, |own| own.report_after(elapsed));
            let answer = Response::error(Some(id.clone()), &report).with_meta(meta);
            (reported(answer, own.as_ref(), elapsed), Outcome::Expired)
        };
        let elapsed = match deadline.as_ref().map_or_else(|| Ok(receipt.elapsed()), ReceivedDeadline::check) {
            Ok(elapsed) => elapsed,
            Err(over) => return expired(over, Meta::default()),
        };
        if request.call.function == Capabilities::FUNCTION && request.call.version == Capabilities::VERSION {
            let answer = Response::ok(id, settings.scopes.capabilities(&settings.name).to_value());
            return (reported(answer, own.as_ref(), elapsed), Outcome::Served);
        }
        let caller = (settings.caller)(Caller::of(&request.call.function), &Head::of(&http), &request);
        if let Err(denied) = settings.scopes.admit(caller) {
            settings.telemetry.record_refused(&http, caller, &denied);
            let answer = Response::error(Some(id), denied.rate_limited()).with_meta(denied.meta());
            return (reported(answer, own.as_ref(), elapsed), Outcome::Limited(denied.retry_after()));
        }
        settings.telemetry.record_allowed();
        let caller = caller.to_owned();
        let call = IncomingCall { request, http, deadline: deadline.clone() };
        let outcome = run_until(called(service, call), deadline.as_ref(), sleep).await;
        if let Err(over @ Expired { is_begun: false, .. }) = outcome {
            // It passed between the check above and the call, so the function was not called.
            return expired(over, Meta::default());
        }
        // The usage is read now, because the function may have taken a while.
        let usage = settings.scopes.peek(caller.borrowed());
        let (result, elapsed) = match outcome {
            Ok((result, elapsed)) => (result, elapsed.unwrap_or_else(|| receipt.elapsed())),
            Err(over) => return expired(over, usage.meta_beside_error()),
        };
        let answer = match result {
            Ok(result) => Response::ok(id, result).with_meta(usage.meta().took(elapsed)),
            Err(error) => Response::error(Some(id), error).with_meta(usage.meta_beside_error().took(elapsed)),
        };
        (reported(answer, own.as_ref(), elapsed), Outcome::Served)
    }
}

/// Returns whether a deadline is trusted. An instant is not if the client's clock seems wrong.
fn is_believed<C: Clock + Clone, A>(deadline: &ReceivedDeadline<C>, settings: &Settings<C, A>) -> bool {
    let guard = settings.skew_guard.as_ref().filter(|_| deadline.specified().instant().is_some());
    let is_skewed = guard.is_some_and(|guard| guard.arrived(&deadline.deadline()) == Arrival::Skewed);
    if is_skewed {
        settings.telemetry.deadlines.record_skewed();
    }
    !is_skewed
}

/// Calls a service once it is ready.
async fn called<S, C>(mut service: S, call: IncomingCall<C>) -> Result<Value, MeshError>
where
    S: tower_service::Service<IncomingCall<C>, Response = Value, Error = MeshError>,
{
    poll_fn(|context| service.poll_ready(context)).await?;
    service.call(call).await
}

/// Adds the report of the request's deadline.
fn reported<C: Clock + Clone>(answer: Response, own: Option<&ReceivedDeadline<C>>, elapsed: Duration) -> Response {
    match own {
        Some(own) => answer.with_deadline(&own.report_after(elapsed)),
        None => answer,
    }
}
