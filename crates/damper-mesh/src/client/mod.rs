//! Calls Mesh services.

// | file | idea |
// |---|---|
// | this one | the calls of a service, with their attempts |
// | `builder` | the settings of a client |
// | `mesh_backoff` | the wait after a refusal |
// | `mesh_hints` | reads hints for a core pacer from responses |
// | `scope_pacer` | paces calls by the usage in recent responses |
// | `error` | errors of a call |

mod builder;
mod error;
mod mesh_backoff;
mod mesh_hints;
pub(crate) mod scope_pacer;

pub use builder::ClientBuilder;
pub use error::ClientError;
pub use mesh_backoff::MeshBackoff;
pub use mesh_hints::MeshHints;

use self::scope_pacer::{Next, ScopePacer, Sent};
use crate::deadline::{Expired, Receipt, ReceivedDeadline, SpecifiedDeadline, run_until};
use crate::document::{Request, Response};
use crate::server::JSON;
use crate::telemetry::{ClientTelemetry, DeadlineStage};
use bytes::Bytes;
use damper_core::deadline::Deadline;
use damper_core::internal::{budget_of, exceeded};
use damper_core::limit::Denied;
use damper_core::retry::{Attempts, Budget, Failure, GaveUp, Retry, RetryBudget, Unlimited};
use damper_core::throttle::PaceTooSlow;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_core::time::{Clock, DefaultClock, Seed, Sleep};
use damper_http::Statuses;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Uri};
use http_body_util::{BodyExt, Full, Limited};
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

/// Calls a Mesh service over HTTP.
///
/// It sends through any tower service of HTTP requests, such as hyper-util's client.
///
/// | when | the client |
/// |---|---|
/// | less than 10 % of a limit is left | waits `resets_in / remaining` before each call; at 0 it waits `resets_in` |
/// | such a limit [never](crate::MeshDuration::NEVER) resets | sends, because only a response can say that it changed |
/// | the service refuses with `RATE_LIMITED` | waits by [`MeshBackoff`] and retries; other calls under that limit wait too |
/// | such a refusal has no `retry_after` | retries after the backoff of the [`Retry`], and at least 100 ms |
/// | a wait is longer than the call's deadline or [`max_pacing_wait`](crate::ClientBuilder::max_pacing_wait) | fails at once with [`ClientError::Paced`], without sending |
/// | it responds with another error that may be retried | retries after the backoff of the [`Retry`] |
/// | attempts, budget or time are used up | returns the last response |
/// | no connection can be made | retries, because the call reached no server |
/// | the HTTP client fails otherwise | returns the error, because the call may have been served |
///
/// Calls that are slowed down are sent one by one. Calls that waited for the end of a pause leave at slightly different
/// times. A call sends the remaining time of the earliest of three deadlines: that of the request being served, the
/// client's own [`timeout`](crate::ClientBuilder::timeout), and that of the request itself. Each attempt sends the time
/// left at its start, which must be a millisecond or more. At the deadline the attempt in flight is dropped, and the
/// error is [`ClientError::DeadlineExceeded`].
///
/// Use one client for each service and user. A function's limit slows down calls of that function. Every other limit,
/// including one without a scope, slows down all calls. Clones share the state of the limits and the budget of retries.
///
/// # Examples
///
/// ```no_run
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// # #[cfg(feature = "tokio")] {
/// use damper::mesh::{Client, IncomingCall, MeshError, Request};
/// use hyper_util::{client::legacy::Client as HttpClient, rt::TokioExecutor};
/// use serde_json::{Value, json};
///
/// # async fn run(call: IncomingCall) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
/// let http = HttpClient::builder(TokioExecutor::new()).build_http();
/// let inventory = Client::new(http, "http://inventory.example.com/mesh".parse()?);
///
/// let request = Request::new("req_1", "inventory.check", "1", json!({ "sku": "WIDGET-01" }));
/// let response = inventory.call_within(call.deadline(), request).await?;
/// Ok(response.into_result()?)
/// # }
/// # }
/// ```
pub struct Client<S, Z, B = RetryBudget, C = DefaultClock> {
    http: S,
    sleep: Z,
    settings: Arc<Settings<B, C>>,
}

/// The shortest sleep between two readings of the clock.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// The shortest time before the deadline in which an attempt is sent.
///
/// [`ReceivedDeadline::downstream`] passes on no shorter one.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(1);

/// The shortest wait after a refusal that names none.
///
/// The backoff draws its waits from zero on, and the limit has no token yet.
const SHORTEST_VAGUE_WAIT: Duration = Duration::from_millis(100);

/// An attempt that is due, and can be sent at once.
struct Departure<S> {
    /// Is ready.
    http: S,
    /// Has the rest of the deadline.
    request: Request,
    sent: Sent,
}

