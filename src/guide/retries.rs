//! Retries: how many, when, within which budget and deadline.
//!
//! # A retry is load
//!
//! A server that fails under its load gets three times that load from clients that try three times. So a [`Retry`] has
//! a number of attempts for each call, and a [`RetryBudget`] for all calls together: here retries for a fifth of the
//! calls, 10 a second beside them, and 100 at once after a quiet time.
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```text")]
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
//! ```
//!
//! `call` blocks; [`run`](crate::Retry::run) does the same with futures, awaited as they are with the feature `tokio`, or
//! [sleeping by](crate::retry::RetryRun::sleeping_by) the timer of any runtime. In firmware,
//! [`call_sleeping_by`](crate::Retry::call_sleeping_by) takes the timer's delay.
//!
//! # Which budget
//!
//! | | [`RetryBudget`] | [`RetryBucket`](crate::retry::RetryBucket) | [`RetryThrottle`](crate::retry::RetryThrottle) |
//! |---|---|---|---|
//! | before an incident | calls of the last seconds have saved up for it | only the reserve | full |
//! | in an outage | a part of the calls, then the floor | a part of the calls, and the floor | none, until successes outweigh failures |
//! | after it | as before | as before | successes have to come first |
//! | over any time `T` | reserve + floor · T + ratio · calls in T and one ttl before | without "one ttl before" | no bound by calls |
//!
//! Take the first. The second is for a bound that has to hold for short times too, the third for the same rule as gRPC clients
//! in other languages.
//!
//! # In which order
//!
//! ```text
//! call ─▶ deadline ─▶ breaker ─▶ retry (budget) ─▶ hedge ─▶ throttle ─▶ client limit ─▶ bulkhead ─▶ attempt timeout ─▶ transport
//! ```
//!
//! - **The deadline is outermost**, because it is the caller's: attempts and waits share what is left of it.
//! - **The breaker is outside of the retry.** A call that used up its attempts is one failure, and an open breaker ends a call
//!   without a single backoff. Inside it would count every attempt, and trip on a call or two.
//! - **Throttle and breaker together.** The breaker judges a call by its last attempt, and ignores one that the throttle or a limit inside refused. So
//!   with a throttle inside of retries the breaker rarely opens in an outage: the throttle keeps most calls from the server.
//! - **The hedge is inside of the retry**, so that it measures attempts and no backoff.
//! - **The limits are inside**, so that they see what the server sees: every attempt. The throttle counts what the server
//!   rejects, the client limit has your share of the server's rate, the bulkhead the calls that may be in flight.
//! - **A refusal of your own is never tried again**: an open circuit, a limit, a deadline. They are found in the chain of an
//!   error's sources, by [`AnyError::judge`](crate::retry::AnyError::judge), and breakers ignore them.
//! - **A deadline that was too short is not the server's fault.** `http::CircuitBreakerLayer::min_budget` sets the time that a
//!   call has to be given before a 504, or a call that hangs until the deadline, counts against the server.
//!
//! | place | for HTTP and gRPC | for any other request |
//! |---|---|---|
//! | deadline | `http::ClientDeadlineLayer::new`, or a [`Deadline`](crate::Deadline) in the request's extensions | [`Retry::deadline`](crate::Retry::deadline) |
//! | breaker | `http::CircuitBreakerLayer`, for gRPC with the completion `tonic::AtTrailers` | `tower::BreakerLayer` |
//! | retry (budget) | `http::RetryLayer`, for gRPC with the protocol `tonic::GrpcRetries` | [`Retry::run`](crate::Retry::run) |
//! | hedge | `http::HedgeLayer`, with the same protocol | [`Hedge::run`](crate::retry::Hedge::run) |
//! | throttle | `http::ThrottleLayer`, for gRPC with the completion `tonic::AtTrailers::rejections` | `tower::ThrottleLayer` |
//! | client limit | `tower::LimitLayer`. Its refusal is an error; the 429 of `http::RateLimitLayer` looks like the server's and would be tried again | `tower::LimitLayer` |
//! | bulkhead | `tower::BulkheadLayer`, which holds a permit until the head of the response | `tower::BulkheadLayer` |
//! | attempt timeout | tower's `TimeoutLayer`. Its error is tried again; that of a `ClientDeadlineLayer` is not, because it ends the call | the same |
//!
//! Each attempt, of retries and of hedges, tells the server what is left of the deadline then.
//!
#![cfg_attr(all(feature = "tower", feature = "hyper", feature = "tokio"), doc = "```")]
#![cfg_attr(not(all(feature = "tower", feature = "hyper", feature = "tokio")), doc = "```text")]
//! use damper::http::{
//!     CircuitBreakerLayer, ClientDeadlineLayer, HedgeLayer, Rejections, RetryLayer, ServerErrors, ThrottleLayer, TimeoutUnit,
//!     TransientFailures,
//! };
//! use damper::retry::{Hedge, HedgeConfig};
//! use damper::tower::{BulkheadLayer, LimitLayer};
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
//!     .layer(CircuitBreakerLayer::per_host(BreakerConfig::default()).classify(ServerErrors::judge_boxed))
//!     .map_err(RetryError::into_boxed)
//!     .layer(RetryLayer::new(Retry::new(3).budget(&BUDGET)).when(TransientFailures::judge_boxed))
//!     .layer(HedgeLayer::new(hedge).when(TransientFailures::judge_boxed))
//!     .map_err(CallError::into_boxed)
//!     .layer(ThrottleLayer::per_host().classify(Rejections::judge_boxed))
//!     .map_err(CallError::into_boxed)
//!     .layer(LimitLayer::new(&LIMIT).waiting(Duration::from_secs(1)))
//!     .map_err(CallError::into_boxed)
//!     .layer(BulkheadLayer::new(pool).waiting(Duration::from_secs(1)))
//!     .layer(TimeoutLayer::new(Duration::from_millis(500)))
//!     .service(Client::builder(TokioExecutor::new()).build_http());
//!
//! let request = http::Request::get("http://localhost/").body(Empty::<bytes::Bytes>::new())?;
//! let response = client.ready().await?.call(request).await?;
//! println!("{}", response.status());
//! # Ok(())
//! # }
//! ```
//!
//! A timeout puts errors into boxes, which are no errors themselves. So the layers around it need `into_boxed`, and the classifiers
//! are those for boxes: `judge_boxed`. Without such a service they need neither: the example `reqwest_client`.
//!
//! damper caches neither responses nor failures.
//!
//! # A stack
//!
//! `http::client_stack` has a setter for each of these places, and puts the layers into this order whichever is called first:
//!
#![cfg_attr(all(feature = "tower", feature = "hyper", feature = "tokio"), doc = "```")]
#![cfg_attr(not(all(feature = "tower", feature = "hyper", feature = "tokio")), doc = "```text")]
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
//!     Err(error) => println!("{}: {error}", error.part()), // breaker: circuit open, next probe in 28 s
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | you want | write |
//! |---|---|
//! | settings that a plain setter does not have | the layer, with `deadline_layer`, `breaker_layer`, `retry_layer` and so on |
//! | gRPC | `.protocol(tonic::Grpc::new())`, which is the completion of breaker and throttle and the protocol of retries and hedge |
//! | the client in a field of a struct | `.boxed(client)`, of type `http::BoxedClient<B>`, where `B` is the body of requests |
//! | which part ended a call, and for how long | `part()` and `retry_after()` of `http::StackError`, whose source is the typed refusal or the transport's error |
//!
//! Inside of a stack the error of every service is a `StackError`, which is an error and no box. So nothing needs `into_boxed`
//! or `judge_boxed`, and a classifier of your own names this type.
//!
//! `http::server_stack` does the same for a server. There a refusal is a response, and the error remains that of the handler:
//!
//! ```text
//! request ─▶ deadline ─▶ limit for each client ─▶ limit for all ─▶ admission ─▶ handler
//! ```
//!
//! # What the server says
//!
//! A classifier adds the server's wait to a [`Failure`](crate::retry::Failure). The retry comes no earlier, and later by up to a
//! tenth of it or the backoff's first delay, whichever is longer: so a hundred clients that were told "60 s" do not come
//! back together. A wait of more than [five minutes](crate::Retry::max_hint), or more than the deadline leaves, ends the call
//! at once.
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```text")]
//! use damper::Retry;
//! use damper::retry::{AnyError, Failure};
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
//!     Err(error) => Some(AnyError::judge(error)),
//! });
//! let answer = retry.call(|_| Ok(Answer { status: 200, retry_after: None }));
//! assert!(answer.is_ok_and(|answer| answer.status == 200));
//! ```
//!
//! # Calls of gRPC
//!
//! gRPC has rules of its own. Every call may be repeated, but only where it ended before its response began, with a code that you
//! name; the server can say when to come back to the millisecond, or not to. `RetryLayer` and `HedgeLayer` take them as their
//! `protocol`:
//!
#![cfg_attr(all(feature = "tonic", feature = "tokio"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "tonic", feature = "tokio")), doc = "```text")]
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
//! ```
//!
//! Messages are kept while they are sent, up to 64 KiB for each call, so that streams are retried too. For HTTP,
//! `RetryLayer::buffering` does the same. A request that provably reached no server (its connection was refused, HTTP/2 refused its
//! stream) is retried in both protocols whatever the method and the code are.
//!
//! # A slow server, and a slow call
//!
//! Where one call in a hundred is slow for no reason of its own, a second attempt beside it answers first: a
//! [`Hedge`](crate::retry::Hedge) makes it once the first takes longer than all but a few calls do. Simulated with 1 % of the
//! calls at 1 s and the others at 10 ms, one call in a thousand takes longer than 21 ms, for 1 % more requests (`tests/retry_hedge.rs`). Only calls
//! that may be made twice can be hedged.
//!
//! For HTTP and gRPC clients there is a layer, `HedgeLayer`. Use it where the tail of the latency matters to your callers and the slow
//! calls are scattered: one server among many that pauses, a lost packet, a cold cache. Where a server is slow for all, a second
//! request does not help; there the bound on extra requests (2 %, and 10) holds, and a deadline or a breaker is the remedy.
//!
//! | | |
//! |---|---|
//! | one hedge | for each kind of call: reads that take 5 ms hide in the same histogram how slow searches are |
//! | its place | inside of the retry, outside of the limit: it measures attempts, and its requests count in the limit |
//! | its budget | that of the retry around it |
//! | requests | of HTTP, idempotent ones with a body that can be sent again; all others pass. Of gRPC, all: `.protocol(GrpcRetries::on([Code::Unavailable]))`, where each attempt sends what is left of `grpc-timeout`, and a code that may not be repeated ends the call |
//! | what the server has to bear | the loser's work until it notices the closed connection or the reset stream |
//!
#![cfg_attr(all(feature = "tower", feature = "tokio"), doc = "```")]
#![cfg_attr(not(all(feature = "tower", feature = "tokio")), doc = "```text")]
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
//! ```
//!
//! # Many servers
//!
//! One budget for many servers lets the one that fails use up what the others need. A `RetryLayer` can have a budget per host,
//! in bounded memory: `RetryLayer::new(Retry::new(3)).budget_per_host(RetryBudgetConfig::DEFAULT)`. For a hedge inside of it
//! the bound of its own remains.
//!
//! # A second server
//!
//! While the circuit is open, another server may do (on sockets: the example `fallback_upstream`):
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```text")]
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
//! ```
//!
//! Only on `Open`: a call that failed may have been done, and a second server must not do it again unless it may be done
//! twice.
//!
//! [`Retry`]: crate::Retry
//! [`RetryBudget`]: crate::RetryBudget
