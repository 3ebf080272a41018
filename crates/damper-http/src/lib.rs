//! Rate limits for HTTP servers; circuit breakers, retries and throttles for HTTP clients.
//!
//! | in | use | with the feature |
//! |---|---|---|
//! | an axum server | [`RateLimitLayer`], by `Router::layer` | `axum` |
//! | a hyper server | `layer.for_peer(address).layer(service)` for each connection | `hyper` |
//! | any service of tower, hyper-util's `TowerToHyperService` included | both layers | `tower` |
//! | a client: hyper-util's, reqwest's in an [`HttpClient`], any that is a service of `http::Request` | [`CircuitBreakerLayer`] around [`RetryLayer`] around [`HedgeLayer`] around [`ThrottleLayer`] | `tower`, or `hyper`; `tokio` for the timer |
//! | all of these in the right order, around a client or before a server | [`client_stack`], [`server_stack`] | `tower` |
//! | a server that honours its clients' timeouts, and a client that sends them | [`DeadlineLayer`], [`ClientDeadlineLayer`] | `tower`, or `hyper` |
//! | a server that may have only so many calls in flight, and a client | [`ConcurrencyLayer`] or [`AdmissionLayer`], [`ClientConcurrencyLayer`] | `tower`, or `hyper`; `tokio` for the timer |
//! | a tonic server | [`RateLimitLayer`] around all services or one | `tonic` |
//! | a tonic client | [`client_stack`] with `.protocol(damper::tonic::Grpc::new())`; or [`CircuitBreakerLayer`] with `.completion(damper::tonic::AtTrailers::new())`, around [`RetryLayer`] with `.protocol(damper::tonic::GrpcRetries::new())`, around [`ThrottleLayer`] with `.completion(damper::tonic::AtTrailers::rejections())` | `tonic` |
//!
//! A limiter protects the receiver of load, so it belongs to the server's side. A breaker protects the caller from a
//! failing callee, so it belongs to the client's side, and outside of retries. A throttle spares an overloaded callee the calls
//! that it would reject, so it belongs to the client's side too, inside of retries.
//!
//! | layer | one for all requests | one for each | your own |
//! |---|---|---|---|
//! | [`RateLimitLayer`] | [`global`](RateLimitLayer::global) | client address: [`per_client`](RateLimitLayer::per_client); header value: [`by_header`](RateLimitLayer::by_header); key: [`by`](RateLimitLayer::by) | [`new`](RateLimitLayer::new), with any [`Limit`]; behind the same keys, any [`KeyedLimit`] |
//! | [`ConcurrencyLayer`] | [`bulkhead`](ConcurrencyLayer::bulkhead), [`adaptive`](ConcurrencyLayer::adaptive) | key: [`bulkhead_by`](ConcurrencyLayer::bulkhead_by), [`adaptive_by`](ConcurrencyLayer::adaptive_by) | [`new`](ConcurrencyLayer::new), with any [`Bulkheads`] or [`ConcurrencyLimit`] |
//! | [`ClientConcurrencyLayer`] | [`bulkhead`](ClientConcurrencyLayer::bulkhead), [`adaptive`](ClientConcurrencyLayer::adaptive) | host: [`bulkhead_per_host`](ClientConcurrencyLayer::bulkhead_per_host), [`adaptive_per_host`](ClientConcurrencyLayer::adaptive_per_host) | [`new`](ClientConcurrencyLayer::new), with the same |
//! | [`CircuitBreakerLayer`] | [`single`](CircuitBreakerLayer::single) | host: [`per_host`](CircuitBreakerLayer::per_host) | [`new`](CircuitBreakerLayer::new), with any [`Breakers`] |
//! | [`ThrottleLayer`] | [`single`](ThrottleLayer::single) | host: [`per_host`](ThrottleLayer::per_host) | [`new`](ThrottleLayer::new), with any [`Throttles`] |
//!
//! [`RetryLayer`] takes its retries from one [budget](damper_core::retry::Budget) for all requests, from one for
//! [each host](RetryLayer::budget_per_host), or from [`Budgets`] of your own.
//!
//! A [`DeadlineLayer`] gives each request of a server one deadline, and a [`ClientDeadlineLayer`] passes what is left of
//! it on to the next server.
//!
//! A [`ConcurrencyLayer`] refuses what a server cannot serve now: a rate limit says how many requests may come in a second, a
//! concurrency limit how many may be under way. It holds a slot until the response has ended. An [`AdmissionLayer`] decides by class, tenant
//! and deadline too.
//!
//! When a call has ended, and whether it went well, is a part of its own, a [`Completion`]: [`AtHead`] by default,
//! [`AtBodyEnd`], `AtTrailers` for gRPC. A layer of yours that holds something until a call has ended uses the same part: see [`CallObserver`] and [`ObservedCall`].
//!
//! Layers only translate between HTTP and the primitives: [limiters](damper_core::RateLimiter),
//! [breakers](damper_core::CircuitBreaker) and [throttles](damper_core::throttle::AdaptiveThrottle). With `new` you keep the primitive, to inspect it and to change it.
//!
//! For tower services of requests that are no `http::Request`, such as `reqwest::Client` itself, `damper::tower` has a breaker
//! and a limit.
//!
//! Closures get the [`Head`] of a request, so they do not depend on the type of its body.
//!
//! # Metrics and logs
//!
//! With the feature `metrics`, layers record metrics by the facade of this name. Labels are the names of layers, states
//! and prefixes; no client and no server chooses a label. A layer looks up the recorder when it first needs it, so
//! install it before the first request.
//!
//! | metric | kind | labels | of |
//! |---|---|---|---|
//! | `damper_allowed_total` | counter | `limit` | requests that a limit let pass |
//! | `damper_refused_total` | counter | `limit` | requests that were over it |
//! | `damper_errors_total` | counter | `limit`, `cause` | requests that it could not decide on: `missing_peer`, `other` |
//! | `damper_keys` | gauge | `limit`, `prefix` | keys that have a slot in the table of a limit per key |
//! | `damper_keys_capacity` | gauge | `limit`, `prefix` | keys that the table was built for |
//! | `damper_evictions_total` | counter | `limit`, `prefix` | keys that lost their slot while they owed something |
//! | `damper_overflows_total` | counter | `limit`, `prefix` | requests decided by a bucket that keys without a slot share |
//! | `damper_refused_newcomers_total` | counter | `limit`, `prefix` | requests refused to keys without a slot |
//! | `damper_breaker_allowed_total` | counter | `breaker` | calls that breakers let pass |
//! | `damper_breaker_refused_total` | counter | `breaker` | calls that they refused |
//! | `damper_breaker_probes_total` | counter | `breaker` | calls that passed as probes |
//! | `damper_breaker_evictions_total` | counter | `breaker` | hosts whose breakers made room for others |
//! | `damper_breaker_kept_evictions_total` | counter | `breaker` | those among them whose breakers were open, or worth keeping otherwise |
//! | `damper_concurrency_allowed_total` | counter | `limit`, `side` | calls that a concurrency limit let pass |
//! | `damper_concurrency_refused_total` | counter | `limit`, `side`, `cause` | calls that it refused: `no_slot`, `no_queue`, `queue_full`, `timed_out`, `displaced`, `store_full`, `late`, `other` |
//! | `damper_concurrency_limit` | gauge | `limit`, `side` | calls that may be in flight |
//! | `damper_concurrency_in_flight` | gauge | `limit`, `side` | calls in flight |
//! | `damper_concurrency_queued` | gauge | `limit`, `side` | calls that wait for a slot |
//! | `damper_throttle_allowed_total` | counter | `throttle` | calls that throttles let pass |
//! | `damper_throttle_refused_total` | counter | `throttle` | calls that they did not send |
//! | `damper_deadline_exceeded_total` | counter | `deadline`, `side`, `stage` | calls that ended by their deadline: at a `server` on `arrival`, at a `client` before `departure`, at both before the `response` and within its `body` |
//! | `damper_deadline_skewed_total` | counter | `deadline` | requests that were served though their deadline had passed on arrival, because clocks differ |
//! | `damper_breaker_state` | gauge | `breaker`, `state` | breakers in this state: `open`, `half_open`, `forced_open`, … |
//!
//! All are recorded as they happen, except those of limits per key and the gauges of concurrency limits. For these, call
#![cfg_attr(feature = "metrics", doc = "[`RateLimitLayer::record_metrics`] and [`ConcurrencyLayer::record_metrics`]")]
#![cfg_attr(not(feature = "metrics"), doc = "`RateLimitLayer::record_metrics` and `ConcurrencyLayer::record_metrics`")]
//! at the tick of your exporter. The label `prefix` (`ipv6/48`) is there for limits of wider
//! [prefixes](RateLimitLayer::prefix) only. A table whose overflows grow is too small.
//!
//! With the feature `tracing`, layers log by the facade of this name, with the target `damper`:
//!
//! | level | event | fields |
//! |---|---|---|
//! | debug | a refusal | the method, the path, and up to 64 bytes of the key if it can be displayed |
//! | debug | a gRPC response that a breaker judges by HTTP, because its layer has no `AtTrailers` | |
//! | debug | a call that a concurrency limit refused | the name, the side, the method and the path |
//! | debug | a call that a deadline ended | the name, the side and the stage, as in the metrics |
//! | warn | requests served though they arrived expired: the first, the second, the fourth, and so on | their number |
//! | info | a state change of a breaker | the host and the cause |
//! | error | a request that a limit cannot decide on | the error |
//!
//! Requests without a peer address all fail in the same way, so each layer logs only the first, the second, the fourth,
//! the eighth, and so on, with their number.
//!
//! Of breakers, those are counted and logged that [`PerHost`] and [`Single`] hold. A [`CircuitBreaker`] that you pass to
//! [`CircuitBreakerLayer::new`] has a listener of its own.
//!
//! [`CircuitBreaker`]: damper_core::CircuitBreaker