/// The reason why a call is not sent.
enum Unsent {
    /// The limits of the service ask for a longer wait than the call accepts.
    Paced(Denied),
    /// The deadline passed before.
    Late,
}

/// The state that clones of a client share.
pub(super) struct Settings<B, C> {
    pub(super) uri: Uri,
    pub(super) retry: Retry<C, B>,
    pub(super) backoff: MeshBackoff,
    pub(super) max_pacing_wait: Option<Duration>,
    pub(super) timeout: Option<Duration>,
    pub(super) max_response: usize,
    pub(super) headers: HeaderMap,
    pub(super) pacer: ScopePacer<C>,
    /// Makes this client's jitter differ from that of others.
    pub(super) seed: Seed,
    pub(super) telemetry: ClientTelemetry,
}

#[cfg(feature = "tokio")]
impl<S> Client<S, TokioSleep> {
    /// Creates a client of the service at `uri`, which sleeps by tokio's timer.
    #[must_use]
    pub fn new(http: S, uri: Uri) -> Self {
        Self::builder(http, uri).build()
    }

    /// Sets up a client of the service at `uri`, which sleeps by tokio's timer.
    pub fn builder(http: S, uri: Uri) -> ClientBuilder<S, TokioSleep> {
        ClientBuilder::new(http, uri)
    }
}

impl<S, Z, B, C> Client<S, Z, B, C> {
    pub(super) fn new_of(http: S, sleep: Z, settings: Arc<Settings<B, C>>) -> Self {
        Self { http, sleep, settings }
    }
}

impl<S: Clone, Z: Clone, B, C> Clone for Client<S, Z, B, C> {
    fn clone(&self) -> Self {
        Self::new_of(self.http.clone(), self.sleep.clone(), Arc::clone(&self.settings))
    }
}

