//! Rate limits for HTTP servers. Circuit breakers, retries, throttles and pacing for HTTP clients.
//!
//! The crate [`damper`](https://docs.rs/damper) has it as `damper::http`, and the primitives of
//! [`damper-core`](https://docs.rs/damper-core) beside it.
//!
//! # A server
//!
//! Beyond the quota, [`RateLimitLayer`] responds `429 Too Many Requests` with `Retry-After`. Here each client has its own quota, behind a
//! proxy whose `X-Forwarded-For` is trusted, and health checks always pass.
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
//! # #[cfg(feature = "axum")] {
//! use axum::{Router, routing::get};
//! use damper::Quota;
//! use damper::http::RateLimitLayer;
//! use damper::wire::TrustedProxies;
//!
//! let clients = RateLimitLayer::per_client(Quota::per_second(50).burst(100))
//!     .behind(TrustedProxies::new(["10.0.0.0/8"])?)
//!     .exempt(|head| head.uri.path() == "/healthz");
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(clients);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A client
//!
//! [`client_stack`] puts the layers of a client into the right order: a breaker around retries, one deadline around both.
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
//! # #[cfg(all(feature = "hyper", feature = "tokio"))] {
//! use damper::http::client_stack;
//! use damper::{BreakerConfig, Retry, RetryBudget};
//! use http_body_util::Empty;
//! use hyper_util::{client::legacy::Client, rt::TokioExecutor};
//! use std::time::Duration;
//! use tower::{Service, ServiceExt};
//!
//! static BUDGET: RetryBudget = RetryBudget::DEFAULT; // a fifth of the calls, and 10 a second
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let mut client = client_stack()
//!     .deadline(Duration::from_secs(2))
//!     .breaker_per_host(BreakerConfig::default())
//!     .retry(Retry::new(3).budget(&BUDGET))
//!     .service(Client::builder(TokioExecutor::new()).build_http());
//!
//! let request = http::Request::get("http://localhost/").body(Empty::<bytes::Bytes>::new())?;
//! match client.ready().await?.call(request).await {
//!     Ok(response) => println!("{}", response.status()),
//!     Err(error) => println!("{}: {error}", error.part()), // breaker: circuit open, next probe in 28 s
//! }
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! # Which layer
//!
//! | in | use | with the feature |
//! |---|---|---|
//! | an axum server | [`RateLimitLayer`], by `Router::layer` | `axum` |
//! | a hyper server | `layer.for_peer(address).layer(service)` for each connection | `hyper` |
//! | any service of tower, hyper-util's `TowerToHyperService` included | every layer of this crate | |
//! | a client: hyper-util's, reqwest's in an [`HttpClient`], any that is a service of `http::Request` | [`CircuitBreakerLayer`] around [`RetryLayer`] around [`HedgeLayer`] around [`ThrottleLayer`] | `tokio` for the timer; `hyper` for services of hyper |
//! | a client of a rate-limited server, which sleeps before a call | [`PacingLayer`] | the same |
//! | all of these in the right order, around a client or before a server | [`client_stack`], [`server_stack`] | |
//! | a server that honours its clients' timeouts, and a client that sends them | [`DeadlineLayer`], [`ClientDeadlineLayer`] | `hyper` for services of hyper |
//! | a server that knows how much each request counts, and a client that passes it on | [`CriticalityLayer`], [`ClientCriticalityLayer`] | `hyper` for services of hyper |
//! | a server that may have only so many calls in flight, and a client | [`ConcurrencyLayer`] or [`AdmissionLayer`], [`ClientConcurrencyLayer`] | `tokio` for the timer; `hyper` for services of hyper |
//! | a tonic server | [`RateLimitLayer`] around all services or one | `tonic` of `damper` |
//! | a tonic client | [`client_stack`] with `.protocol(damper::tonic::Grpc::new())`; or [`CircuitBreakerLayer`] with `.completion(damper::tonic::AtTrailers::new())`, around [`RetryLayer`] with `.protocol(damper::tonic::GrpcRetries::new())`, around [`ThrottleLayer`] with `.completion(damper::tonic::AtTrailers::rejections())` | `tonic` of `damper` |
//!
//! A limiter protects the receiver of load, so it belongs on the server's side. A breaker protects the caller from a failing server, so it
//! belongs on the client's side, outside of retries. A throttle spares an overloaded server the calls that it would reject, so it belongs
//! on the client's side too, inside of retries.
//!
//! | layer | one for all requests | one for each | your own |
//! |---|---|---|---|
//! | [`RateLimitLayer`] | [`global`](RateLimitLayer::global) | client address: [`per_client`](RateLimitLayer::per_client); header value: [`by_header`](RateLimitLayer::by_header); key: [`by`](RateLimitLayer::by); path in a quota tree: [`tree`](RateLimitLayer::tree) | [`new`](RateLimitLayer::new), with any [`Limit`]; behind the same keys, any [`KeyedLimit`] |
//! | [`ConcurrencyLayer`] | [`bulkhead`](ConcurrencyLayer::bulkhead), [`adaptive`](ConcurrencyLayer::adaptive) | key: [`bulkhead_by`](ConcurrencyLayer::bulkhead_by), [`adaptive_by`](ConcurrencyLayer::adaptive_by) | [`new`](ConcurrencyLayer::new), with any [gate](damper_core::gate) |
//! | [`ClientConcurrencyLayer`] | [`bulkhead`](ClientConcurrencyLayer::bulkhead), [`adaptive`](ClientConcurrencyLayer::adaptive) | host: [`bulkhead_per_host`](ClientConcurrencyLayer::bulkhead_per_host), [`adaptive_per_host`](ClientConcurrencyLayer::adaptive_per_host) | [`new`](ClientConcurrencyLayer::new), with the same |
//! | [`CircuitBreakerLayer`] | [`single`](CircuitBreakerLayer::single) | host: [`per_host`](CircuitBreakerLayer::per_host) | [`new`](CircuitBreakerLayer::new), with any [gate](damper_core::gate) |
//! | [`PacingLayer`] | `single` | host: `per_host` | [`sleeping_by`](PacingLayer::sleeping_by), with any [`PacerSource`](damper_core::gate::PacerSource) that [reads](damper_core::Reads) pacers from a [`Head`] |
//! | [`ThrottleLayer`] | [`single`](ThrottleLayer::single) | host: [`per_host`](ThrottleLayer::per_host) | [`new`](ThrottleLayer::new), with any [gate](damper_core::gate) |
//!
//! [`RetryLayer`] takes its retries from one [budget](damper_core::retry::Budget) for all requests, from one for
//! [each host](RetryLayer::budget_per_host), or from [`Budgets`] of your own.
//!
//! A [`DeadlineLayer`] gives each request of a server one deadline, and a [`ClientDeadlineLayer`] passes the time left on to the next
//! server. A [`CriticalityLayer`] and a [`ClientCriticalityLayer`] do the same with the class and the tenant of a request.
//!
//! A [`ConcurrencyLayer`] refuses requests that a server cannot serve now. A rate limit bounds how many requests may come in a second, a
//! concurrency limit how many may be in flight. The layer holds a slot until the response has ended. An [`AdmissionLayer`] also decides by
//! class, tenant and deadline.
//!
//! A [`Completion`] decides when a call has ended and with which verdict: [`AtHead`] by default, [`AtBodyEnd`], or `AtTrailers` for gRPC.
//! A gate of your own learns of it in a [`ClientGate`].
//!
//! Layers only translate between HTTP and the primitives: [limiters](damper_core::RateLimiter), [breakers](damper_core::CircuitBreaker),
//! [throttles](damper_core::throttle::AdaptiveThrottle) and [pacers](damper_core::throttle::Pacer). To inspect or change a primitive,
//! create it yourself and pass it to `new`.
//!
//! For tower services whose requests are not `http::Request`, such as `reqwest::Client` itself, `damper::tower` has a layer for every gate, and
//! one for pacing.
//!
//! Closures get the [`Head`] of a request, so they do not depend on the type of its body.
//!
//! # A live page
//!
//! [`damper-live`](https://docs.rs/damper-live), which is `damper::live`, has a page for browsers that shows limits, breakers and latencies, and
//! lets the holder of a token change a quota or trip a breaker. It is mounted beside the routes of axum, or beside any service of hyper or tower.
//!
//! # Metrics and logs
//!
//! With the feature `metrics`, layers count requests by the crate `metrics`, as they decide on them. A layer looks up the recorder when it
//! first needs it, so install the recorder before the first request.
//!
//! | layer | counts, as `damper_…` | label of its name |
//! |---|---|---|
//! | [`RateLimitLayer`] | `limit_allowed_total`, `limit_refused_total`, `limit_errors_total` | `limit` |
//! | [`CircuitBreakerLayer`] | `breaker_allowed_total`, `breaker_refused_total`, `breaker_probes_total`, `breaker_transitions_total` | `breaker` |
//! | [`ConcurrencyLayer`], [`ClientConcurrencyLayer`], [`AdmissionLayer`] | `concurrency_allowed_total`, `concurrency_refused_total` | `limit` |
//! | [`ThrottleLayer`] | `throttle_allowed_total`, `throttle_refused_total` | `throttle` |
//! | [`PacingLayer`] | `pacing_calls_total`, `pacing_refused_total`, `pacing_rejected_total`, `pacing_sleep_seconds` | `pacing` |
//! | [`DeadlineLayer`], [`ClientDeadlineLayer`] | `deadline_exceeded_total`, `deadline_skewed_total` | `deadline` |
//!
//! Levels, such as keys, states and calls in flight, are read by an exporter of
//! [`damper-metrics`](https://docs.rs/damper-metrics), when it is scraped. Give it the layer: `Exporter::new().layer(layer.clone())`. Its
//! [reference](https://github.com/damper-rs/damper/blob/main/crates/damper-metrics/reference.md) has all metrics with their labels, kinds
//! and units. A table whose overflows grow is too small. No client or server can choose a label.
//!
//! With the feature `tracing`, layers log by the crate `tracing`, with the target `damper`:
//!
//! | level | event | fields |
//! |---|---|---|
//! | debug | a refusal by a rate limit | `limit`, `method`, `path`, `retry_after_ms`, `quota`, `tier`, `prefix`, `part`, or `level`, `dimension` and `plan` if there are such, and up to 64 bytes of the `key` if it can be displayed |
//! | debug | a refusal by a [candidate](RateLimitLayer::shadow) beside a rate limit | `shadow`, `in_force`, and those of a refusal by a rate limit |
//! | debug | a refusal by a breaker | `breaker`, `retry_after_ms` |
//! | debug | a refusal by a concurrency limit | `limit`, `side`, `method`, `path`, `cause`, `retry_after_ms` |
//! | debug | a refusal by a throttle | `throttle`, `share_refused`, `retry_after_ms` |
//! | debug | a paced call that was not made, or an attempt that the server's limit rejected | `pacing`, `retry_after_ms` or `sleep_ms` |
//! | debug | a call that a deadline ended | `deadline`, `side`, `stage`, `specified_ms`, `elapsed_ms` |
//! | warn, then debug | a gRPC response that a breaker or a throttle judges by HTTP, because its layer has no `AtTrailers`: the first of the process, then each | |
//! | warn | requests served though they arrived expired: the first, the second, the fourth, and so on | `requests` |
//! | info | a state change of a breaker | `breaker`, `host`, `from`, `to`, `why` |
//! | error | a request that a limit cannot decide on | `limit`, `error` |
//!
//! Refusals, rejections, calls ended by deadlines and errors of a limit are sampled, so that a flood of requests is no flood of lines: each
//! layer logs at most 20 of a kind at once and 5 a second, and of one key of a rate limit one in 10 seconds. The field `suppressed` has the
//! number left out before. Metrics count all of them, and callbacks get all of them.
//!
//! Requests without a peer address all fail in the same way, so each layer logs only the first, the second, the fourth, the eighth, and so
//! on, with their number.
//!
//! The breakers of [`PerHost`] and [`Single`] are counted and logged. The calls of a [`CircuitBreaker`] that you pass to
//! [`CircuitBreakerLayer::new`] are, once the layer is [named](CircuitBreakerLayer::named); changes of its state go to its own listener.
//!
//! [`CircuitBreaker`]: damper_core::CircuitBreaker
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(clippy::std_instead_of_core)]

