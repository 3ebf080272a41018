//! The JSON protocol Mesh, as far as it concerns load, by [damper](https://docs.rs/damper).
//!
//! It covers usage in every response, refusals, limits per scope, discovery and deadlines.
//!
//! The crate [`damper`](https://docs.rs/damper) re-exports it as `damper::mesh`, beside the primitives of
//! [`damper-core`](https://docs.rs/damper-core). The guide of that crate has a page on Mesh.
//!
//! # Serving calls
//!
//! [`MeshLayer`] wraps a tower service of calls. It reads the envelope, checks the limits, ends the call at its
//! deadline, and writes the response with the usage of each limit. Above a limit it responds with `RATE_LIMITED`, the
//! status 429 and `Retry-After`.
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
//! # #[cfg(feature = "tokio")] {
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
//! let scopes = Scopes::builder()
//!     .global(Quota::per_minute(10_000))
//!     .function("orders.create", Quota::per_minute(100))
//!     .build()?;
//! let service = ServiceBuilder::new().layer(MeshLayer::new("orders-api", scopes)).service(service_fn(orders));
//! // axum: Router::new().route_service("/mesh", service)
//! # let _ = service;
//! # }
//! # Ok::<(), damper::mesh::ScopesError>(())
//! ```
//!
//! # Calling a service
//!
//! A [`Client`] slows down before it reaches a limit, backs off after a refusal, and retries within a budget. A call
//! made while serving another gets its remaining deadline.
//!
//! ```no_run
//! # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
//! # #[cfg(feature = "tokio")] {
//! use damper::mesh::{Client, IncomingCall, MeshError, Request};
//! use hyper_util::{client::legacy::Client as HttpClient, rt::TokioExecutor};
//! use serde_json::{Value, json};
//! use std::time::Duration;
//!
//! # async fn run(call: IncomingCall) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
//! let http = HttpClient::builder(TokioExecutor::new()).build_http();
//! let inventory = Client::builder(http, "http://inventory.example.com/mesh".parse()?)
//!     .timeout(Duration::from_secs(2))
//!     .build();
//!
//! let request = Request::new("req_1", "inventory.check", "1", json!({ "sku": "WIDGET-01" }));
//! let answer = inventory.call_within(call.deadline(), request).await?;
//! let stock = answer.into_result().map_err(MeshError::from_downstream)?; // no limit of this service
//! # Ok(stock)
//! # }
//! # }
//! ```
//!
//! # Limiting several scopes
//!
//! [`Scopes`] decides the limits of all clients, of the calling service, of the function and of the user together. A
//! request takes a token from each, or from none.
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
//! use damper::mesh::{Caller, Scope, Scopes};
//! use damper::{ManualClock, Quota};
//!
//! let clock = ManualClock::new();
//! let scopes = Scopes::with_clock(&clock).global(Quota::per_hour(100)).user(Quota::per_minute(2)).build()?;
//! let alice = Caller::of("orders.create").user("alice");
//! assert!(scopes.check_n(alice, 2).is_ok());
//! let denied = scopes.check(alice).unwrap_err();
//! assert_eq!(denied.to_string(), "user: rate limit exceeded, retry in 30 s");
//! assert_eq!(scopes.peek(alice).usage(Scope::Global).map(|all| all.used()), Some(2));
//! # Ok::<(), damper::mesh::ScopesError>(())
//! ```
//!
//! # Reading and writing documents
//!
//! Over a transport other than HTTP, the documents are plain values. A limiter reports its usage and refusals in them:
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
//! use damper::mesh::{MeshError, RateLimited, Request, Response};
//! use damper::{Quota, RateLimiter};
//! use serde_json::json;
//!
//! static LIMIT: RateLimiter = RateLimiter::new(Quota::per_minute(100));
//!
//! fn answer(document: &[u8]) -> Response {
//!     let request = match Request::from_json(document) {
//!         Ok(request) => request,
//!         Err(error) => return Response::error(None, MeshError::new(MeshError::INVALID_REQUEST, error.to_string())),
//!     };
//!     match LIMIT.check() {
//!         Ok(_) => Response::ok(request.id, json!("done")),
//!         Err(denied) => Response::error(Some(request.id), RateLimited::by(&denied, &LIMIT.peek())),
//!     }
//! }
//! # let request = Request::new("req_1", "f", "1", json!({}));
//! # assert_eq!(Response::from_json(&answer(&request.to_json()).to_json())?.into_result().unwrap(), "done");
//! # assert_eq!(answer(b"{").errors[0].code, "INVALID_REQUEST");
//! # Ok::<(), damper::mesh::ReadError>(())
//! ```
//!
//! # Which type
//!
//! | to | use |
//! |---|---|
//! | read and write documents | [`Request`], [`Response`], [`Fragment`] |
//! | report a limiter's usage | [`RateLimitUsage::of`], [`Meta`], [`Warnings`] |
//! | respond with a refusal | [`RateLimited::by`], which is a [`MeshError`] by `From` |
//! | limit all clients, services, functions and users in one decision | [`Scopes`] |
//! | publish the limits in force | [`Scopes::capabilities`] |
//! | honour a deadline, and pass on the rest | [`Receipt`], [`ReceivedDeadline`], [`DeadlineReport`] |
//! | do all of this in a server over HTTP | [`MeshLayer`] |
//! | call such a server | [`Client`], which slows down before the limit and backs off after a refusal |
//! | pace calls of another client by a [`Pacer`](damper_core::throttle::Pacer) | [`MeshHints`], [`Response::hints`] |
//! | respond in this form from a [`RateLimitLayer`](damper_http::RateLimitLayer) | [`refusal_body`] |
//!
//! Durations are whole numbers of milliseconds, seconds, minutes or hours: [`MeshDuration`]. Unknown members of
//! documents are ignored. A malformed member is a [`ReadError`] that names it.
//!
//! # Metrics and logs
//!
//! With the feature `metrics`, the layer and the client count by the crate `metrics`, under the names that the layers of
//! [`damper_http`](damper_http#metrics-and-logs) have. They look up the recorder when they first need it, so install the
//! recorder before the first request.
//!
//! | metric, as `damper_…` | labels | counts |
//! |---|---|---|
//! | `limit_allowed_total` | `limit` | calls that the limits of a [`MeshLayer`] let pass |
//! | `limit_refused_total` | `limit`, `scope` | calls that a limit of the layer refused |
//! | `deadline_exceeded_total` | `deadline`, `side`, `stage` | calls that a deadline ended |
//! | `deadline_skewed_total` | `deadline` | calls that the [`skew_guard`](MeshLayer::skew_guard) let pass |
//! | `pacing_calls_total` | `pacing` | calls that a [`Client`] sent, each once |
//! | `pacing_sleep_seconds` | `pacing` | how long calls slept before they were first sent, if they did |
//! | `pacing_refused_total` | `pacing` | calls that failed with [`ClientError::Paced`] |
//! | `pacing_rejected_total` | `pacing` | attempts that the service refused with `RATE_LIMITED` |
//! | `retry_requests_total` | `retry` | requests that the client sent again |
//! | `retry_not_made_total` | `retry`, `reason` | failures that could be retried and were not |
//!
//! | label | value |
//! |---|---|
//! | `limit`, and `deadline` of a layer | the name of the service, as passed to [`MeshLayer::new`](MeshLayer#method.new) |
//! | `pacing`, `retry`, and `deadline` of a client | the name of the client, set by [`named`](ClientBuilder::named) |
//! | `scope` | the scope of the refusing limit: `global`, `service`, `function` or `user` |
//! | `side` | `server` or `client` |
//! | `stage` of a server | `arrival` if the function was not called, otherwise `response` |
//! | `stage` of a client | `departure` if the attempt was not sent, otherwise `response` |
//! | `reason` | `attempts`, `budget`, `deadline` or `pacing` |
//!
//! No label has the name of a user, or another text from a request. Discovery and requests that cannot be read are not
//! counted.
//!
//! An exporter of [`damper-metrics`](https://docs.rs/damper-metrics) reads the levels when it is scraped. Give it the
//! layer: `Exporter::new().layer(layer.clone())`. The metrics of its limits, such as `limit_remaining_tokens` and
//! `limit_keys`, have the label `scope`, and those of a function's limit its name in the label `function`. Given a
//! client, the exporter reads `pacing_next_sleep_seconds` and `retry_budget_retries_left`. [`Scopes`] without a layer
//! are registered under a name.
//!
//! With the feature `tracing`, both log by the crate `tracing`, with the target `damper`:
//!
//! | level | event | fields |
//! |---|---|---|
//! | debug | a refusal by a limit | `limit`, `scope`, `method`, `path`, `function`, `retry_after_ms`, `quota`, and the `key` of a service's or a user's limit |
//! | debug | a call that a deadline ended | `deadline`, `side`, `stage`, `specified_ms`, `elapsed_ms` |
//! | debug | a call that the client did not send | `pacing`, `retry_after_ms` |
//! | debug | an attempt that the service refused | `pacing`, and `sleep_ms` if there is another attempt |
//! | warn | requests served though they arrived expired: the first, the second, the fourth, and so on | `deadline`, `requests` |
//!
//! Events at the level debug are sampled: at most 20 of a kind at once and 5 a second, and one of a key in 10 seconds.
//! The field `suppressed` has the number left out before. Of a function's name and of a key, 64 characters are logged.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tokio` | servers and clients that sleep by tokio's timer |
//! | `metrics` | counts of what limits, pacing, retries and deadlines do, and levels for an exporter |
//! | `tracing` | logs of what limits refuse and deadlines end |
#![cfg_attr(docsrs, feature(doc_cfg))]

/// For damper's own tests and fuzz targets, and not covered by semantic versioning.
#[doc(hidden)]
pub mod internal {
    pub use crate::client::scope_pacer::{Next, ScopePacer, Sent, Turn};
}

mod client;
mod deadline;
mod document;
mod scopes;
mod server;
mod telemetry;

pub use client::{Client, ClientBuilder, ClientError, MeshBackoff, MeshHints};
pub use deadline::{DEADLINE_URN, DeadlineReport, Iso8601, Receipt, ReceivedDeadline, SpecifiedDeadline};
pub use document::{
    Call, Capabilities, Fragment, LimitCapability, MeshDuration, MeshError, Meta, RateLimitUsage, RateLimited,
    ReadError, Request, Response, Scope, TimeUnit, Warnings,
};
pub use scopes::{Caller, Scopes, ScopesAllowed, ScopesBuilder, ScopesDenied, ScopesError};
pub use server::{IncomingCall, MeshLayer, refusal_body};