impl<S, Z, B, C, R> Client<S, Z, B, C>
where
    S: tower_service::Service<http::Request<Full<Bytes>>, Response = http::Response<R>> + Clone,
    R: http_body::Body,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
    Z: Sleep,
    B: Budget,
    C: Clock + Clone,
{
    /// Makes a call.
    ///
    /// # Errors
    ///
    /// [`ClientError`], if there is no Mesh response. A refusal, or any other error of the service, is in the
    /// [`Response`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the attempt in flight, which the service may have served. A call that is dropped
    /// before it is sent delays no other call, also while it waits for the HTTP client to get ready.
    pub async fn call(&self, request: Request) -> Result<Response, ClientError> {
        self.call_within(None, request).await
    }

    /// Makes a call on behalf of a request being served, within its deadline.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    ///
    /// # Cancel safety
    ///
    /// As [`call`](Self::call).
    pub async fn call_within(
        &self,
        deadline: Option<&ReceivedDeadline<C>>,
        request: Request,
    ) -> Result<Response, ClientError> {
        let Settings { retry, pacer, telemetry, .. } = &*self.settings;
        let function = &*request.call.function;
        let deadline = self.earliest(deadline, &request).map_err(ClientError::Deadline)?;
        let rest = deadline.as_ref().map_or_else(|| Deadline::never(retry.clock().clone()), ReceivedDeadline::deadline);
        let exceeded = |stage| telemetry.exceeded(stage, exceeded(&rest));
        if rest.is_expired() {
            return Err(exceeded(DeadlineStage::Departure));
        }
        let unsent = |unsent| match unsent {
            Unsent::Paced(denied) => telemetry.refused(denied),
            Unsent::Late => exceeded(DeadlineStage::Departure),
        };
        let (mut departure, slept) = self.depart(&request, deadline.as_ref(), &rest).await.map_err(unsent)?;
        telemetry.record_paced(slept);
        let budget = budget_of(retry);
        let mut attempts = retry.begin_by(rest.clone());
        let mut refusals = 0;
        loop {
            let outcome = match departure {
                Err(error) => Err(error),
                Ok(Departure { http, request, sent }) => {
                    match run_until(self.send(http, request), deadline.as_ref(), &self.sleep).await {
                        Ok((outcome, _)) => outcome.inspect(|answer| pacer.note(sent, function, answer)),
                        Err(Expired { is_begun, .. }) => {
                            // The failure counts in the budget, which ends retries while the service fails.
                            attempts.count_failure(budget, Failure::TRANSIENT.declined());
                            let stage = if is_begun { DeadlineStage::Response } else { DeadlineStage::Departure };
                            return Err(exceeded(stage));
                        }
                    }
                }
            };
            let is_rejected = outcome.as_ref().is_ok_and(|answer| answer.refusal().is_some());
            let (failure, floor) = match &outcome {
                Err(error) => (failure_of(error), Duration::ZERO),
                Ok(answer) => {
                    let Some(failure) = answer.failure() else {
                        attempts.succeeded(retry);
                        return outcome;
                    };
                    let is_vague = matches!(answer.refusal(), Some((_, None)));
                    let floor = if is_vague { SHORTEST_VAGUE_WAIT } else { Duration::ZERO };
                    (self.spaced(failure, answer, &mut refusals, &attempts, left_of(&rest)), floor)
                }
            };
            attempts.count_failure(budget, failure);
            let wait = attempts.next_wait(retry, failure, Duration::MAX).and_then(|wait| {
                let wait = wait.max(floor);
                // `next_wait` leaves no time to send, and does not know how long the client sleeps.
                if wait.max(SHORTEST_SLEEP) > left_of(&rest) {
                    return Err(GaveUp::Deadline { hint: None });
                }
                // A retry that the pace would not send takes nothing from the budget.
                let pace = pacer.peek(function);
                if pace > wait.saturating_add(self.patience(&rest).unwrap_or(Duration::MAX)).min(left_of(&rest)) {
                    return Err(GaveUp::Paced(PaceTooSlow::new(pace, rest.remaining())));
                }
                attempts.withdraw(budget, failure)?;
                Ok(wait)
            });
            if is_rejected {
                telemetry.record_rejected(wait.ok());
            }
            // The service's own response is returned, whatever ended the call.
            let wait = match wait {
                Ok(wait) => wait,
                Err(gave_up) => {
                    telemetry.record_gave_up(&gave_up);
                    return outcome;
                }
            };
            self.sleep_for(wait).await;
            departure = match self.depart(&request, deadline.as_ref(), &rest).await {
                Ok((departure, _)) => departure,
                Err(Unsent::Late) => {
                    telemetry.record_gave_up(&GaveUp::Deadline { hint: None });
                    return outcome;
                }
                Err(Unsent::Paced(denied)) => {
                    let wait = denied.retry_after().unwrap_or_default();
                    telemetry.record_gave_up(&GaveUp::Paced(PaceTooSlow::new(wait, rest.remaining())));
                    return outcome;
                }
            };
            telemetry.record_retried();
        }
    }

    /// Returns the longest wait for the limits of the service, if it does not last until the deadline.
    fn patience(&self, rest: &Deadline<C>) -> Option<Duration> {
        let Settings { backoff, max_pacing_wait, .. } = &*self.settings;
        max_pacing_wait.or_else(|| rest.is_never().then(|| backoff.longest()))
    }

    /// Waits until the limits of the service allow the call, and returns what it needs to be sent at once.
    ///
    /// Returns the time that it slept, too. It checks again after each wait. A call that takes its turn moves the pace of
    /// all others, so it does so last: once the HTTP client is ready, and if time is left. While it waits for its turn, it
    /// keeps no HTTP client ready that another call could use.
    async fn depart(
        &self,
        request: &Request,
        deadline: Option<&ReceivedDeadline<C>>,
        rest: &Deadline<C>,
    ) -> Result<(Result<Departure<S>, ClientError>, Duration), Unsent> {
        let Settings { retry, pacer, .. } = &*self.settings;
        let patience = self.patience(rest).map(|wait| Deadline::with_clock(wait, retry.clock().clone()));
        let mut turn = pacer.turn(&request.call.function);
        let mut slept = Duration::ZERO;
        loop {
            let left = left_of(rest);
            let longest = patience.as_ref().map_or(left, |patience| left.min(patience.remaining()));
            match turn.ask(longest) {
                Next::Due => {
                    let ready = run_until(self.ready(), deadline, &self.sleep).await;
                    let http = match ready.map_err(|_| Unsent::Late)? {
                        (Ok(http), _) => http,
                        (Err(error), _) => return Ok((Err(error), slept)),
                    };
                    let request = with_rest(request.clone(), deadline).ok_or(Unsent::Late)?;
                    // Another call may have been sent meanwhile.
                    if let Some(sent) = turn.send() {
                        return Ok((Ok(Departure { http, request, sent }), slept));
                    }
                }
                Next::Wait(wait) => {
                    self.sleep_for(wait).await;
                    slept = slept.saturating_add(wait);
                }
                Next::GiveUp(wait) => return Err(Unsent::Paced(Denied::after(wait))),
            }
        }
    }

    /// Returns the earliest of the call's deadlines.
    fn earliest(
        &self,
        served: Option<&ReceivedDeadline<C>>,
        request: &Request,
    ) -> Result<Option<ReceivedDeadline<C>>, crate::ReadError> {
        let begun = Receipt::with_clock(self.settings.retry.clock().clone());
        let of = |specified| begun.deadline(specified);
        let own = self.settings.timeout.map(|timeout| of(SpecifiedDeadline::after(timeout)));
        let policy = self.settings.retry.begin_within(&Unlimited, None).deadline().clone();
        let policy = (!policy.is_never()).then(|| begun.within(policy.remaining()));
        let deadlines = [served.cloned(), own, policy, request.deadline()?.map(of)];
        Ok(deadlines.into_iter().flatten().reduce(ReceivedDeadline::earlier))
    }

    /// Returns the failure with the exact wait of a refusal that names one.
    ///
    /// The wait ends within `left`, if that is possible.
    fn spaced(
        &self,
        failure: Failure,
        answer: &Response,
        refusals: &mut u32,
        attempts: &Attempts<C>,
        left: Duration,
    ) -> Failure {
        let Some((_, Some(wait))) = answer.refusal() else { return failure };
        if !failure.may_retry() {
            return failure;
        }
        let random = self.settings.seed.hash_one((answer.id.as_deref(), attempts.number()));
        let wait = self.settings.backoff.wait_within(wait.duration(), *refusals, random, left);
        *refusals = refusals.saturating_add(1);
        Failure::THROTTLED.pushback(wait)
    }

    async fn sleep_for(&self, wait: Duration) {
        let over = Deadline::with_clock(wait, self.settings.retry.clock().clone());
        loop {
            // A wait below the clock's tick ends at once on that clock, but must not become a busy loop.
            self.sleep.sleep(over.remaining().max(SHORTEST_SLEEP)).await;
            // A sleep may end early.
            if over.is_expired() {
                return;
            }
        }
    }

    /// Returns an HTTP client that is ready.
    async fn ready(&self) -> Result<S, ClientError> {
        let mut http = self.http.clone();
        poll_fn(|context| http.poll_ready(context)).await.map_err(transport)?;
        Ok(http)
    }

    /// Makes an attempt through an HTTP client that is ready.
    async fn send(&self, mut http: S, request: Request) -> Result<Response, ClientError> {
        let (head, body) = http.call(self.posted(&request)).await.map_err(transport)?.into_parts();
        let body =
            Limited::new(body, self.settings.max_response).collect().await.map_err(ClientError::Body)?.to_bytes();
        let answer =
            Response::from_json(&body).map_err(|error| ClientError::Unreadable { status: head.status, error })?;
        match answer.id {
            Some(id) if id != request.id => Err(ClientError::WrongId { id }),
            _ => Ok(answer),
        }
    }

    fn posted(&self, request: &Request) -> http::Request<Full<Bytes>> {
        let Settings { uri, headers, .. } = &*self.settings;
        let mut posted = http::Request::new(Full::new(request.to_json()));
        *posted.method_mut() = Method::POST;
        *posted.uri_mut() = uri.clone();
        posted.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        posted.headers_mut().extend(headers.clone());
        posted
    }
}

