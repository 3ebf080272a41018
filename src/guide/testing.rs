//! Testing your own code: time that a test moves, refusals on demand, layers without sockets.
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
//! # Waiting on tokio's paused time
//!
//! A test with `#[tokio::test(start_paused = true)]` stops tokio's timer, but not damper's clock. Give damper tokio's
//! time as its clock, and both move together:
//!
//! ```
//! # #[cfg(feature = "tokio")] {
//! use damper::{Clock, Quota, RateLimiter};
//! use std::time::Duration;
//! use tokio::time::Instant;
//!
//! #[derive(Clone, Copy, Debug)]
//! struct TokioClock(Instant);
//!
//! impl Clock for TokioClock {
//!     fn now(&self) -> u64 {
//!         self.0.elapsed().as_nanos() as u64
//!     }
//!
//!     fn frequency(&self) -> u64 {
//!         1_000_000_000
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn run() {
//! // In a test with paused time:
//! let start = Instant::now();
//! let limit = RateLimiter::with_clock(Quota::per_minute(1), TokioClock(start));
//! limit.acquire(1).await.unwrap();
//! limit.acquire(1).await.unwrap(); // waits for a minute, which takes no time
//! assert!(start.elapsed() >= Duration::from_secs(60));
//! # }
//! # run(); }
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
