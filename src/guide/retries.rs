//! Retries: how many, when, within which budget and deadline.
//!
//! # A retry is load
//!
//! A server that fails under its load gets three times that load from clients that make three attempts. So a [`Retry`]
//! bounds the attempts of each call, and a [`RetryBudget`] the retries of all calls together: here a fifth of the
//! calls, plus 10 a second, and 100 at once after a quiet time.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::retry::GaveUp;
//! use damper::{Backoff, Deadline, Retry, RetryBudget};
//! use std::time::Duration;
//!
//! static BUDGET: RetryBudget = RetryBudget::DEFAULT; // one for each server, shared by all its callers
//!
//! fn fetch() -> Result<String, std::io::Error> {
//!     Err(std::io::ErrorKind::ConnectionRefused.into())
//! }
//!
//! let retry = Retry::new(3)
//!     .backoff(Backoff::exponential(Duration::from_millis(5)))
//!     .budget(&BUDGET)
//!     .deadline(Deadline::after(Duration::from_secs(2)));
//! let error = retry.call(|_attempt| fetch()).unwrap_err();
//! assert_eq!((error.reason(), error.attempts()), (GaveUp::Attempts, 3));
//! println!("{error}"); // gave up after 3 attempts in 9 ms: no attempts left
//! # }
//! ```
//!
//! `call` blocks. [`run`](crate::Retry::run) does the same with futures, awaited directly with the feature `tokio`, or
//! [sleeping by](crate::retry::RepeatedCall::sleeping_by) the timer of any runtime. In firmware,
//! [`call_sleeping_by`](crate::Retry::call_sleeping_by) takes the timer's delay.
//!
//! # Which budget
//!
//! | | [`RetryBudget`] | [`RetryBucket`](crate::retry::RetryBucket) | [`RetryThrottle`](crate::retry::RetryThrottle) |
//! |---|---|---|---|
//! | before an incident | deposits of recent calls | only the reserve | full |
//! | in an outage | a part of the calls, then the floor | a part of the calls, and the floor | none, until successes outweigh failures |
//! | after it | as before | as before | only after enough successes |
//! | over any time `T` | reserve + floor · T + ratio · calls in T and one ttl before | without "one ttl before" | no bound by calls |
//!
//! These bounds leave out free retries: a call that no server has processed has up to two.
//!
//! Use the first by default. The second is for a bound that must also hold for short intervals, and the third for the
//! same rule as gRPC clients in other languages. [`RetryQuota`](crate::retry::RetryQuota) has the rule of AWS's SDKs: a retry takes
//! tokens by the kind of failure, and gets them back if it succeeds.
//!
//! # In which order
//!
//! ```text
//! call ─▶ deadline ─▶ breaker ─▶ retry (budget) ─▶ pacing ─▶ hedge ─▶ throttle ─▶ client limit ─▶ bulkhead ─▶ attempt timeout ─▶ transport
//! ```
//!
//! - **The deadline is outermost**, because it is the caller's: attempts and waits share the remaining time.
//! - **The breaker is outside the retry.** A call that used up its attempts is one failure, and an open breaker ends a
//!   call without a single backoff. Inside the retry it would count every attempt, and trip on a call or two.
//! - **Throttle and breaker together.** The breaker judges a call by its last attempt, and ignores one that an inner
//!   throttle or limit refused. So with a throttle inside the retries the breaker rarely opens in an outage, because
//!   the throttle holds back most calls.
//! - **The hedge is inside the retry**, so that it measures attempts without backoffs.
//! - **The limits are inside**, so that they count what the server receives: every attempt. The throttle counts what
//!   the server rejects, the client limit has your share of the server's rate, the bulkhead the calls that may be in
//!   flight.
//! - **damper's own refusals are not retried**, unless a `when` of your own says so: an open circuit, a limit, a deadline.
//!   [`EveryErr::judge`](crate::retry::EveryErr::judge) finds them in an error's chain of sources, and breakers ignore
//!   them.
//! - **Too short a deadline is not the server's fault.** A 504, or a call that hangs until its deadline, counts against the
//!   server only if the call had as much time as most of the host's successes took before its failures began. Until ten
//!   successes are known, the longest of them counts, and before the first one 0.9 s.
//!   `http::CircuitBreakerLayer::min_budget` sets another time.
//!
//! | place | for HTTP and gRPC | for any other request |
//! |---|---|---|
//! | deadline | `http::ClientDeadlineLayer::new`, or a [`Deadline`](crate::Deadline) in the request's extensions | [`Retry::deadline`](crate::Retry::deadline) |
//! | breaker | `http::CircuitBreakerLayer`, for gRPC with the completion `tonic::AtTrailers` | `tower::GateLayer::new` |
//! | retry (budget) | `http::RetryLayer`, for gRPC with the protocol `tonic::GrpcRetries` | [`Retry::run`](crate::Retry::run) |
//! | pacing, by the server's stated limit | `http::PacingLayer` with `without_retries`, for gRPC in a stack | `tower::PacingLayer` with `without_retries` |
//! | hedge | `http::HedgeLayer`, with the same protocol | [`Hedge::run`](crate::retry::Hedge::run) |
//! | throttle | `http::ThrottleLayer`, for gRPC with the completion `tonic::AtTrailers::rejections` | `tower::GateLayer::new` |
//! | client limit | `tower::GateLayer::limit`. Its refusal is an error; the 429 of `http::RateLimitLayer` looks like the server's and would be retried | `tower::GateLayer::limit` |
//! | bulkhead | `tower::GateLayer::limit`, which holds a permit until the head of the response | `tower::GateLayer::limit` |
//! | attempt timeout | tower's `TimeoutLayer`. Its error is retried; that of a `ClientDeadlineLayer` is not, because it ends the call | the same |
//!
//! Each attempt, of retries and of hedges, sends the remaining time of the deadline.
//!
//! ```
//! # #[cfg(all(feature = "tower", feature = "hyper", feature = "tokio"))] {
//! use damper::http::{
//!     CircuitBreakerLayer, ClientDeadlineLayer, HedgeLayer, RetryLayer, Statuses, ThrottleLayer, TimeoutUnit,
//! };
//! use damper::retry::{Hedge, HedgeConfig};
//! use damper::tower::GateLayer;
//! use damper::{BreakerConfig, Bulkhead, CallError, Quota, RateLimiter, Retry, RetryBudget, RetryError};
//! use http::HeaderName;
//! use http_body_util::Empty;
//! use hyper_util::{client::legacy::Client, rt::TokioExecutor};
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tower::{Service, ServiceBuilder, ServiceExt, timeout::TimeoutLayer};
//!
//! static BUDGET: RetryBudget = RetryBudget::DEFAULT; // of retries and hedges
//! static LIMIT: RateLimiter = RateLimiter::new(Quota::per_second(100));
//! const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let hedge = Hedge::new(HedgeConfig::DEFAULT).budget(&BUDGET);
//! let pool = Arc::new(Bulkhead::new(64).queue(256)); // in flight, and waiting for it
//! let mut client = ServiceBuilder::new()
//!     .layer(ClientDeadlineLayer::new(Duration::from_secs(2)).header(TIMEOUT, TimeoutUnit::Milliseconds))
//!     .map_err(CallError::into_boxed)
//!     .layer(CircuitBreakerLayer::per_host(BreakerConfig::default()).classify(Statuses::judge_boxed))
//!     .map_err(RetryError::into_boxed)
//!     .layer(RetryLayer::new(Retry::new(3).budget(&BUDGET)).when(Statuses::failure_boxed))
//!     .layer(HedgeLayer::new(hedge).when(Statuses::failure_boxed))
//!     .map_err(CallError::into_boxed)
//!     .layer(ThrottleLayer::per_host().classify(Statuses::judge_boxed))
//!     .map_err(CallError::into_boxed)
//!     .layer(GateLayer::limit(&LIMIT).waiting(Duration::from_secs(1)))
//!     .map_err(CallError::into_boxed)
//!     .layer(GateLayer::limit(pool).waiting(Duration::from_secs(1)))
//!     .layer(TimeoutLayer::new(Duration::from_millis(500)))
//!     .service(Client::builder(TokioExecutor::new()).build_http());
//!
//! let request = http::Request::get("http://localhost/").body(Empty::<bytes::Bytes>::new())?;
//! let response = client.ready().await?.call(request).await?;
//! println!("{}", response.status());
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! A timeout boxes errors, and boxed errors do not implement `Error`. So the layers around it need `into_boxed`, and
//! the classifiers are those for boxes: `judge_boxed`. Or put `.map_err(BoxedError::from)` around the service once: a
//! [`BoxedError`](crate::BoxedError) is an error, and every layer looks into it. Without such a service they need
//! nothing: the example `reqwest_client`.
//!
//! damper caches neither responses nor failures.
//!
//! # A stack
//!
//! `http::client_stack` has a setter for each of these places, and applies the layers in this order, whichever setter
//! is called first:
//!
//! ```
//! # #[cfg(all(feature = "tower", feature = "hyper", feature = "tokio"))] {
//! use damper::http::client_stack;
//! use damper::retry::{Hedge, HedgeConfig};
//! use damper::{BreakerConfig, Quota, Retry, RetryBudget};
//! use http_body_util::Empty;
//! use hyper_util::{client::legacy::Client, rt::TokioExecutor};
//! use std::time::Duration;
//! use tower::{Service, ServiceExt};
//!
//! static BUDGET: RetryBudget = RetryBudget::DEFAULT; // of retries and hedges
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let mut client = client_stack()
//!     .deadline(Duration::from_secs(2))
//!     .breaker_per_host(BreakerConfig::default())
//!     .limit(Quota::per_second(100))
//!     .retry(Retry::new(3).budget(&BUDGET))
//!     .hedge(Hedge::new(HedgeConfig::DEFAULT).budget(&BUDGET))
//!     .attempt_timeout(Duration::from_millis(500))
//!     .service(Client::builder(TokioExecutor::new()).build_http());
//!
//! let request = http::Request::get("http://localhost/").body(Empty::<bytes::Bytes>::new())?;
//! match client.ready().await?.call(request).await {
//!     Ok(response) => println!("{}", response.status()),
//!     Err(error) => println!("{error:#}"), // call refused by the breaker: circuit open, next probe in 28 s
//! }
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! | you want | use |
//! |---|---|
//! | settings without a plain setter | the layer, with `deadline_layer`, `breaker_layer`, `retry_layer` and so on |
//! | gRPC | `.protocol(tonic::Grpc::new())`, which is the completion of breaker and throttle and the protocol of retries and hedge |
//! | the client in a field of a struct | `.boxed(client)`, of type `http::BoxedClient<B>`, where `B` is the body of requests |
//! | the part that ended a call, and its wait | `part()` and `retry_after()` of `http::StackError`, whose source is the typed refusal or the transport's error; `{error:#}` prints all of it |
//! | the server's failure before the client's own limit refused a retry | `previous_attempt()` of `http::StackError`, `previous_error()` of `RetryError` |
//!
//! Inside a stack the error of every service is a `StackError`, which implements `Error`. So nothing needs `into_boxed`
//! or `judge_boxed`, and a classifier of your own names this type.
//!
//! A stack waits only between attempts, in pacing (before the first attempt too), and in limits that are set to wait. The
//! deadline ends every wait, so set one. Without it a call waits as long as a server's `Retry-After` says: up to five
//! minutes before each retry, and up to an hour in pacing.
//!
//! `http::server_stack` does the same for a server. There a refusal is a response, and the error type remains the
//! handler's:
//!
//! ```text
//! request ─▶ class ─▶ deadline ─▶ limit for each client ─▶ limit for all ─▶ admission ─▶ handler
//! ```
//!
//! # The server's `Retry-After`
//!
//! A classifier adds the server's wait to a [`Failure`](crate::retry::Failure). The retry is never earlier, and is
//! later by up to a tenth of the wait or the backoff's first delay, whichever is longer. So a hundred clients with a
//! wait of 60 s do not return together. A wait of more than [five minutes](crate::Retry::max_hint), or beyond the
//! deadline, ends the call at once.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::Retry;
//! use damper::retry::{EveryErr, Failure};
//! use std::time::Duration;
//!
//! struct Answer {
//!     status: u16,
//!     retry_after: Option<Duration>,
//! }
//!
//! let retry = Retry::new(3).when(|result: &Result<Answer, std::io::Error>| match result {
//!     Ok(Answer { status: 429, retry_after }) => Some(Failure::THROTTLED.retry_after(*retry_after)),
//!     Ok(Answer { status: 502..=504, retry_after }) => Some(Failure::TRANSIENT.retry_after(*retry_after)),
//!     Ok(_) => None,
//!     Err(error) => Some(EveryErr::judge(error)),
//! });
//! let answer = retry.call(|_| Ok(Answer { status: 200, retry_after: None }));
//! assert!(answer.is_ok_and(|answer| answer.status == 200));
//! # }
//! ```
//!
//! # Calls of gRPC
//!
//! gRPC has its own rules. Every call may be repeated, but only if it ended before its response began, with a code that
//! you name. The server can state the next attempt to the millisecond, or decline it. `RetryLayer` and `HedgeLayer`
//! take these rules as their `protocol`:
//!
//! ```no_run
//! # #[cfg(all(feature = "tonic", feature = "tokio"))] {
//! use damper::Retry;
//! use damper::http::{HedgeLayer, RetryLayer};
//! use damper::retry::{Hedge, HedgeConfig, RetryThrottle};
//! use damper::tonic::GrpcRetries;
//! use tonic::Code;
//! use tonic::transport::Channel;
//! use tower::ServiceBuilder;
//!
//! static THROTTLE: RetryThrottle = match RetryThrottle::new(10, 0.1) {
//!     Ok(throttle) => throttle,
//!     Err(_) => panic!("out of range"),
//! };
//!
//! const CODES: GrpcRetries = GrpcRetries::on([Code::Unavailable]);
//!
//! # async fn run() {
//! let channel = ServiceBuilder::new()
//!     .layer(RetryLayer::new(Retry::new(4).budget(&THROTTLE)).protocol(CODES))
//!     .layer(HedgeLayer::new(Hedge::new(HedgeConfig::DEFAULT).budget(&THROTTLE)).protocol(CODES))
//!     .service(Channel::from_static("http://greeter.example.com:50051").connect_lazy());
//! # fn is_client<T: tonic::client::GrpcService<tonic::body::Body>>(_: T) {}
//! # is_client(channel); // GreeterClient::new(channel)
//! # }
//! # }
//! ```
//!
//! Messages are kept while they are sent, up to 64 KiB for each call, so that streams are retried too. For HTTP,
//! `RetryLayer::buffering` does the same. A request that provably reached no server (its connection was refused, or
//! HTTP/2 refused its stream) is retried in both protocols, whatever its method or code. For HTTP, a refused stream is
//! known only with the feature `tonic`. In gRPC the first retry after a refused stream or a `GOAWAY` is transparent:
//! immediate, and outside the attempts and the budget. Any other failure may have reached the server's application. A
//! broken connection, or a proxy's `UNAVAILABLE`, is retried by the policy.
//!
//! # A slow server, and a slow call
//!
//! If one call in a hundred is slow for no reason of its own, a second attempt beside it finishes first: a
//! [`Hedge`](crate::retry::Hedge) makes it once the first takes longer than all but a few calls. Simulated with 1 % of
//! the calls at 1 s and the others at 10 ms, one call in a thousand takes longer than 21 ms, for 1 % more requests
//! (`crates/damper-core/tests/core/retry/hedge.rs`). Only calls that may be made twice can be hedged.
//!
//! For HTTP and gRPC clients there is a layer, `HedgeLayer`. Use it if the tail of the latency matters to your callers
//! and the slow calls are scattered: one server among many that pauses, a lost packet, a cold cache. If a server is
//! slow for all calls, a second request does not help. Then the bound on extra requests (2 %, plus 10) holds, and a
//! deadline or a breaker is the remedy.
//!
//! | | |
//! |---|---|
//! | one hedge | for each kind of call, because fast reads would hide slow searches in one histogram |
//! | its place | inside the retry and outside the limit: it measures attempts, and its requests count in the limit |
//! | its budget | that of the retry around it. Without one, it counts its calls itself: gRPC's throttle is `.budget(RetryThrottle::new(10, 0.1)?).counting_calls()` |
//! | a pushback | as gRPC's proposal A6 says: the next attempt starts at the time that the server sets |
//! | in an incident | [`set_config`](crate::retry::Hedge::set_config) with `max_attempts(1)` ends all hedges |
//! | failures | leave them to the retry around it, by [`repeat_failures(false)`](crate::retry::HedgeConfigBuilder::repeat_failures): a client's stack does so by itself. Otherwise they use up the extra requests, and where 10 % of the calls fail, only 23 % of the slow ones are hedged |
//! | many slow calls | where more than 1.5 % are slow, the default hedges none: set a lower [`percentile`](crate::retry::HedgeConfigBuilder::percentile) and a larger `max_extra`; [`status`](crate::retry::Hedge::status) shows what was due and not made |
//! | requests | in HTTP, idempotent ones with a repeatable body; all others pass. In gRPC, all: `.protocol(GrpcRetries::on([Code::Unavailable]))`, where each attempt sends the rest of `grpc-timeout`, and a code that may not be repeated ends the call |
//! | the server's cost | the loser's work until it notices the closed connection or the reset stream |
//!
//! ```
//! # #[cfg(all(feature = "tower", feature = "tokio"))] {
//! use damper::http::{HedgeLayer, RetryLayer};
//! use damper::retry::{Hedge, HedgeConfig};
//! use damper::{Retry, RetryBudget};
//!
//! static BUDGET: RetryBudget = RetryBudget::DEFAULT; // of retries and hedges
//!
//! let client = tower::ServiceBuilder::new()
//!     .layer(RetryLayer::new(Retry::new(3).budget(&BUDGET)))
//!     .layer(HedgeLayer::new(Hedge::new(HedgeConfig::DEFAULT).budget(&BUDGET)));
//! # let _ = client;
//! # }
//! ```
//!
//! # Many servers
//!
//! A common budget for many servers lets a failing one use up the retries of the others. A `RetryLayer` can have a
//! budget per host, in bounded memory: `RetryLayer::new(Retry::new(3)).budget_per_host(RetryBudgetConfig::DEFAULT)`.
//! With a hedge inside it, give both layers the same `http::Hosts`, by `budgets`.
//!
//! # A second server
//!
//! While the circuit is open, another server may serve the call (on sockets: the example `fallback_upstream`):
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::{CallError, CircuitBreaker};
//!
//! # fn from_first() -> Result<&'static str, std::fmt::Error> { Ok("first") }
//! # fn from_second() -> Result<&'static str, std::fmt::Error> { Ok("second") }
//! let first = CircuitBreaker::default();
//! let second = CircuitBreaker::default();
//! first.force_open();
//! let answer = match first.call(from_first) {
//!     Err(CallError::Refused(_)) => second.call(from_second),
//!     answer => answer,
//! };
//! assert_eq!(answer, Ok("second"));
//! # }
//! ```
//!
//! Use the second server only on `Open`. A failed call may have been executed, and must not be repeated elsewhere
//! unless it may be done twice.
//!
//! [`Retry`]: crate::Retry
//! [`RetryBudget`]: crate::RetryBudget