#![no_std]
#![deny(clippy::std_instead_of_core)]
// Without either trait of services no code calls the layers.
#![cfg_attr(not(any(feature = "hyper", feature = "tower")), allow(dead_code, unused_imports))]

extern crate alloc;
extern crate std;

mod call_once;
mod circuit_breaker;
mod completion;
mod concurrency;
mod deadline;
mod head;
mod hedge;
#[cfg(feature = "tonic")]
#[doc(hidden)]
pub mod internal;
mod limit;
mod peer;
mod rate_limit;
mod retry;
#[cfg(feature = "tower")]
mod stack;
mod telemetry;
mod throttle;
pub mod wire;

pub use circuit_breaker::{
    Breakers, CircuitBreak, CircuitBreakFuture, CircuitBreakerLayer, HostListener, PerHost, PerHostBuilder, Single,
    SingleBuilder,
};
pub use completion::{
    AtBodyEnd, AtHead, BodyEnd, BodyErrors, CallGuard, CallObserver, Classify, ClassifyEnd, Completion,
    DeadlineObserver, ObservedBody, ObservedCall, ResponseHead, ServerErrors,
};
pub use concurrency::{
    Acquisition, AdmissionGate, AdmissionLayer, Bulkheads, ClassifyLoad, ClientConcurrencyLayer, ConcurrencyFuture,
    ConcurrencyLayer, ConcurrencyLimit, ConcurrencyPermit, ConcurrencyRefusal, ConcurrencyService, ConcurrencyStatus,
    LoadSigns, PermitObserver, PermitOrWait, Waiting,
};
pub use deadline::{ClientDeadlineLayer, DeadlineBody, DeadlineFuture, DeadlineLayer, DeadlineService, TimeoutUnit};
pub use head::Head;
pub use hedge::{HedgeLayer, HedgedBody, Hedging, HedgingFuture};
pub use limit::{
    Answer, ByHeader, ByKey, Decision, Detail, KeyedLimit, KeyedStatus, Limit, LimitError, Limited, PerClient,
    RateLimitCapacityError, Refusal, Standing,
};
#[cfg(feature = "tokio")]
pub use limit::{Wait, WaitFuture};
pub use peer::{MissingPeer, PeerAddress};
pub use rate_limit::{Body, Headers, RateLimit, RateLimitFuture, RateLimitLayer, Refused};
pub use retry::{
    Budgets, Buffered, BufferedBody, ClassifyFailure, Cloned, GiveUp, HostBudgets, HttpRetries, Idempotent,
    ReplayableBody, RetryLayer, RetryProtocol, Retrying, RetryingFuture, TransientFailures,
};
#[cfg(feature = "tower")]
pub use stack::{
    AttemptTimedOut, AttemptTimeout, AttemptTimeoutFuture, AttemptTimeoutLayer, BoxedBody, BoxedClient,
    BoxedClientFuture, BreakerPart, ClientPart, ClientStack, HedgePart, HttpClient, HttpClientFuture, HttpProtocol,
    LayerPart, NoPart, OfPart, OfTransport, PartError, PeerLimit, RequestNotMade, RetryPart, ServerStack, StackError,
    StackErrorFuture, StackErrorService, StackPart, StackProtocol, StackRetries, ThrottlePart, ToStackError,
    client_stack, server_stack,
};
pub use throttle::{Rejections, ThrottleFuture, ThrottleLayer, ThrottleObserver, ThrottleService, Throttles};
