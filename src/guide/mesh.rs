//! Mesh: limits and deadlines that services exchange in JSON.
//!
//! Mesh is a JSON protocol between services. damper implements the parts that concern load: the usage of limits,
//! refusals, published limits, and deadlines.
//!
//! The examples of this page need these crates:
//!
//! ```text
//! cargo add damper --features mesh,tokio
//! cargo add axum serde_json
//! cargo add tower --features util
//! cargo add tokio --features macros,net,rt-multi-thread
//! cargo add hyper-util --features client-legacy,http1,tokio    # for the client
//! ```
//!
//! # A service
//!
//! [`MeshLayer`](crate::mesh::MeshLayer) wraps a tower service that gets calls and returns JSON values. It reads the
//! envelope, checks the limits, ends the call at its deadline, and writes the response.
//!
//! ```no_run
//! # #[cfg(feature = "tokio")] mod orders_api {
//! use axum::Router;
//! use damper::Quota;
//! use damper::mesh::{IncomingCall, MeshError, MeshLayer, Scopes};
//! use serde_json::{Value, json};
//! use tower::{ServiceBuilder, service_fn};
//!
//! async fn orders(call: IncomingCall) -> Result<Value, MeshError> {
//!     match call.function() {
//!         "orders.create" => Ok(json!({ "order_id": 456, "sku": call.arguments()["sku"] })),
//!         other => Err(MeshError::new("FUNCTION_NOT_FOUND", format!("There is no function {other}"))),
//!     }
//! }
//!
//! /// The service that an outer authentication layer verified and put into the request's extensions.
//! #[derive(Clone)]
//! struct Verified(String);
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let scopes = Scopes::builder()
//!         .service(Quota::per_minute(1_000))
//!         .function("orders.create", Quota::per_minute(100))
//!         .build()?;
//!     let layer = MeshLayer::new("orders-api", scopes).caller(|caller, head, _| {
//!         caller.service(head.extensions.get::<Verified>().map_or("", |verified| &verified.0))
//!     });
//!     let service = ServiceBuilder::new().layer(layer).service(service_fn(orders));
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//!     axum::serve(listener, Router::new().route_service("/mesh", service)).await?;
//!     Ok(())
//! }
//! # }
//! # fn main() {}
//! ```
//!
//! # On the wire
//!
//! A request is posted. The extension is optional, and requests a response within 2 seconds:
//!
//! ```json
//! {
//!   "protocol": { "name": "mesh", "version": "0.1.0" },
//!   "id": "req_1",
//!   "call": { "function": "orders.create", "version": "1", "arguments": { "sku": "WIDGET-01" } },
//!   "extensions": [{ "urn": "urn:mesh:ext:deadline", "options": { "value": 2, "unit": "second" } }]
//! }
//! ```
//!
//! The response has the usage of the limits that the request met, and a report of the deadline:
//!
//! ```json
//! {
//!   "protocol": { "name": "mesh", "version": "0.1.0" },
//!   "id": "req_1",
//!   "result": { "order_id": 456, "sku": "WIDGET-01" },
//!   "meta": {
//!     "duration": { "value": 20, "unit": "millisecond" },
//!     "rate_limits": {
//!       "service": {
//!         "limit": 1000, "used": 1, "remaining": 999,
//!         "window": { "value": 1, "unit": "minute" }, "resets_in": { "value": 40, "unit": "millisecond" }
//!       },
//!       "function": {
//!         "limit": 100, "used": 1, "remaining": 99,
//!         "window": { "value": 1, "unit": "minute" }, "resets_in": { "value": 580, "unit": "millisecond" }
//!       }
//!     }
//!   },
//!   "extensions": [{
//!     "urn": "urn:mesh:ext:deadline",
//!     "data": {
//!       "specified": { "value": 2, "unit": "second" },
//!       "elapsed": { "value": 20, "unit": "millisecond" },
//!       "remaining": { "value": 1980, "unit": "millisecond" },
//!       "utilization": 0.01
//!     }
//!   }]
//! }
//! ```
//!
//! A hundred calls later the limit of the function refuses, with the status 429 and `Retry-After: 1`:
//!
//! ```json
//! {
//!   "protocol": { "name": "mesh", "version": "0.1.0" },
//!   "id": "req_1",
//!   "result": null,
//!   "errors": [{
//!     "code": "RATE_LIMITED",
//!     "message": "Rate limit exceeded for orders.create",
//!     "retryable": true,
//!     "details": {
//!       "limit": 100, "used": 100,
//!       "window": { "value": 1, "unit": "minute" }, "retry_after": { "value": 600, "unit": "millisecond" },
//!       "scope": "function", "function": "orders.create"
//!     }
//!   }],
//!   "meta": {
//!     "rate_limit": {
//!       "limit": 100, "used": 100, "remaining": 0,
//!       "window": { "value": 1, "unit": "minute" }, "resets_in": { "value": 1, "unit": "minute" }
//!     }
//!   }
//! }
//! ```
//!
//! The function `mesh.capabilities` publishes the limits in force. They are read from the limiters at that moment, so
//! they include live changes of quotas.
//!
//! | response | HTTP status |
//! |---|---|
//! | a result, or an error of the function with any code | 200 |
//! | a refusal by a limit of the layer: `RATE_LIMITED` | 429, with `Retry-After` |
//! | the deadline passed: `DEADLINE_EXCEEDED` | 504 |
//! | unreadable, or another protocol: `INVALID_REQUEST` | 400 |
//! | not posted: `INVALID_REQUEST` | 405 |
//!
//! A function that calls other services converts their errors with
//! [`MeshError::from_downstream`](crate::mesh::MeshError::from_downstream). `RATE_LIMITED` then becomes
//! `DOWNSTREAM_RATE_LIMITED`. Otherwise its clients would slow down for a limit that this service does not have. A
//! [`ClientError`](crate::mesh::ClientError) converts with `?`.
//!
//! One refusal deviates from Mesh: if no wait helps, `retryable` is false and `retry_after` is
//! [`MeshDuration::NEVER`](crate::mesh::MeshDuration::NEVER). Clients give up at once on it.
//!
//! # Scopes
//!
//! A request may count in up to four limits: those of its user, of its function, of the calling service, and of all
//! clients together. [`Scopes`](crate::mesh::Scopes) makes one decision on all of them. A request takes a token from
//! each, or from none:
//!
//! ```
//! use damper::mesh::{Caller, Scope, Scopes};
//! use damper::{ManualClock, Quota};
//!
//! let clock = ManualClock::new();
//! let scopes = Scopes::with_clock(&clock).global(Quota::per_hour(100)).user(Quota::per_minute(2)).build()?;
//! let alice = Caller::of("orders.create").user("alice");
//! assert!(scopes.check_n(alice, 2).is_ok());
//! let denied = scopes.check(alice).unwrap_err();
//! assert_eq!(denied.to_string(), "user: rate limit exceeded, retry in 30 s");
//! let all = scopes.peek(alice).usage(Scope::Global).expect("there is such a limit");
//! assert_eq!(all.used(), 2, "the refusal took nothing");
//! # Ok::<(), damper::mesh::ScopesError>(())
//! ```
//!
//! Names of services and users come from the closure of [`caller`](crate::mesh::MeshLayer::caller). A client that can
//! choose its name evades the limit. Take names from an extension that an authentication layer set, not from a header.
//! Requests without a name share one limit.
//!
//! A response reports the usage of one limit as `rate_limit`, and of several as `rate_limits`. By default it warns at
//! 10 % and at 2 % left. [`Warnings`](crate::mesh::Warnings) sets other thresholds. Token buckets report the burst and
//! its refill time. They are full at the start, so 100 per minute admit up to 199 requests in the first minute. For whole
//! windows, choose the algorithm [`FixedWindow`](crate::FixedWindow), in files `server.mesh.algorithm = "fixed_window"`.
//! The usage of a function keeps its scope even if it is the only one, because clients take a limit without a scope for
//! one of all functions.
//!
//! # A client
//!
//! A [`Client`](crate::mesh::Client) calls one service. A user's limit slows down all calls of a client. So use one
//! client for each service and user, and share its clones:
//!
//! ```no_run
//! # #[cfg(feature = "tokio")] {
//! use damper::mesh::{ClientError, Client, Request};
//! use hyper_util::{client::legacy::Client as HttpClient, rt::TokioExecutor};
//! use serde_json::json;
//! use std::time::Duration;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let http = HttpClient::builder(TokioExecutor::new()).build_http();
//! let orders = Client::builder(http, "http://127.0.0.1:3000/mesh".parse()?).timeout(Duration::from_secs(2)).build();
//!
//! let request = Request::new("req_1", "orders.create", "1", json!({ "sku": "WIDGET-01" }));
//! match orders.call(request).await {
//!     Ok(answer) => match answer.into_result() {
//!         Ok(order) => println!("created {order}"),
//!         Err(error) => println!("the service answers {error}"), // such as RATE_LIMITED, after five attempts
//!     },
//!     Err(error @ ClientError::Paced(_)) => println!("not sent: ask again in {:?}", error.retry_after()),
//!     Err(error) => println!("no answer: {error}"),
//! }
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! Any other HTTP client becomes `http` by a function. For that of reqwest, with the crates bytes, http and http-body-util:
//!
//! ```no_run
//! use bytes::Bytes;
//! use http_body_util::{BodyExt, Full};
//!
//! let client = reqwest::Client::new();
//! let http = tower::service_fn(move |request: http::Request<Full<Bytes>>| {
//!     let client = client.clone();
//!     async move {
//!         let (head, body) = request.into_parts();
//!         let request = http::Request::from_parts(head, body.collect().await?.to_bytes());
//!         let response = client.execute(request.try_into()?).await?;
//!         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(http::Response::from(response))
//!     }
//! });
//! # let orders = damper::mesh::ClientBuilder::sleeping_by(http, "http://127.0.0.1:3000/mesh".parse()?, |_| std::future::ready(())).build();
//! # let _ = orders.call(damper::mesh::Request::new("req_1", "f", "1", serde_json::json!({})));
//! # Ok::<(), http::uri::InvalidUri>(())
//! ```
//!
//! The client reads the usage and the refusals in responses. While less than 10 % of a limit is left it waits
//! `resets_in / remaining` before each call, and with nothing left until the reset. A limit that never resets holds no
//! call. After a refusal it waits as long as the service stated, twice as long after the next one, and so on up to 5
//! minutes. It makes at most five attempts, within a retry budget.
//!
//! A function's limit slows down calls of that function. Every other limit, including one without a scope, slows down
//! all calls. A refusal also holds calls that are already waiting, and a response to an older request does not release
//! them. They leave one by one, or spread by a tenth of the wait.
//!
//! A wait is never cut short. A call whose deadline precedes the end of its wait fails at once, unsent, with
//! [`ClientError::Paced`](crate::mesh::ClientError::Paced), which names the wait. Without a deadline, waits of up to 5
//! minutes are accepted. [`max_pacing_wait`](crate::mesh::ClientBuilder::max_pacing_wait) changes that. For breakers
//! such a call is a [refusal](crate::is_refusal) and no failure of the service.
//!
//! With another client, a [`Pacer`](crate::throttle::Pacer) with [`MeshHints`](crate::mesh::MeshHints) sleeps before
//! calls, and repeats refused ones:
//!
//! ```
//! use damper::Quota;
//! use damper::mesh::{MeshHints, Request, Response};
//! use damper::throttle::{PacedRetry, Pacer};
//! use serde_json::json;
//!
//! static ORDERS: Pacer = Pacer::new(Quota::per_minute(100));
//!
//! # fn send(request: &Request) -> Result<Response, std::io::Error> { Ok(Response::ok(&*request.id, json!(7))) }
//! let request = Request::new("req_1", "orders.count", "1", json!({}));
//! let answer = ORDERS.call(&PacedRetry::DEFAULT, MeshHints, |_attempt| send(&request))?;
//! # assert_eq!(answer.result, 7);
//! # Ok::<(), damper::RetryError<std::io::Error>>(())
//! ```
//!
//! Or read the documents yourself: [`Response::failure`](crate::mesh::Response::failure) is the input of a
//! [`Retry`](crate::Retry), [`RateLimitUsage::pace`](crate::mesh::RateLimitUsage::pace) is the wait before the limit,
//! and a [`Pausable`](crate::Pausable) stops other callers:
//!
//! ```
//! use damper::mesh::{RateLimited, Response};
//! use damper::{ManualClock, Pausable, Quota, RateLimiter};
//!
//! let clock = ManualClock::new();
//! let server = RateLimiter::with_clock(Quota::per_minute(1), &clock);
//! server.check()?;
//! let denied = server.check().unwrap_err();
//! let answer = Response::error(Some("req_1".into()), RateLimited::by(&denied, &server.peek()));
//!
//! let polite = Pausable::with_clock(RateLimiter::with_clock(Quota::per_second(10), &clock), &clock);
//! if let Some(wait) = answer.rate_limited()?.and_then(|limited| limited.retry_after) {
//!     polite.pause_for(wait.duration());
//! }
//! assert_eq!(polite.check().unwrap_err().to_string(), "rate limit exceeded, retry in 60 s");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Deadlines
//!
//! A request may have the extension `urn:mesh:ext:deadline`: a duration, or an ISO 8601 instant. The time starts when
//! the HTTP request's head arrives. After the deadline the service's future is dropped, and the response is
//! `DEADLINE_EXCEEDED` without a result.
//!
//! A call on behalf of another one gets its remaining time: pass
//! [`IncomingCall::deadline`](crate::mesh::IncomingCall::deadline) to
//! [`Client::call_within`](crate::mesh::Client::call_within). An instant is passed on unchanged, and more than an hour
//! is sent as an instant, so these need clocks that agree. A duration does not. If clocks may differ, give the layer a
//! [`skew_guard`](crate::mesh::MeshLayer::skew_guard): if too many requests seem to have expired on arrival, it serves
//! them.
//!
//! ```
//! use core::time::Duration;
//! use damper::ManualClock;
//! use damper::mesh::{Receipt, SpecifiedDeadline};
//!
//! let clock = ManualClock::new();
//! let deadline = Receipt::with_clock(&clock).deadline(SpecifiedDeadline::after(Duration::from_secs(5)));
//! clock.advance(Duration::from_secs(1)); // work of our own
//! let sent = deadline.downstream().expect("4 s are left");
//! assert_eq!(sent.to_string(), "4 second");
//! ```
//!
//! # Metrics and logs
//!
//! With the features `metrics` and `tracing`, the layer counts and logs under the name of the service, and the client
//! under a name of its own, set by [`named`](crate::mesh::ClientBuilder::named):
//!
//! | question | metric |
//! |---|---|
//! | How many calls does a scope refuse? | `damper_limit_refused_total{limit="orders-api"}` by `scope` |
//! | How much of a limit is left? | `damper_limit_remaining_tokens` by `scope` and `function`; `damper_limit_keys_exhausted` for services and users |
//! | Do calls arrive too late, or take too long? | `damper_deadline_exceeded_total` by `side` and `stage` |
//! | Does the client slow down? | `damper_pacing_sleep_seconds`, `damper_pacing_refused_total` |
//! | Does the service refuse it all the same? | `damper_pacing_rejected_total`, `damper_retry_requests_total`, `damper_retry_not_made_total` by `reason` |
//!
//! No label has the name of a user or of a calling service. The log has it in the field `key`. An exporter reads the
//! levels of the layer and of the client: `Exporter::new().layer(layer.clone()).layer(client.clone())`.
//!
//! # Without the envelope
//!
//! A [`RateLimitLayer`](crate::http::RateLimitLayer) in front of a service refuses before it reads a request. With
//! [`refusal_body`](crate::mesh::refusal_body) its refusals are Mesh documents too, although without the request's id.
