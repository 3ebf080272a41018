//! Rate limiters, circuit breakers, concurrency limits and retries for servers, clients and firmware.
//!
//! A limiter and a breaker are plain values that decide on one atomic word. They need no lock, no background thread and no
//! runtime, so they can be a `static`, a field or the content of an `Arc`.
//!
//! # A limiter
//!
//! A [`Quota`] is a rate and a burst. A [`RateLimiter`] holds calls to it: in any stretch of time it allows at most the burst
//! and the tokens that the rate adds meanwhile.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::{Quota, RateLimiter};
//!
//! static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
//!
//! match LOGINS.check() {
//!     Ok(allowed) => println!("{} left", allowed.remaining()),
//!     Err(denied) => println!("{denied}"), // rate limit exceeded, retry in 1.2 s
//! }
//! # }
//! ```
//!
//! `LOGINS.acquire(1).wait()` blocks until there is a token, and `.await` does so in a future (feature `tokio`).
//! `LOGINS.set_quota(quota)` changes the quota while the limiter is in use. [`guide::rates`] says how to choose one.
//!
//! # A limiter per key
//!
//! A [`KeyedLimiter`] has a limit for each client, user or tenant. Its memory is fixed at construction, so that a flood of new
//! keys cannot exhaust it.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::{KeyedLimiter, Quota};
//! use std::net::IpAddr;
//!
//! let limits = KeyedLimiter::<IpAddr>::builder(Quota::per_second(50).burst(100)).capacity(100_000).build()?;
//! limits.check(&IpAddr::from([192, 0, 2, 7]))?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # In front of a server
//!
//! With the feature `axum` the same limit is a layer. It answers `429 Too Many Requests` with `Retry-After`. `damper::http` has the
//! layers, for tower and hyper too.
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! use axum::{Router, routing::get};
//! use damper::{Quota, http::RateLimitLayer};
//!
//! let clients = RateLimitLayer::per_client(Quota::per_second(50).burst(100));
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(clients);
//! # }
//! ```
//!
//! # A call to another service
//!
//! A [`CircuitBreaker`] stops calls to a service that keeps failing. [`Retry`] repeats a failed call. Its [`RetryBudget`] is shared by all
//! calls, so that retries cannot multiply the load in an outage.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::{CircuitBreaker, Retry, RetryBudget};
//!
//! static BUDGET: RetryBudget = RetryBudget::DEFAULT; // a fifth of the calls, and 10 a second
//!
//! let breaker = CircuitBreaker::default(); // opens after 5 consecutive failures, for 30 s
//! let retry = Retry::new(3).budget(&BUDGET);
//! let answer = breaker.call(|| retry.call(|_attempt| "42".parse::<u32>()))?;
//! assert_eq!(answer, 42);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! For an HTTP client `damper::http::client_stack` puts these into the right order. [`guide::retries`] has the reasons for it.
//!
//! # Where to go from here
//!
//! - [`guide`] compares the limits, and states what exactly each promises.
//! - [`guide::coming_from`] has the names of other libraries beside damper's.
//! - [`ManualClock`] moves time by hand, in tests of your own code.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`quota`] | [`Quota`]: the allowed rate, in tokens per window, and a burst |
//! | [`limit`] | [`RateLimiter`], and its answers |
//! | [`keyed`] | [`KeyedLimiter`]: a limit per key |
//! | [`breaker`] | [`CircuitBreaker`], and its permits; [`KeyedCircuitBreaker`]: a breaker per key |
//! | [`store`] | [`BoundedStore`]: a bounded store of any value per key; [`Keyed`](store::Keyed): of values with common settings |
//! | [`deadline`] | [`Deadline`]: the time that a piece of work may take, passed on as a value |
//! | [`retry`] | [`Retry`]: tries again, with a [`Backoff`] and within a [`RetryBudget`] |
//! | [`throttle`] | [`AdaptiveThrottle`](throttle::AdaptiveThrottle): refuses calls that an overloaded service would reject; `KeyedThrottle`: per key; [`Pacer`](throttle::Pacer): sleeps before calls to a service with a limit |
//! | [`concurrency`] | [`Bulkhead`]: how many calls may be in flight at once; [`AdaptiveLimit`]: as the service's latency says; [`KeyedBulkhead`] and [`KeyedAdaptiveLimit`]: per key; `Admission`: and which calls |
//! | [`gate`] | what all of these share: [`Verdict`](gate::Verdict), how a call went; [`Permit`](gate::Permit) and [`Refusal`](gate::Refusal), what a gate answers |
//! | [`shadow`] | [`Shadowed`](shadow::Shadowed): a candidate decides beside the limiter or breaker in force, and changes nothing |
//! | `decision_log` | `DecisionLog`: the last decisions of limiters, to compute what another quota would have refused |
//! | [`word32`] | limiter and breaker in words of 32 bits, for firmware: [`RateLimiter32`], [`CircuitBreaker32`] |
//! | [`words`] | limits on words that the program owns, shared by processes or cores: [`WordLimiter`](words::WordLimiter), [`WordBulkhead`](words::WordBulkhead) |
//! | [`setting`] | [`Live`]: a timeout, a wait or the attempts of retries that change while calls are made |
//! | [`time`] | [`Clock`], the clocks there are, and how to write one; [`Sleep`](time::Sleep), seeds |
//! | [`testing`] | assertions for tests of your own code |
//! | [`guide`] | how to choose an algorithm, a rate and a burst, and what exactly is promised |
//! | `http` | limits before HTTP servers, breakers, throttles and pacing before HTTP clients |
//! | `tonic` | the same for gRPC |
//! | `config` | settings of all these from files and the environment, checked and reloaded live |
//! | `mesh` | documents of the protocol Mesh, limits of several scopes, a server and a client |
//! | `redis` | one limit across machines, leased and exact |
//! | `shm` | memory that processes share, for limits on [`words`], and seats for workers (Linux) |
//! | `tower` | breakers, throttles, pacing, limits and bulkheads before services of any request |
//! | `metrics` | exports of limiters, breakers and others, with a dashboard and alerts |
//! | `live` | a page for browsers that shows all these live, and changes them |
//! | `io` | readers, writers and bodies whose bytes come no faster than a limit |
//! | `logs` | limits of log calls, which count what they suppress |
//! | `wire` | headers: what a server says of its limits, and whom a request is from |
//!
//! # Features
//!
//! All are additive; without any the crate needs neither `std` nor `alloc`.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | the default clock and hasher; `wait`, `Striped`, `CoarseTicker` |
//! | `alloc` | yes | [`SlidingLog`], [`KeyedLimiter`]s of any size and of several quotas; [`BoundedStore`], [`KeyedCircuitBreaker`], `KeyedThrottle`, queues of [`Bulkhead`]s, [`KeyedBulkhead`], [`KeyedAdaptiveLimit`], `Admission`, `Arc`s as clocks and owned permits where the target has atomic pointers |
//! | `defmt` | | `defmt::Format` for answers, states and errors |
//! | `rustix` | | `time::HostMonotonic`: the monotonic clock of a Unix host, the same in all processes |
//! | `serde` | | quotas in files, as text: `"100/s burst 200"` |
//! | `tokio` | | `acquire(n).await`: futures that wait for tokens or permits by tokio's timer (with `std`) |
//! | `compared` | | rules of other libraries for adaptive limits and pacing, to compare with |
//! | `futures` | | streams and sinks whose items wait for tokens |
//! | `http` | | layers of HTTP for services of tower: limits, breakers, retries and others (with `std`) |
//! | `tower` | | layers for services of tower with requests of any type |
//! | `hyper` | | these as services of hyper |
//! | `axum` | | finds the address of a request's peer in axum (with `tower`) |
//! | `tonic` | | these for gRPC, with tonic (with `tower`) |
//! | `config` | | settings from TOML, JSON, YAML and environment variables, checked and reloaded live |
//! | `mesh` | | documents of the protocol Mesh, and servers and clients that speak it over HTTP (with `http`) |
//! | `metrics` | | exports of limiters, breakers and others by the facade `metrics`, and counts of what those for HTTP and Mesh do |
//! | `opentelemetry` | | names of OpenTelemetry's proposals for these metrics, and as attributes of spans (with `metrics`) |
//! | `live` | | a page that shows limits and breakers live, for browsers, and changes them (with `hyper`, `metrics`, `tokio` and `tower`) |
//! | `io` | | readers, writers and bodies whose bytes come no faster than a limit: of `std`, with `tokio` of tokio, with `http` of HTTP |
//! | `futures-io` | | these of the crate `futures` (with `io` and `std`) |
//! | `embedded-io` | | these of `embedded-io` and `embedded-io-async` (with `io`) |
//! | `logs` | | limits of log calls for the facade `log`, and with `defmt` for firmware |
//! | `logs-tracing` | | these for the facade `tracing`, and a layer with a limit per call site (with `logs` and `std`) |
//! | `redis` | | one limit across machines, on Redis (with `tokio`) |
//! | `redis-tls` | | that with TLS: `rediss://` and `valkeys://` (with `redis`) |
//! | `shm` | | memory that processes share, for limits on [`words`] (with `rustix` and `std`; empty but on Linux) |
//! | `tracing` | | logs of what limits refuse and how breakers change (with `http`) |
//!
//! # Crates
//!
//! This crate re-exports others, which have versions of their own. Firmware and middleware can depend on one of them alone.
//!
//! | crate | here |
//! |---|---|
//! | [`damper-core`](https://docs.rs/damper-core) | all that needs no protocol |
//! | [`damper-http`](https://docs.rs/damper-http) | `http`, `wire` |
//! | [`damper-tonic`](https://docs.rs/damper-tonic) | `tonic` |
//! | [`damper-tower`](https://docs.rs/damper-tower) | `tower` |
//! | [`damper-mesh`](https://docs.rs/damper-mesh) | `mesh` |
//! | [`damper-config`](https://docs.rs/damper-config) | `config` |
//! | [`damper-metrics`](https://docs.rs/damper-metrics) | `metrics` |
//! | [`damper-live`](https://docs.rs/damper-live) | `live` |
//! | [`damper-io`](https://docs.rs/damper-io) | `io` |
//! | [`damper-log`](https://docs.rs/damper-log) | `logs` |
//! | [`damper-redis`](https://docs.rs/damper-redis) | `redis` |
//! | [`damper-shm`](https://docs.rs/damper-shm) | `shm` |
//!
//! # Targets without 64-bit atomics
//!
//! There a change of a 64-bit word takes a critical section, which the firmware implements with the crate `critical-section`. The types of
//! [`word32`] need none.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(clippy::std_instead_of_core)]

pub mod guide;

#[cfg(feature = "config")]
#[doc(inline)]
pub use damper_config as config;
#[doc(inline)]
pub use damper_core::*;
#[cfg(feature = "http")]
#[doc(inline)]
pub use damper_http as http;
#[cfg(feature = "http")]
#[doc(inline)]
pub use damper_http::wire;
#[cfg(feature = "io")]
#[doc(inline)]
pub use damper_io as io;
#[cfg(feature = "live")]
#[doc(inline)]
pub use damper_live as live;
#[cfg(feature = "logs")]
#[doc(inline)]
pub use damper_log as logs;
#[cfg(feature = "mesh")]
#[doc(inline)]
pub use damper_mesh as mesh;
#[cfg(feature = "metrics")]
#[doc(inline)]
pub use damper_metrics as metrics;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use damper_redis as redis;
#[cfg(feature = "shm")]
#[doc(inline)]
pub use damper_shm as shm;
#[cfg(feature = "tonic")]
#[doc(inline)]
pub use damper_tonic as tonic;
#[cfg(feature = "tower")]
#[doc(inline)]
pub use damper_tower as tower;

/// The README's examples are tests.
#[cfg(all(doctest, feature = "axum", feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct Readme;