/// The shortest wait of a call that is made now, and the retries that the budget has left.
#[cfg(feature = "metrics")]
impl<S, Z, B: damper_metrics::Source, C: Clock + Clone> damper_metrics::Source for Client<S, Z, B, C> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        let Settings { retry, pacer, .. } = &*self.settings;
        readings.record(&damper_metrics::catalogue::PACING_NEXT_SLEEP, pacer.peek("").as_secs_f64());
        budget_of(retry).read(readings);
    }
}

#[cfg(feature = "metrics")]
impl<S, Z, B: damper_metrics::Source, C: Clock + Clone> damper_metrics::NamedSource for Client<S, Z, B, C> {
    fn name(&self) -> &str {
        self.settings.telemetry.name()
    }
}

fn transport(error: impl Into<Box<dyn Error + Send + Sync>>) -> ClientError {
    ClientError::Transport(error.into())
}

/// Classifies a call without a response.
///
/// The failure counts. If the service may have served the call, it is not retried.
fn failure_of(error: &ClientError) -> Failure {
    let ClientError::Transport(error) = error else { return Failure::TRANSIENT.declined() };
    match Statuses::failure(Err(&**error)) {
        Some(failure) if failure.is_unprocessed() || !failure.may_retry() => failure,
        _ => Failure::TRANSIENT.declined(),
    }
}

/// Returns the longest wait that leaves time to send before the deadline.
fn left_of<C: Clock>(rest: &Deadline<C>) -> Duration {
    rest.remaining().saturating_sub(SHORTEST_ATTEMPT)
}

/// Returns the request with the rest of its deadline, or `None` if no time is left.
fn with_rest<C: Clock + Clone>(request: Request, deadline: Option<&ReceivedDeadline<C>>) -> Option<Request> {
    match deadline {
        None => Some(request),
        Some(deadline) => Some(request.with_deadline(&deadline.downstream()?)),
    }
}

impl<S: fmt::Debug, Z, B, C> fmt::Debug for Client<S, Z, B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { uri, backoff, timeout, .. } = &*self.settings;
        f.debug_struct("Client")
            .field("http", &self.http)
            .field("uri", uri)
            .field("backoff", backoff)
            .field("timeout", timeout)
            .finish_non_exhaustive()
    }
}
