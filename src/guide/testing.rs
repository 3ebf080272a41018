//! Testing your own code: time that a test moves, assertions, refusals on demand, whole services.
//!
//! # Time that a test moves
//!
//! Every limiter, breaker, throttle and deadline reads a [`Clock`](crate::Clock). In a test, give it a
//! [`ManualClock`](crate::ManualClock). Nothing then depends on how fast the machine is, and an hour passes in no time:
//!
//! ```
//! use core::time::Duration;
//! use damper::time::DefaultClock;
//! use damper::{Clock, ManualClock, Quota, RateLimiter, TokenBucket};
//!
//! /// The code under test is generic over the clock. Outside tests it has the default one.
//! struct Mailer<C = DefaultClock> {
//!     limit: RateLimiter<TokenBucket, C>,
//! }
//!
//! impl<C: Clock> Mailer<C> {
//!     fn send(&self) -> &'static str {
//!         if self.limit.check().is_ok() { "sent" } else { "later" }
//!     }
//! }
//!
//! let clock = ManualClock::new();
//! let mailer = Mailer { limit: RateLimiter::with_clock(Quota::per_hour(2), &clock) };
//! assert_eq!([mailer.send(), mailer.send(), mailer.send()], ["sent", "sent", "later"]);
//! clock.advance(Duration::from_secs(30 * 60));
//! assert_eq!([mailer.send(), mailer.send()], ["sent", "later"]);
//! ```
//!
//! A reference to a clock is a clock, and so is an `Arc` of one. A clock may also
//! [step back](crate::ManualClock::step_back), as clocks of virtual machines do.
//!
//! # Assertions
//!
//! [`damper::testing`](crate::testing) has two, for the questions that tests of limits ask most: how many calls pass, and when does the
//! breaker open. They say what was seen if it is something else: `call 3 of 5 was refused: rate limit exceeded, retry in 500 ms`.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::testing::{assert_allows, assert_opens_after};
//! use damper::{BreakerConfig, CircuitBreaker, KeyedLimiter, ManualClock, Quota};
//! use std::time::Duration;
//!
//! let clock = ManualClock::new();
//! let uploads = KeyedLimiter::<str>::builder(Quota::per_minute(3)).clock(&clock).build()?;
//! assert_allows(3, || uploads.check("alice"));
//! clock.advance(Duration::from_secs(40));
//! assert_allows(2, || uploads.check("alice"));
//!
//! let payments = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, &clock);
//! let open = assert_opens_after(5, &payments);
//! assert_eq!(open.retry_after(), Some(Duration::from_secs(30)));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `assert_allows` takes any function that returns a `Result`, such as one of your own that asks a limiter inside.
//!
//! # Waiting on tokio's paused time
//!
//! A test with `#[tokio::test(start_paused = true)]` stops tokio's timer, but not damper's clock. Give damper tokio's
//! time as its clock, `TokioClock`, and both move together. When all tasks wait, tokio advances its time to the next timer, so a wait
//! of an hour takes no time:
//!
//! ```
//! # #[cfg(feature = "tokio")] {
//! use damper::time::TokioClock;
//! use damper::{Quota, RateLimiter};
//! use std::time::Duration;
//! use tokio::time::Instant;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn run() {
//! // In a test with paused time:
//! let start = Instant::now();
//! let limit = RateLimiter::with_clock(Quota::per_minute(1), TokioClock::new());
//! limit.acquire(1).await.unwrap();
//! limit.acquire(1).await.unwrap(); // waits for a minute, which takes no time
//! assert!(start.elapsed() >= Duration::from_secs(60));
//! # }
//! # run(); }
//! ```
//!
//! Prefer it to a [`ManualClock`](crate::ManualClock) wherever something waits: the timeouts of your service and of its libraries then
//! have the same time as its limits.
//!
//! # A service of your own
//!
//! Build the service by a function that takes its limits. The program passes those of production, and a test passes the same on a
//! clock that it moves. Here is an axum service with a limit per API key, before a handler that calls a payment server behind a breaker
//! and gives up after two seconds:
//!
//! ```
//! # #[cfg(all(feature = "axum", feature = "tokio"))] {
//! use axum::{Router, extract::State, routing::post};
//! use damper::http::{ByHeader, RateLimitLayer};
//! use damper::time::TokioClock;
//! use damper::{BreakerConfig, CallError, CircuitBreaker, Clock, KeyedLimiter, Quota};
//! use http::{HeaderName, Request, StatusCode};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use std::time::Duration;
//! use tower::ServiceExt;
//!
//! /// The payment server: here one that a test can make slow.
//! #[derive(Default)]
//! struct Payments {
//!     is_slow: AtomicBool,
//! }
//!
//! impl Payments {
//!     async fn pay(&self) -> Result<(), &'static str> {
//!         let latency = if self.is_slow.load(Ordering::Relaxed) { 10_000 } else { 20 };
//!         let answer = tokio::time::sleep(Duration::from_millis(latency));
//!         tokio::time::timeout(Duration::from_secs(2), answer).await.map_err(|_| "timeout")
//!     }
//! }
//!
//! /// The service under test.
//! fn app<C: Clock + Clone + Send + Sync + 'static>(clock: C, payments: Arc<Payments>) -> Router {
//!     let limits = KeyedLimiter::<[u8]>::builder(Quota::per_minute(6)).clock(clock.clone()).build().unwrap();
//!     let limits = ByHeader::new(HeaderName::from_static("x-api-key"), Arc::new(limits));
//!     let breaker = Arc::new(CircuitBreaker::with_clock(BreakerConfig::DEFAULT, clock));
//!     let pay = async |State((payments, breaker)): State<(Arc<Payments>, Arc<CircuitBreaker<C>>)>| {
//!         match breaker.run(payments.pay()).await {
//!             Ok(()) => StatusCode::NO_CONTENT,
//!             Err(CallError::Refused(_)) => StatusCode::SERVICE_UNAVAILABLE,
//!             Err(CallError::Failed(_)) => StatusCode::BAD_GATEWAY,
//!         }
//!     };
//!     Router::new().route("/pay", post(pay)).with_state((payments, breaker)).layer(RateLimitLayer::new(limits))
//! }
//!
//! /// The status of a request with this API key.
//! async fn pay(app: &Router, key: &str) -> u16 {
//!     let request = Request::post("/pay").header("x-api-key", key).body(axum::body::Body::empty()).unwrap();
//!     app.clone().oneshot(request).await.unwrap().status().as_u16()
//! }
//!
//! # fn main() { limits_each_key(); opens_when_payments_are_slow(); }
//! # /*
//! #[tokio::test(start_paused = true)]
//! # */
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn limits_each_key() {
//!     let app = app(TokioClock::new(), Arc::default());
//!     for status in [204, 204, 204, 204, 204, 204, 429] {
//!         assert_eq!(pay(&app, "alice").await, status);
//!     }
//!     assert_eq!(pay(&app, "bob").await, 204);
//!     tokio::time::advance(Duration::from_secs(10)).await;
//!     assert_eq!(pay(&app, "alice").await, 204);
//!     assert_eq!(pay(&app, "alice").await, 429);
//! }
//!
//! # /*
//! #[tokio::test(start_paused = true)]
//! # */
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn opens_when_payments_are_slow() {
//!     let payments = Arc::new(Payments::default());
//!     let app = app(TokioClock::new(), Arc::clone(&payments));
//!     payments.is_slow.store(true, Ordering::Relaxed);
//!     // Five timeouts open the breaker. They take ten seconds of the test's time, and none of yours.
//!     for status in [502, 502, 502, 502, 502, 503] {
//!         assert_eq!(pay(&app, "alice").await, status);
//!     }
//!     payments.is_slow.store(false, Ordering::Relaxed);
//!     tokio::time::advance(Duration::from_secs(30)).await;
//!     assert_eq!(pay(&app, "alice").await, 204, "the probe closes it");
//!     assert_eq!(pay(&app, "alice").await, 204);
//! }
//! # main() }
//! ```
//!
//! # A service without a free slot, an open circuit
//!
//! A test of an error path needs the refusal, not the story that leads to it:
//!
//! ```
//! use damper::concurrency::Bulkhead;
//! use damper::{CallError, CircuitBreaker, Quota, RateLimiter, is_refusal};
//!
//! # #[cfg(feature = "std")] {
//! let breaker = CircuitBreaker::<damper::time::DefaultClock>::default();
//! breaker.force_open();
//! let refused = breaker.call(|| Ok::<_, std::io::Error>(())).unwrap_err();
//! assert!(matches!(refused, CallError::Refused(_)) && is_refusal(&refused));
//! breaker.reset();
//!
//! let empty = RateLimiter::new(Quota::per_second(0).burst(0)); // refuses every call
//! assert!(empty.check().is_err());
//!
//! let pool = Bulkhead::new(1);
//! let held = pool.try_acquire();
//! assert!(pool.try_acquire().is_err());
//! # drop(held); }
//! ```
//!
//! # Layers
//!
//! A layer takes a limit that you built, so a test gives it one on a manual clock. `tower::ServiceExt::oneshot` sends a
//! request through the real layer without a socket:
//!
//! ```
//! # #[cfg(feature = "tower")] {
//! use damper::http::RateLimitLayer;
//! use damper::{ManualClock, Quota, RateLimiter};
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use std::sync::Arc;
//! use tower::{Layer, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn run() {
//! let clock = Arc::new(ManualClock::new());
//! let limit = Arc::new(RateLimiter::with_clock(Quota::per_minute(1), Arc::clone(&clock)));
//! let handler = tower::service_fn(|_: Request<()>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::new(bytes::Bytes::from("hello"))))
//! });
//! let service = RateLimitLayer::new(limit).layer(handler);
//! let status = |service: &_| ServiceExt::oneshot(Clone::clone(service), Request::new(()));
//! assert_eq!(status(&service).await.unwrap().status(), StatusCode::OK);
//! assert_eq!(status(&service).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
//! # }
//! # run(); }
//! ```
//!
//! # Chance
//!
//! Jitter, hashes and probes draw random numbers. [`Backoff::delays`](crate::retry::Backoff::delays) takes a seed, and
//! keyed limiters take a hasher with a [`Seed`](crate::time::Seed), so that a test that fails once fails again.
//!
//! # Before production
//!
//! `sim/` of the repository simulates traffic on the manual clock: limits on concurrency, pacing clients, and a full table
//! of keys. `cargo run --release -p damper-sim -- --help` lists the options: the number of clients, the quota, the kind of
//! server and so on.