extern crate alloc;
extern crate std;

mod body_lines;
mod circuit_breaker;
mod client_gate;
mod completion;
mod concurrency;
mod criticality;
mod deadline;
mod head;
mod hedge;
mod hosts;
#[doc(hidden)]
pub mod internal;
mod limit;
mod pacing;
mod peer;
mod rate_limit;
mod retry;
mod rewrite;
mod stack;
mod telemetry;
mod throttle;
mod timed_body;
pub mod wire;

pub use body_lines::BodyLines;
pub use circuit_breaker::{CircuitBreak, CircuitBreakerLayer, PerHost, PerHostBuilder, Single, SingleBuilder};
pub use client_gate::ClientGate;
pub use completion::{
    AtBodyEnd, AtHead, BodyEnd, ClassifyResponse, Completion, EveryStatus, HeldPermit, MinBudget, ObservedBody,
    ResponseHead, Statuses,
};
pub use concurrency::{
    AdaptiveLimitPerHost, AdmissionGate, AdmissionLayer, BulkheadPerHost, ClientConcurrencyLayer,
    ClientConcurrencyService, ConcurrencyLayer, ConcurrencyService, RequestClasses, ShadowedGate,
};
pub use criticality::{CallClass, ClassHeaders, ClientCriticalityLayer, CriticalityLayer};
pub use deadline::{ClientDeadlineLayer, DeadlineLayer, RequestDeadline, TimeoutUnit};
pub use head::{Head, TargetHost};
pub use hedge::{HedgeLayer, Hedging};
pub use hosts::Hosts;
pub use limit::{
    ByHeader, ByKey, Detail, KeyedLimit, Limit, LimitAnswer, LimitDecision, Limited, NoWait, PerClient,
    RateLimitCapacityError, Refusal, Settle, Standing, TreeLimit, TreePath,
};
pub use pacing::{PacingLayer, PacingService};
pub use peer::PeerAddress;
pub use rate_limit::{Body, Headers, Mark, MarkingLayer, Marks, RateLimit, RateLimitLayer, Refused, refusal_response};
pub use retry::{
    Budgets, BufferedBody, GiveUp, HttpRetries, Idempotent, ReplayableBody, RetryLayer, RetryProtocol, Retrying,
};
pub use stack::{
    AttemptTimedOut, AttemptTimeoutLayer, BoxedBody, BoxedClient, ClientStack, Explain, ExplainedPart, Explanation,
    HttpClient, HttpProtocol, PartOutcome, RequestNotMade, ServerStack, StackError, StackPart, StackProtocol,
    client_stack, server_stack,
};
pub use throttle::{ThrottleLayer, ThrottlePerHost, ThrottleService};
pub use timed_body::{ReaderStalled, STALL_LIMIT};
